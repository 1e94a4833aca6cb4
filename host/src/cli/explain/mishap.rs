//! The words for failures that are supposed.

use http::{HeaderMap, HeaderValue};
use sluice_core::kind::{FailureKind, TransportError};

use crate::gateway::Mishap;
use crate::mock::{self, Act, Behaviour};

/// The failure of a word.
///
/// # Errors
/// What words there are.
pub fn parse(text: &str) -> Result<Mishap, String> {
    if text == "timeout" {
        return Ok(Mishap::Silence);
    }
    if let Some(class) = TransportError::ALL.iter().find(|class| class.as_str() == text) {
        return Ok(Mishap::Transport(*class));
    }
    let kind = FailureKind::ALL.iter().find(|kind| kind.as_str() == text);
    let behaviour: Behaviour = match (kind, text.parse::<u16>()) {
        (Some(kind), _) => return of_kind(*kind),
        (None, Ok(429)) => Behaviour { act: Act::RateLimit(None), ..Behaviour::default() },
        (None, Ok(status)) => format!("status-{status}").parse().map_err(|error| format!("{error}"))?,
        (None, Err(_)) => text.parse().map_err(|_| expected())?,
    };
    of_behaviour(behaviour).ok_or_else(expected)
}

fn expected() -> String {
    let words = |words: Vec<&str>| words.join(", ");
    format!(
        "expected a status from 300 to 599, timeout, an error word of `sluice mock` (429-2s, quota, context, filter), one of {}, or a kind: {}",
        words(TransportError::ALL.iter().map(|class| class.as_str()).collect()),
        words(FailureKind::ALL.iter().map(|kind| kind.as_str()).collect())
    )
}

/// A usual signal of a kind.
fn of_kind(kind: FailureKind) -> Result<Mishap, String> {
    let act = match kind {
        FailureKind::RetryableTimeout => return Ok(Mishap::Silence),
        FailureKind::RetryableRateLimit => Act::RateLimit(None),
        FailureKind::RetryableUpstream => Act::Status(503),
        FailureKind::QuotaExhausted => Act::Quota,
        FailureKind::ModelUnavailable => Act::Status(404),
        FailureKind::ContextLengthExceeded => Act::Context,
        FailureKind::ContentFiltered => Act::Filter,
        FailureKind::AuthDenied => Act::Status(401),
        FailureKind::InvalidRequest => Act::Status(400),
        FailureKind::GatewaySaturated => {
            return Err("a full gate of the gateway is no failure of an attempt, and no classifier is asked"
                .to_owned());
        }
    };
    of_behaviour(Behaviour { act, ..Behaviour::default() }).ok_or_else(expected)
}

fn of_behaviour(behaviour: Behaviour) -> Option<Mishap> {
    match behaviour.act {
        Act::Silent => return Some(Mishap::Silence),
        Act::Reset => return Some(Mishap::Transport(TransportError::Reset)),
        _ => {}
    }
    let (status, body, wait) = mock::error_answer(behaviour, "the-model")?;
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    if let Some(wait) = wait {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        headers.insert("retry-after-ms", HeaderValue::from(millis));
    }
    Some(Mishap::Answer { status, headers, body: body.into() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop where it fails")]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_a_status_a_kind_or_a_word_and_nothing_else() {
        let status = |text: &str| match parse(text) {
            Ok(Mishap::Answer { status, headers, .. }) => (status, headers.contains_key("retry-after-ms")),
            other => unreachable!("{text}: {other:?}"),
        };
        for (text, want) in [
            ("503", (503, false)),
            ("429", (429, false)),
            ("429-2s", (429, true)),
            ("quota", (429, false)),
            ("quota_exhausted", (429, false)),
            ("model_unavailable", (404, false)),
            ("context", (400, false)),
            ("status-301", (301, false)),
        ] {
            assert_eq!(status(text), want, "{text}");
        }
        for silence in ["timeout", "retryable_timeout", "silent"] {
            assert!(matches!(parse(silence).unwrap(), Mishap::Silence), "{silence}");
        }
        assert!(matches!(parse("reset").unwrap(), Mishap::Transport(TransportError::Reset)));
        assert!(matches!(parse("dns").unwrap(), Mishap::Transport(TransportError::Dns)));
        for bad in ["", "200", "600", "cut-3", "healthy", "gateway_saturated", "5o3"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
