//! Request and answer bodies: what is taken for a request is JSON, and of it only what may change changes.

use bytes::Bytes;
use serde_json::Value;
use sluice_core::lens::chat::{self, Answer};
use sluice_core::lens::embeddings;
use sluice_core::lens::error::ProviderError;
use sluice_core::lens::fold::fold;
use sluice_core::lens::request::RequestBody;
use sluice_core::lens::unfold::unfold;
use sluice_core::lens::wire::Wire;

/// # Panics
/// When something does not hold.
pub fn check(bytes: &[u8]) {
    // Whatever they make of it, it is no panic.
    let _ = ProviderError::find(bytes);
    for answer in [chat::read_answer(bytes), embeddings::read_answer(bytes)] {
        let whole = matches!(answer, Answer::Completion { .. });
        assert!(!whole || is_json(bytes), "an answer that no client can read");
    }
    for wire in Wire::ALL {
        if let Some(events) = unfold(bytes, wire) {
            assert!(fold(events, wire).is_some(), "a stream of our own making is none");
        }
        let _ = fold(Bytes::copy_from_slice(bytes), wire);
        if let Ok(request) = RequestBody::read(Bytes::copy_from_slice(bytes), wire) {
            rewritten(bytes, &request);
        }
    }
}

fn is_json(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
}

fn rewritten(bytes: &[u8], request: &RequestBody) {
    assert!(is_json(bytes), "a request that is taken is JSON");
    // Numbers that no machine holds pass as they are, but cannot be compared here.
    let Ok(mut asked) = serde_json::from_slice::<Value>(bytes) else { return };
    assert_eq!(asked["model"], *request.model);
    let name = "another \"model\"\u{e9}";
    let sent = request.with_model(name, &[]);
    let (at, before) = (&request.model_at, bytes);
    assert!(
        sent.starts_with(&before[..at.start]) && sent.ends_with(&before[at.end..]),
        "more than the name changed"
    );
    asked["model"] = name.into();
    assert_eq!(serde_json::from_slice::<Value>(&sent).expect("still JSON"), asked);
    let edits = request.output_limit.lowered(&request.bytes, 7).into_iter().chain(request.usage.ask.clone());
    let sent = request.with_model(name, &edits.collect::<Vec<_>>());
    let mut sent: Value = serde_json::from_slice(&sent).expect("still JSON");
    for key in ["max_tokens", "max_completion_tokens", "stream_options"] {
        for body in [&mut asked, &mut sent] {
            body.as_object_mut().expect("an object").remove(key);
        }
    }
    assert_eq!(sent, asked, "a member changed that may not");
}
