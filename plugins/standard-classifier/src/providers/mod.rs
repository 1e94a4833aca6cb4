//! What providers say, one module each: names they give to errors, and words of their messages.
//!
//! Names are compared without case and punctuation (`RateLimitError` is `rate_limit_error`), since the same
//! error is spelled differently by a provider, its proxies and its imitators. Only what is peculiar to a
//! provider stands in its module; what many share is in [`common`].
//!
//! Words are a last resort, looked at only in the provider's message and only where the status leaves the
//! kind open. A message may quote the request, so words whose verdict has consequences for others (a breaker
//! that opens, a target that cools) must begin or end the message, where no quotation mark hides them.

use sluice_sdk::FailureKind;

use crate::evidence::Evidence;

mod anthropic;
mod azure;
mod bedrock;
mod common;
mod deepseek;
pub mod google;
mod groq;
mod local;
mod mistral;
mod openai;
mod openrouter;
mod qwen;
mod together;

/// What a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// This kind, whatever the status.
    Exact(FailureKind),
    /// That the request is at fault, which leaves open in what way.
    BadRequest,
}

/// Where words must stand in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// Anywhere.
    Contains(&'static str),
    /// At its beginning.
    Begins(&'static str),
    /// At its end.
    Ends(&'static str),
    /// The first at its beginning, the second anywhere after it.
    Frames(&'static str, &'static str),
}

impl Words {
    /// They stand in this message, which is in lower case.
    pub fn are_in(self, message: &str) -> bool {
        match self {
            Self::Contains(words) => message.contains(words),
            Self::Begins(words) => message.starts_with(words),
            Self::Ends(words) => message.ends_with(words),
            Self::Frames(begin, then) => message.strip_prefix(begin).is_some_and(|rest| rest.contains(then)),
        }
    }
}

/// What one provider says.
pub struct Provider {
    /// Names of errors.
    pub names: &'static [(&'static str, Name)],
    /// Words of messages, in lower case.
    pub words: &'static [(Words, FailureKind)],
}

/// Every provider. Where two know the same name they agree on it.
pub const ALL: [&Provider; 13] = [
    &common::SAYS,
    &openai::SAYS,
    &azure::SAYS,
    &anthropic::SAYS,
    &google::SAYS,
    &mistral::SAYS,
    &groq::SAYS,
    &openrouter::SAYS,
    &together::SAYS,
    &deepseek::SAYS,
    &bedrock::SAYS,
    &qwen::SAYS,
    &local::SAYS,
];

/// What a name says; none: nothing that is known.
pub fn by_name(name: &str) -> Option<Name> {
    let known = ALL.iter().flat_map(|provider| provider.names);
    known.copied().find(|(known, _)| same_name(known, name)).map(|(_, says)| says)
}

/// A kind that the message tells more exactly than the status did.
pub fn by_words(kind: FailureKind, evidence: &Evidence<'_>) -> Option<FailureKind> {
    let known = ALL.iter().flat_map(|provider| provider.words);
    let mut open = known.filter(|(_, finer)| leaves_open(kind, *finer, evidence));
    open.find(|(words, _)| words.are_in(&evidence.message)).map(|(_, finer)| *finer)
}

/// A status of this kind is also sent for the finer kind.
const fn leaves_open(kind: FailureKind, finer: FailureKind, evidence: &Evidence<'_>) -> bool {
    use FailureKind as Kind;
    match kind {
        Kind::InvalidRequest => true,
        // Providers refuse by policy, and for want of credit, with a 403.
        Kind::AuthDenied => matches!(finer, Kind::ContentFiltered | Kind::QuotaExhausted),
        // Who says when to come back does not mean an empty account.
        Kind::RetryableRateLimit => matches!(finer, Kind::QuotaExhausted) && !evidence.hinted,
        _ => false,
    }
}

/// Equal but for case and punctuation.
pub fn same_name(a: &str, b: &str) -> bool {
    letters(a).eq(letters(b))
}

fn letters(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase())
}
