//! The terminal while the view has it: entered, drawn on, listened to, and given back as it was, however the view ends.

use std::io::{self, Write};
use std::sync::Once;
use std::time::Duration;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::queue;
use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap, EndSynchronizedUpdate,
    EnterAlternateScreen, LeaveAlternateScreen,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use super::text::{Line, Tone};

/// How long one wait for a key lasts; the process ends at most so long after the view.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// A terminal that does not tell its size.
const USUAL: (u16, u16) = (80, 24);

/// What the reader wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// The end.
    End,
    /// The same once more, in a window of another size.
    Draw,
    /// A new look, now.
    Look,
}

/// The terminal.
pub(super) struct Screen<'a> {
    out: &'a mut dyn Write,
    /// Waits for a key, away from the tasks. Kept over cancelled waits, so that no key is lost.
    key: Option<JoinHandle<io::Result<Option<Wish>>>>,
    signals: Signals,
}

impl<'a> Screen<'a> {
    /// Takes the terminal.
    pub(super) fn enter(out: &'a mut dyn Write) -> io::Result<Self> {
        give_back_in_panics();
        let signals = Signals::new()?;
        terminal::enable_raw_mode()?;
        // From here on whatever goes wrong gives it back.
        let screen = Self { out, key: None, signals };
        let mut bytes = Vec::new();
        queue!(bytes, EnterAlternateScreen, DisableLineWrap, Hide, Clear(ClearType::All))?;
        screen.out.write_all(&bytes)?;
        screen.out.flush()?;
        Ok(screen)
    }

    /// Columns and rows.
    #[allow(clippy::unused_self, reason = "only who has the terminal may ask it")]
    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        Ok(terminal::size().ok().filter(|(width, height)| *width > 0 && *height > 0).unwrap_or(USUAL))
    }

    /// Draws a frame in one write, over the one before.
    pub(super) fn draw(&mut self, lines: &[Line]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(8192);
        queue!(bytes, BeginSynchronizedUpdate)?;
        for (row, line) in lines.iter().enumerate() {
            queue!(bytes, MoveTo(0, u16::try_from(row).unwrap_or(u16::MAX)))?;
            for piece in &line.0 {
                tone(&mut bytes, piece.tone)?;
                queue!(bytes, Print(&piece.text), ResetColor, SetAttribute(Attribute::Reset))?;
            }
            queue!(bytes, Clear(ClearType::UntilNewLine))?;
        }
        if let Ok(row) = u16::try_from(lines.len())
            && row < self.size()?.1
        {
            queue!(bytes, MoveTo(0, row), Clear(ClearType::FromCursorDown))?;
        }
        queue!(bytes, EndSynchronizedUpdate)?;
        self.out.write_all(&bytes)?;
        self.out.flush()
    }

    /// The reader's next wish; a signal is one for the end.
    pub(super) async fn wish(&mut self) -> io::Result<Wish> {
        tokio::select! {
            wish = pressed(&mut self.key) => wish,
            () = self.signals.end() => Ok(Wish::End),
        }
    }

    /// Ready once the reader wants the end; other wishes are let go.
    pub(super) async fn ends(&mut self) -> io::Result<()> {
        while self.wish().await? != Wish::End {}
        Ok(())
    }
}

async fn pressed(waiting: &mut Option<JoinHandle<io::Result<Option<Wish>>>>) -> io::Result<Wish> {
    loop {
        let pressed = waiting.get_or_insert_with(|| tokio::task::spawn_blocking(key)).await;
        *waiting = None;
        match pressed {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(wish))) => return Ok(wish),
            Ok(Err(error)) => return Err(error),
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        give_back(&mut self.out);
    }
}

/// The terminal as it was. What fails cannot be told anybody any more.
fn give_back(out: &mut dyn Write) {
    let mut bytes = Vec::new();
    let _ = queue!(bytes, EndSynchronizedUpdate, Show, EnableLineWrap, LeaveAlternateScreen);
    let _ = out.write_all(&bytes);
    let _ = out.flush();
    let _ = terminal::disable_raw_mode();
}

/// A panic is told on the terminal as it was, not on one that is about to be thrown away.
fn give_back_in_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back(&mut io::stdout());
            usual(info);
        }));
    });
}

fn key() -> io::Result<Option<Wish>> {
    if !event::poll(KEY_WAIT)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Resize(..) => Some(Wish::Draw),
        Event::Key(key) if key.kind != KeyEventKind::Release => {
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('c' | 'd') if control => Some(Wish::End),
                KeyCode::Char('q' | 'Q') | KeyCode::Esc => Some(Wish::End),
                KeyCode::Char(' ' | 'r') | KeyCode::Enter => Some(Wish::Look),
                _ => None,
            }
        }
        _ => None,
    })
}

fn tone(bytes: &mut Vec<u8>, tone: Tone) -> io::Result<()> {
    match tone {
        Tone::Plain => Ok(()),
        Tone::Quiet => queue!(bytes, SetAttribute(Attribute::Dim)),
        Tone::Head => queue!(bytes, SetAttribute(Attribute::Bold)),
        Tone::Good => queue!(bytes, SetForegroundColor(Color::DarkGreen)),
        Tone::Warn => queue!(bytes, SetForegroundColor(Color::DarkYellow)),
        Tone::Bad => queue!(bytes, SetForegroundColor(Color::DarkRed), SetAttribute(Attribute::Bold)),
    }
}

/// The signals that ask for the end; one that comes while nobody waits is not lost.
pub(super) struct Signals([Signal; 3]);

impl Signals {
    /// From now on.
    pub(super) fn new() -> io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(signal);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    /// Ready once one has come.
    pub(super) async fn end(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
