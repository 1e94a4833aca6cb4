//! The table on the screen: plain text in a hundred columns, a row as soon as it is there.

use std::io::{self, Write};
use std::time::Duration;

use super::row::Row;

/// Width of everything.
const WIDTH: usize = 100;
/// Before each line of a row: mark and number.
const INDENT: usize = 5;
/// Widths of the cells; a gap of two lies between them.
const CELLS: [usize; 4] = [27, 24, 28, 10];
const HEADS: [&str; 4] = ["asked", "the upstreams did", "the client got", "served by"];

/// Where the table goes.
pub struct Table<'a> {
    out: &'a mut dyn Write,
    /// It is a terminal, so that a line can be taken back.
    live: bool,
    running: bool,
}

impl<'a> Table<'a> {
    /// A table on `out`. `live`: a terminal, where the row that is played shows until it is done.
    pub fn new(out: &'a mut dyn Write, live: bool) -> Self {
        Self { out, live, running: false }
    }

    /// A line of text.
    ///
    /// # Errors
    /// What writing gives.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        self.clear()?;
        writeln!(self.out, "{}", shown(text))?;
        self.out.flush()
    }

    /// The head.
    ///
    /// # Errors
    /// What writing gives.
    pub fn head(&mut self) -> io::Result<()> {
        self.lines(["", ""], &HEADS.map(|head| vec![head.to_owned()]))?;
        self.rule()
    }

    /// A line across.
    ///
    /// # Errors
    /// What writing gives.
    pub fn rule(&mut self) -> io::Result<()> {
        writeln!(self.out, "{}", "─".repeat(WIDTH))
    }

    /// Says which row is played now.
    ///
    /// # Errors
    /// What writing gives.
    pub fn running(&mut self, number: u8, title: &str) -> io::Result<()> {
        if self.live {
            write!(self.out, "… {number:>2} {title}")?;
            self.running = true;
            self.out.flush()?;
        }
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.running) {
            write!(self.out, "\r\x1b[2K")?;
        }
        Ok(())
    }

    /// A row that was played.
    ///
    /// # Errors
    /// What writing gives.
    pub fn row(&mut self, row: &Row) -> io::Result<()> {
        self.clear()?;
        let mark = if row.is_right() { "✓" } else { "✗" };
        let mut asked = vec![row.title.to_owned()];
        asked.extend(row.asked.iter().cloned());
        let mut served = row.served.clone();
        served.push(time(row.took));
        let cells = [asked, row.upstreams.clone(), row.client.clone(), served];
        self.lines([mark, &row.number.to_string()], &cells)?;
        let events = if row.events.is_empty() { "none".to_owned() } else { row.events.join(", ") };
        let told = std::iter::once(format!("events: {events}"));
        for text in told.chain(row.wrong.iter().map(|wrong| format!("✗ {wrong}"))) {
            for line in wrap(&text, WIDTH - INDENT) {
                writeln!(self.out, "{}{line}", " ".repeat(INDENT))?;
            }
        }
        self.rule()?;
        self.out.flush()
    }

    fn lines(&mut self, [mark, number]: [&str; 2], cells: &[Vec<String>; 4]) -> io::Result<()> {
        let wrapped: Vec<Vec<String>> = cells
            .iter()
            .zip(CELLS)
            .map(|(cell, width)| cell.iter().flat_map(|text| wrap(text, width)).collect())
            .collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or_default();
        for at in 0..height {
            let mut line = if at == 0 { format!("{mark:<1} {number:>2} ") } else { " ".repeat(INDENT) };
            for (cell, width) in wrapped.iter().zip(CELLS) {
                line.push_str(&format!("{:<width$}  ", cell.get(at).map_or("", String::as_str)));
            }
            writeln!(self.out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A time as people read it.
pub fn time(time: Duration) -> String {
    let ms = time.as_millis();
    if ms < 1000 { format!("{ms}\u{a0}ms") } else { format!("{:.2}\u{a0}s", time.as_secs_f64()) }
}

/// What holds words together in a line is a plain space on the screen.
fn shown(text: &str) -> String {
    text.replace('\u{a0}', " ")
}

/// Breaks a text between words, at plain spaces only; a word that is too long for a line stays whole on a line of its own.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut();
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| shown(line)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop where it fails")]
mod tests {
    use super::*;

    #[test]
    fn a_row_fits_its_columns_and_says_what_is_wrong() {
        let mut row = Row::new(3, "a title of more words than one line of its cell can hold");
        row.client.push("200, the whole answer of the backup and nothing of the primary".to_owned());
        row.events = vec!["provider_request_failed primary/large".to_owned(); 4];
        row.check("nothing is wrong", true);
        row.equal("status", 502, 200);
        let mut out = Vec::new();
        Table::new(&mut out, false).row(&row).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("✗  3 a title of more words"), "{text}");
        assert!(text.contains("     ✗ status: expected 200, got 502\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn a_row_without_a_check_is_not_right() {
        let mut row = Row::new(1, "t");
        assert!(!row.is_right());
        row.check("c", true);
        assert!(row.is_right());
    }
}
