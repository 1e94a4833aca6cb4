//! What a run has found: each figure taken once a round, and the medians that count.

use serde::{Serialize, Serializer};

/// One round of one case at one peer: name of the figure, with its unit, and value.
pub type Taken = Vec<(&'static str, f64)>;

/// All rounds.
#[derive(Debug, Default)]
pub struct Rounds {
    taken: Vec<(Key, Vec<Taken>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    part: &'static str,
    case: String,
    peer: &'static str,
}

/// The medians of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Processor and number of cores.
    pub machine: String,
    /// How often each figure was taken.
    pub rounds: usize,
    /// One line for each case and peer.
    pub rows: Vec<Row>,
}

/// One case at one peer.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub part: &'static str,
    /// Under which circumstances.
    pub case: String,
    /// Who was measured.
    pub peer: &'static str,
    /// Medians.
    #[serde(serialize_with = "as_map")]
    pub figures: Taken,
    /// Medians of the ratios to the bare proxy in the same round.
    #[serde(serialize_with = "as_map")]
    pub ratios: Taken,
}

/// A map whose members stand in the order of the list.
fn as_map<S: Serializer>(taken: &Taken, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(taken.iter().copied())
}

/// The peer that ratios are to.
pub const FLOOR: &str = "proxy";

impl Rounds {
    /// Keeps what a round has given.
    pub fn take(&mut self, part: &'static str, case: &str, peer: &'static str, taken: Taken) {
        let key = Key { part, case: case.to_owned(), peer };
        match self.taken.iter_mut().find(|(known, _)| *known == key) {
            Some((_, rounds)) => rounds.push(taken),
            None => self.taken.push((key, vec![taken])),
        }
    }

    /// The medians.
    pub fn report(&self, rounds: usize) -> Report {
        let rows = self.taken.iter().map(|(key, taken)| {
            let floor = Key { peer: FLOOR, ..key.clone() };
            let floor = self.taken.iter().find(|(other, _)| *other == floor && *other != *key);
            let mut row = Row {
                part: key.part,
                case: key.case.clone(),
                peer: key.peer,
                figures: Vec::new(),
                ratios: Vec::new(),
            };
            for (name, _) in &taken[0] {
                let values: Vec<f64> = taken.iter().filter_map(|round| of(round, name)).collect();
                row.figures.push((name, median(values)));
                let Some((_, floor)) = floor else { continue };
                let ratios = taken.iter().zip(floor).filter_map(|(round, floor)| {
                    let floor = of(floor, name).filter(|floor| *floor > 0.0)?;
                    Some(of(round, name)? / floor)
                });
                let ratios: Vec<f64> = ratios.collect();
                if !ratios.is_empty() {
                    row.ratios.push((name, median(ratios)));
                }
            }
            row
        });
        Report { machine: machine(), rounds, rows: rows.collect() }
    }
}

/// A figure by its name.
pub fn of(taken: &[(&'static str, f64)], name: &str) -> Option<f64> {
    taken.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let names = cpus.lines().filter_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let names: Vec<&str> = names.map(|(_, name)| name).collect();
    format!("{} × {}", names.len(), names.first().unwrap_or(&"an unknown processor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios_are_of_the_same_round() {
        let mut rounds = Rounds::default();
        for (proxy, sluice) in [(10.0, 20.0), (20.0, 30.0), (30.0, 90.0)] {
            rounds.take("json", "c=1", "proxy", vec![("us", proxy), ("errors", 0.0)]);
            rounds.take("json", "c=1", "sluice", vec![("us", sluice), ("errors", 0.0)]);
        }
        let report = rounds.report(3);
        let [proxy, sluice] = report.rows.as_slice() else { panic!("expected two rows") };
        assert_eq!((of(&proxy.figures, "us"), proxy.ratios.len()), (Some(20.0), 0));
        assert_eq!((of(&sluice.figures, "us"), of(&sluice.ratios, "us")), (Some(30.0), Some(2.0)));
        assert_eq!(of(&sluice.ratios, "errors"), None, "nothing is a ratio of zero");
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
    }
}
