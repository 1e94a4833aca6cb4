//! `/debug/config`: what runs, since when, and what the file says that does not run.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use http::StatusCode;
use serde::{Serialize, Serializer};

use super::pages::Page;
use crate::generation::Generation;
use crate::telemetry::log::line::rfc3339;

/// Mistakes that are kept for the page; the first ones.
const MISTAKES_MAX: usize = 200;

/// What is known about the configuration beside its content. Whoever reloads writes it.
#[derive(Debug)]
pub struct ConfigBoard(Mutex<Board>);

#[derive(Debug)]
struct Board {
    loaded_at: SystemTime,
    needs_restart: Vec<&'static str>,
    last_rejection: Option<RejectedConfig>,
}

/// A file that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RejectedConfig {
    /// When it was refused.
    #[serde(serialize_with = "time")]
    pub at: SystemTime,
    /// `read`, `syntax` or `invalid`.
    pub reason: &'static str,
    /// All of it in words.
    pub message: String,
    /// One by one, sorted by place; empty where the file itself is right and something else forbids it.
    pub mistakes: Vec<Mistake>,
    /// The file is still the one that was refused.
    pub standing: bool,
}

/// A mistake and its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// Dotted keys, or `(file)`.
    pub key: String,
    /// What was expected.
    pub text: String,
}

impl ConfigBoard {
    /// Of a configuration that came into force then.
    pub const fn new(loaded_at: SystemTime) -> Self {
        Self(Mutex::new(Board { loaded_at, needs_restart: Vec::new(), last_rejection: None }))
    }

    /// Another one came into force. `needs_restart` are keys of the file that do not hold in this process.
    pub fn loaded(&self, at: SystemTime, needs_restart: Vec<&'static str>) {
        let mut board = self.lock();
        (board.loaded_at, board.needs_restart) = (at, needs_restart);
        board.put_right();
    }

    /// The file says again what runs.
    pub fn put_right(&self) {
        self.lock().put_right();
    }

    /// A file was refused.
    pub fn rejected(&self, mut rejection: RejectedConfig) {
        rejection.mistakes.truncate(MISTAKES_MAX);
        self.lock().last_rejection = Some(rejection);
    }

    /// Whether what the file says now was refused.
    pub fn is_rejected(&self) -> bool {
        self.lock().last_rejection.as_ref().is_some_and(|rejection| rejection.standing)
    }

    pub(super) fn page(&self, generation: &Generation) -> Page {
        #[derive(Serialize)]
        struct Shape<'a> {
            generation: u64,
            file: Option<String>,
            #[serde(serialize_with = "time")]
            loaded_at: SystemTime,
            config: String,
            needs_restart: &'a [&'static str],
            last_rejection: Option<&'a RejectedConfig>,
        }
        let board = self.lock();
        let config = &generation.config;
        let shape = Shape {
            generation: generation.number,
            file: config.file.as_ref().map(|file| file.display().to_string()),
            loaded_at: board.loaded_at,
            config: config.shown.to_string(),
            needs_restart: &board.needs_restart,
            last_rejection: board.last_rejection.as_ref(),
        };
        Page::of(StatusCode::OK, &shape)
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Board {
    fn put_right(&mut self) {
        if let Some(rejection) = &mut self.last_rejection {
            rejection.standing = false;
        }
    }
}

fn time<S: Serializer>(at: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&rfc3339(*at))
}
