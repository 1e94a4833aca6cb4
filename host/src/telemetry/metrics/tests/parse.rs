//! A strict reader of the text exposition format: what it does not know is a failure of the test.

use std::collections::{BTreeMap, BTreeSet};

pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

#[derive(Default)]
pub struct Exposition {
    pub types: BTreeMap<String, String>,
    pub series: Vec<Sample>,
}

impl Exposition {
    pub fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has no end");
        let mut page = Self::default();
        let mut helped = BTreeSet::new();
        let mut family = (String::new(), String::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, words) = help.split_once(' ').expect("a HELP without text");
                assert!(!words.is_empty(), "{line}");
                assert!(helped.insert(name.to_owned()), "twice: {line}");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect("a TYPE without a type");
                assert!(helped.contains(name), "no HELP before {line}");
                assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
                assert!(page.types.insert(name.into(), kind.into()).is_none(), "twice: {line}");
                family = (name.into(), kind.into());
            } else {
                let sample = sample(line);
                let suffix = sample
                    .name
                    .strip_prefix(&family.0)
                    .unwrap_or_else(|| panic!("{line} under {}", family.0));
                let fits = match family.1.as_str() {
                    "histogram" => matches!(suffix, "_bucket" | "_sum" | "_count"),
                    _ => suffix.is_empty(),
                };
                assert!(fits, "{line} under {family:?}");
                assert!(family.1 != "counter" || sample.value >= 0.0, "{line}");
                page.series.push(sample);
            }
        }
        page.check_unique();
        page.check_histograms();
        page
    }

    /// The labels that the series of a name have; `le` is of the format. All of them must have the same.
    pub fn labels_of(&self, name: &str) -> BTreeSet<String> {
        let histogram = self.types[name] == "histogram";
        let own = if histogram { format!("{name}_count") } else { name.to_owned() };
        let mut sets: BTreeSet<BTreeSet<String>> = BTreeSet::new();
        for sample in self.series.iter().filter(|s| s.name == own) {
            sets.insert(sample.labels.keys().cloned().collect());
        }
        assert_eq!(sets.len(), 1, "{name}: {sets:?}");
        sets.pop_first().expect("one set")
    }

    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.matching(name, labels).map(|s| s.value).sum()
    }

    pub fn count(&self, name: &str) -> usize {
        self.series_with(name, &[])
    }

    pub fn series_with(&self, name: &str, labels: &[(&str, &str)]) -> usize {
        self.matching(name, labels).count()
    }

    fn matching(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = &Sample> {
        let wanted = move |s: &&Sample| {
            s.name == name && labels.iter().all(|(k, v)| s.labels.get(*k).is_some_and(|have| have == v))
        };
        self.series.iter().filter(wanted)
    }

    fn check_unique(&self) {
        let mut seen = BTreeSet::new();
        for sample in &self.series {
            assert!(
                seen.insert((&sample.name, &sample.labels)),
                "twice: {} {:?}",
                sample.name,
                sample.labels
            );
        }
    }

    /// Bounds rise, counts never fall, and `+Inf` is the count.
    fn check_histograms(&self) {
        for name in self.types.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name) {
            let (count, bucket) = (format!("{name}_count"), format!("{name}_bucket"));
            for total in self.series.iter().filter(|s| s.name == count) {
                let mut last = (f64::NEG_INFINITY, 0.0);
                for sample in self.series.iter().filter(|s| s.name == bucket) {
                    let mut labels = sample.labels.clone();
                    let le = labels.remove("le").expect("a bucket without `le`");
                    if labels == total.labels {
                        let le = if le == "+Inf" { f64::INFINITY } else { le.parse().expect("a bound") };
                        assert!(le > last.0 && sample.value >= last.1, "{name} {:?}", sample.labels);
                        last = (le, sample.value);
                    }
                }
                assert_eq!(last, (f64::INFINITY, total.value), "{name} {:?}", total.labels);
            }
        }
    }
}

fn sample(line: &str) -> Sample {
    let (name, mut rest) = line.split_at(line.find(['{', ' ']).expect("a sample without a value"));
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"").expect("a label without a value");
            assert!(is_name(label), "{label} in {line}");
            let (value, after) = unescape(after);
            assert!(labels.insert(label.to_owned(), value).is_none(), "twice {label} in {line}");
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').expect("one space before the value");
    let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
    assert!(value.is_finite(), "{line}");
    Sample { name: name.into(), labels, value }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A label value up to its closing quote, and what follows that.
fn unescape(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => value.push('\n'),
                Some(c @ ('\\' | '"')) => value.push(c),
                other => panic!("escape {other:?} in {text}"),
            },
            c => value.push(c),
        }
    }
    panic!("no closing quote in {text}")
}
