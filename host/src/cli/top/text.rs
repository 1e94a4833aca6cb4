//! Lines of pieces, each with what it means rather than a colour; tables of them; and text from elsewhere made
//! harmless.

/// What a piece means. Nothing is told by it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Tone {
    /// Text.
    #[default]
    Plain,
    /// Less important.
    Quiet,
    /// A heading.
    Head,
    /// As it should be.
    Good,
    /// Somebody should look.
    Warn,
    /// Callers suffer.
    Bad,
}

/// A piece of a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Piece {
    /// Harmless text: no control characters.
    pub(super) text: String,
    /// Its meaning.
    pub(super) tone: Tone,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Line(pub(super) Vec<Piece>);

/// A piece of text, made harmless.
pub(super) fn piece(text: impl AsRef<str>, tone: Tone) -> Piece {
    Piece { text: visible(text.as_ref()), tone }
}

impl Line {
    /// Its text.
    pub(super) fn plain(&self) -> String {
        let text: String = self.0.iter().map(|piece| piece.text.as_str()).collect();
        text.trim_end().to_owned()
    }

    /// Cuts what is longer than so many characters.
    pub(super) fn cut(&mut self, width: usize) {
        let mut room = width;
        for piece in &mut self.0 {
            piece.text = clip(&piece.text, room);
            room -= piece.text.chars().count().min(room);
        }
    }
}

/// Characters that steer a terminal or turn the direction of text, as signs that show what was there.
pub(super) fn visible(text: &str) -> String {
    let sign = |c: char| match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => '\u{fffd}',
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => {
            '\u{fffd}'
        }
        c => c,
    };
    text.chars().map(sign).collect()
}

/// At most so many characters, the last of them a mark where there were more.
pub(super) fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// What is above it.
    pub(super) head: &'static str,
    /// Numbers stand at the right.
    pub(super) number: bool,
    /// The fewest characters that it is cut to where the window is narrow; none: it is not cut.
    pub(super) least: Option<usize>,
}

/// Lines of a table, its head first, at most `width` characters wide. Columns that may be cut are, the widest first.
pub(super) fn table(columns: &[Column], rows: &[Vec<Piece>], width: Option<usize>) -> Vec<Line> {
    let head: Vec<Piece> = columns.iter().map(|column| piece(column.head, Tone::Quiet)).collect();
    let all: Vec<&Vec<Piece>> = std::iter::once(&head).chain(rows).collect();
    let length = |cell: Option<&Piece>| cell.map_or(0, |cell| cell.text.chars().count());
    let mut widths: Vec<usize> =
        (0..columns.len()).map(|at| all.iter().map(|row| length(row.get(at))).max().unwrap_or(0)).collect();
    let gaps = 2 * columns.len().saturating_sub(1);
    while width.is_some_and(|width| widths.iter().sum::<usize>() + gaps > width) {
        let may = |(at, now): &(usize, &usize)| columns[*at].least.is_some_and(|least| **now > least);
        let widest = widths.iter().enumerate().filter(may).max_by_key(|(_, now)| **now).map(|(at, _)| at);
        let Some(at) = widest else { break };
        widths[at] -= 1;
    }
    let line = |row: &&Vec<Piece>| {
        let mut line = Line::default();
        for ((cell, column), width) in row.iter().zip(columns).zip(&widths) {
            if !line.0.is_empty() {
                line.0.push(Piece { text: "  ".to_owned(), tone: Tone::Plain });
            }
            let text = clip(&cell.text, *width);
            let text = if column.number { format!("{text:>width$}") } else { format!("{text:<width$}") };
            line.0.push(Piece { text, tone: cell.tone });
        }
        if let Some(width) = width {
            line.cut(width);
        }
        line
    };
    all.iter().map(line).collect()
}

/// A length of time in milliseconds: `850 ms`, `1.25 s`, `14 s`, `2 m 05 s`.
pub(super) fn length(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 999.5 => format!("{ms:.0} ms"),
        Some(ms) if ms < 9995.0 => format!("{:.2} s", ms / 1000.0),
        Some(ms) if ms < 59_500.0 => format!("{:.0} s", ms / 1000.0),
        Some(ms) => {
            let seconds = (ms / 1000.0).round();
            format!("{:.0} m {:02.0} s", (seconds / 60.0).floor(), seconds % 60.0)
        }
    }
}

/// A time left, in whole seconds, rounded up.
#[allow(clippy::cast_precision_loss, reason = "no cool-down is longer than some hours")]
pub(super) fn left(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    if seconds < 60 { format!("{seconds} s") } else { length(Some((seconds * 1000) as f64)) }
}

/// A share of one.
pub(super) fn share(x: Option<f64>) -> String {
    x.map_or_else(|| "-".to_owned(), |x| format!("{:.0} %", (x * 100.0).floor()))
}
