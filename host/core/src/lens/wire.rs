//! Which wire format a call speaks, and what differs between them.
//!
//! Chat and text completions share everything about their answers, `choices` with a finish reason, whole or
//! as a stream; an embeddings answer is a list and never a stream. What a request must hold is in `request`.

use super::chat::{self, Answer};
use super::embeddings;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Wire {
    /// Chat completions.
    #[default]
    Chat,
    /// Text completions.
    Completions,
    /// Embeddings.
    Embeddings,
}

impl Wire {
    /// Every wire format.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Completions, Self::Embeddings];

    /// The path at which callers speak it.
    pub const fn endpoint(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Embeddings => "/v1/embeddings",
        }
    }

    /// The path behind a base URL.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completions => "/completions",
            Self::Embeddings => "/embeddings",
        }
    }

    /// Whether an answer can be a stream.
    pub const fn streams(self) -> bool {
        !matches!(self, Self::Embeddings)
    }

    /// Whether a request says how long its answer may be.
    pub const fn limits_output(self) -> bool {
        !matches!(self, Self::Embeddings)
    }

    /// What a whole 200 body is.
    pub fn read_answer(self, body: &[u8]) -> Answer {
        match self {
            Self::Chat | Self::Completions => chat::read_answer(body),
            Self::Embeddings => embeddings::read_answer(body),
        }
    }
}
