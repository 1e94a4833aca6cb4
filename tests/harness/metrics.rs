//! A metrics page, parsed.

use std::collections::BTreeMap;

/// One line of the page.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// With `_bucket`, `_sum`, `_count` where it is a histogram.
    pub name: String,
    /// By name.
    pub labels: BTreeMap<String, String>,
    /// As written.
    pub value: f64,
}

/// All samples of one moment.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// In the order of the page.
    pub samples: Vec<Sample>,
    /// The page.
    pub text: String,
}

impl Metrics {
    /// Parses the Prometheus text format.
    ///
    /// # Panics
    /// On a line that is none of that format.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples =
            lines.map(|line| sample(line).unwrap_or_else(|| panic!("no metrics line: {line}"))).collect();
        Self { samples, text: text.to_owned() }
    }

    /// Samples of this name that have all these labels.
    pub fn all<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a Sample> {
        let fits = move |sample: &Sample| {
            labels.iter().all(|(k, v)| sample.labels.get(*k).is_some_and(|got| got == v))
        };
        self.samples.iter().filter(move |sample| sample.name == name && fits(sample))
    }

    /// Their sum; 0 when there are none.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.all(name, labels).map(|sample| sample.value).sum()
    }

    /// Whether there is any sample of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.samples.iter().any(|sample| sample.name == name)
    }

    /// The sums by one label.
    #[must_use]
    pub fn by(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for sample in self.all(name, &[]) {
            let value = sample.labels.get(label).cloned().unwrap_or_default();
            *sums.entry(value).or_default() += sample.value;
        }
        sums
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (name, mut rest) = line.split_at(line.find(['{', ' '])?);
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.insert(label.trim_start_matches(',').to_owned(), value);
            rest = after;
        }
        rest = &rest[1..];
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// The value up to its closing quote, and what follows that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            (_, other) => value.push(other),
        }
    }
}
