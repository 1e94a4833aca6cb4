//! A report for people: a table for each part, with ratios to the bare proxy in brackets.

use std::fmt::Write as _;

use crate::figures::{Report, Row, of};

/// The tables.
pub fn render(report: &Report) -> String {
    let mut text = format!(
        "{}; medians of {} rounds; in brackets the ratio to the bare proxy in the same round\n",
        report.machine, report.rounds
    );
    let mut rest = report.rows.as_slice();
    while let Some(first) = rest.first() {
        let known = names(first);
        let belongs =
            |row: &&Row| row.part == first.part && names(row).iter().all(|name| known.contains(name));
        let (part, others) = rest.split_at(rest.iter().take_while(belongs).count());
        text.push('\n');
        text.push_str(&section(part, &known));
        rest = others;
    }
    text
}

fn names(row: &Row) -> Vec<&'static str> {
    row.figures.iter().map(|(name, _)| *name).collect()
}

/// Rows that have no figures but those in `names`.
fn section(rows: &[Row], names: &[&str]) -> String {
    let mut lines = vec![vec![rows[0].part.to_owned(), "who".to_owned()]];
    lines[0].extend(names.iter().map(|name| (*name).to_owned()));
    for row in rows {
        let mut line = vec![row.case.clone(), row.peer.to_owned()];
        line.extend(names.iter().map(|name| match (of(&row.figures, name), of(&row.ratios, name)) {
            (Some(value), Some(ratio)) => format!("{} ({ratio:.2})", number(value)),
            (Some(value), None) => number(value),
            (None, _) => "-".to_owned(),
        }));
        lines.push(line);
    }
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for line in &lines {
        for (at, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = if at < 2 { write!(text, "{cell:<width$}  ") } else { write!(text, "{cell:>width$}  ") };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_names_its_ratios() {
        let row = |peer, figures: &[(&'static str, f64)], ratios: &[(&'static str, f64)]| Row {
            part: "json",
            case: "c=16".to_owned(),
            peer,
            figures: figures.to_vec(),
            ratios: ratios.to_vec(),
        };
        let report = Report {
            machine: "2 × X".to_owned(),
            rounds: 3,
            rows: vec![
                row("proxy", &[("cpu us", 19.0), ("errors", 0.0)], &[]),
                row("sluice", &[("cpu us", 1234.4), ("errors", 0.0)], &[("cpu us", 2.5)]),
                row("direct", &[("errors", 2.0)], &[]),
            ],
        };
        let expected = "\
2 × X; medians of 3 rounds; in brackets the ratio to the bare proxy in the same round

json  who          cpu us  errors
c=16  proxy          19.0       0
c=16  sluice  1234 (2.50)       0
c=16  direct            -   2.000
";
        assert_eq!(render(&report), expected);
    }
}
