//! Numbers of a metrics page, for the rows that check them.

/// A page in the text format.
#[derive(Debug, Clone)]
pub struct Metrics(pub String);

impl Metrics {
    /// The sum of all samples of this name with all these labels; 0 when there are none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let value = |line: &str| {
            let rest = line.strip_prefix(name)?;
            let (set, value) = match rest.strip_prefix('{') {
                Some(rest) => rest.rsplit_once("} ")?,
                None => ("", rest.strip_prefix(' ')?),
            };
            let has =
                |&(label, value): &(&str, &str)| pairs(set).any(|pair| pair == (label, value.to_owned()));
            labels.iter().all(has).then(|| value.trim().parse::<f64>().ok())?
        };
        self.0.lines().filter_map(value).fold(0.0, |sum, value| sum + value)
    }

    /// Requests that ended so.
    pub fn outcome(&self, outcome: &str) -> f64 {
        self.sum("sluice_requests_total", &[("outcome", outcome)])
    }
}

/// The labels of a sample, `name="value"` with commas between them; values are escaped as the format has it.
fn pairs(set: &str) -> impl Iterator<Item = (&str, String)> {
    let mut rest = set;
    std::iter::from_fn(move || {
        let (label, behind) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = behind.char_indices();
        loop {
            match letters.next()? {
                (at, '"') => {
                    rest = behind.get(at + 1..)?.trim_start_matches(',');
                    return Some((label, value));
                }
                (_, '\\') => value.push(letters.next().map(|(_, c)| if c == 'n' { '\n' } else { c })?),
                (_, c) => value.push(c),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_told_apart_by_name_and_labels() {
        let page = Metrics(
            "# HELP a b\na{x=\"1\",y=\"p/q\"} 2\na{x=\"2\",y=\"p/q\"} 3\na_count 9\nab 7\nm{t=\"a,b=\\\"c\\\"} \\\\\",u=\"v\"} 5\n".to_owned(),
        );
        let check = |name, labels: &[(&str, &str)], sum: f64| {
            assert!((page.sum(name, labels) - sum).abs() < f64::EPSILON, "{name} {labels:?}");
        };
        check("a", &[], 5.0);
        check("a", &[("x", "1")], 2.0);
        check("a", &[("x", "1"), ("y", "p/q")], 2.0);
        check("a", &[("x", "3")], 0.0);
        check("a_count", &[], 9.0);
        check("m", &[("t", "a,b=\"c\"} \\"), ("u", "v")], 5.0);
        check("m", &[("t", "a")], 0.0);
    }
}
