//! Writes the header `x-note` and, at the end, the record fields `note` and, of what it is told, `duration`
//! and `latency` in milliseconds. With the header `x-bad-tags` it writes what a host must refuse; with
//! `x-trap-tagger` it traps.

use sluice_guests::{header, trap};
use sluice_sdk::{AnswerFacts, NoSettings, Phase, Plugin, RequestFacts, Tag, Tagger, TargetFacts};

struct Note;

impl Plugin for Note {
    type Settings = NoSettings;

    fn configure(_: NoSettings, _: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Tagger for Note {
    const RECORD: bool = true;

    fn tag(&self, request: &RequestFacts, answer: &AnswerFacts) -> Vec<Tag> {
        if header(request, "x-trap-tagger").is_some() {
            trap("asked to trap");
        }
        let mut tags = match answer.phase {
            Phase::Head => vec![Tag::header("x-note", "written by a plugin")],
            Phase::Record => vec![
                Tag::record("note", "written by a plugin"),
                Tag::record("duration", told(answer.duration_ms)),
                Tag::record("latency", answer.latency_ms.to_string()),
            ],
        };
        if header(request, "x-bad-tags").is_some() {
            tags.extend([
                Tag::header("content-length", "0"),
                Tag::header("transfer-encoding", "chunked"),
                Tag::header("x-request-id", "forged"),
                Tag::header("set-cookie", "a=b"),
                Tag::header("X-Upper", "v"),
                Tag::header("", "v"),
                Tag::header("x-split", "a\r\nx-smuggled: 1"),
                Tag::header("x-long", "x".repeat(10_000)),
            ]);
            tags.extend((0..40).map(|n| Tag::header(format!("x-many-{n}"), "v")));
        }
        tags
    }
}

fn told(ms: Option<u32>) -> String {
    ms.map_or_else(|| "nothing".to_owned(), |ms| ms.to_string())
}

sluice_sdk::plugin!(Note: Tagger);
