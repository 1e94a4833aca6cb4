//! What a caller makes of an answer: whole, refused in the agreed form, broken off and told so, or none of these.
//!
//! Pure. It knows what stand-ins say, so that a piece of one answer in another is seen.

use std::time::Duration;

use serde_json::Value;

use super::order::Form;
use crate::rig::Sse;
use crate::rig::client::Answer;

/// What an answer is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// All of it.
    Whole,
    /// An error in the agreed form, and its code.
    Refused(String),
    /// A part of an answer, then one error event with this code, and a proper end.
    Interrupted(String),
    /// Nothing a caller was promised; why.
    Broken(String),
}

/// Reads the answer to the call `id`, where stand-ins can have said `says`.
pub fn read(answer: &Answer, form: Form, id: &str, says: &[String]) -> Reading {
    if !answer.whole {
        let what =
            format!("status {} and a body that breaks off after {} bytes", answer.status, answer.body.len());
        return Reading::Broken(what);
    }
    match (answer.status, form) {
        (200, Form::Plain) => plain(answer, says),
        (200, Form::Stream) => stream(answer, says),
        (400..=599, _) => refused(answer, id),
        (status, _) => Reading::Broken(format!("status {status}")),
    }
}

fn plain(answer: &Answer, says: &[String]) -> Reading {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let choice = &body["choices"][0];
    let text = choice["message"]["content"].as_str();
    if choice["finish_reason"].is_string() && text.is_some_and(|text| says.iter().any(|said| said == text)) {
        Reading::Whole
    } else {
        Reading::Broken(format!("a 200 that is not what was said: {}", shown(&answer.body)))
    }
}

fn stream(answer: &Answer, says: &[String]) -> Reading {
    let sse = Sse::read(&without_comments(&answer.body));
    let whole = says.contains(&sse.text) && (sse.finishes, sse.dones, sse.odd) == (1, 1, 0);
    let part = says.iter().any(|said| said.starts_with(&sse.text));
    match sse.errors.as_slice() {
        [] if whole => Reading::Whole,
        [code] if part && (sse.finishes, sse.dones, sse.odd) == (0, 0, 0) => {
            Reading::Interrupted(code.clone())
        }
        _ => {
            let Sse { finishes, dones, odd, errors, text, .. } = sse;
            Reading::Broken(format!(
                "a stream that says {text:?} with {finishes} finish reasons, {dones} [DONE], {} errors and {odd} odd pieces",
                errors.len()
            ))
        }
    }
}

fn refused(answer: &Answer, id: &str) -> Reading {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let error = &body["error"];
    let texts = ["message", "type", "code"].iter().all(|name| error[*name].is_string());
    if texts && error["request_id"].as_str() == Some(id) {
        Reading::Refused(error["code"].as_str().unwrap_or_default().to_owned())
    } else {
        let what =
            format!("status {} without an error in the agreed form: {}", answer.status, shown(&answer.body));
        Reading::Broken(what)
    }
}

/// When the first content of a stream was there; none: there was none.
pub fn first_content(answer: &Answer) -> Option<Duration> {
    let text = std::str::from_utf8(&answer.body).ok()?;
    let mut end = 0;
    for piece in text.split_inclusive("\n\n") {
        end += piece.len();
        let data = piece.strip_prefix("data: ").unwrap_or_default();
        let event: Value = serde_json::from_str(data.trim_end()).unwrap_or_default();
        if event["choices"][0]["delta"]["content"].as_str().is_some_and(|content| !content.is_empty()) {
            return answer.marks.iter().find(|(length, _)| *length >= end).map(|(_, time)| *time);
        }
    }
    None
}

/// A stream without the comments that `keep_alive` puts in.
fn without_comments(body: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(body);
    let pieces = text.split_inclusive("\n\n").filter(|piece| !piece.starts_with(':'));
    pieces.collect::<String>().into_bytes()
}

/// The begin of a body, on one line.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line: String = text.chars().take(120).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.is_empty() { "nothing".to_owned() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"one \"},\"finish_reason\":null}]}\n\n";
    const REST: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"two\"},\"finish_reason\":null}]}\n\n";
    const ROLE: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    const END: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    const ERROR: &str = "data: {\"error\":{\"code\":\"gone\"}}\n\n";

    fn answer(status: u16, body: String) -> Answer {
        Answer { status, body: body.into_bytes(), whole: true, ..Answer::default() }
    }

    #[test]
    fn a_stream_is_whole_or_told_to_be_broken_or_neither() {
        let says = ["one two".to_owned()];
        let told = Reading::Interrupted("gone".to_owned());
        for (body, want) in [
            (format!("{ROLE}{CHUNK}{REST}{END}"), Some(Reading::Whole)),
            (format!(": wait\n\n{ROLE}{CHUNK}: wait\n\n{REST}{END}"), Some(Reading::Whole)),
            (format!("{ROLE}{CHUNK}{ERROR}"), Some(told)),
            (format!("{ROLE}{CHUNK}"), None),
            (format!("{CHUNK}{END}"), None),
            (format!("{REST}{ERROR}"), None),
            (format!("{CHUNK}{ERROR}data: [DONE]\n\n"), None),
            (format!("{CHUNK}{CHUNK}{REST}{END}"), None),
            (String::new(), None),
        ] {
            let got = read(&answer(200, body.clone()), Form::Stream, "id", &says);
            match want {
                Some(want) => assert_eq!(got, want, "{body}"),
                None => assert!(matches!(got, Reading::Broken(_)), "{body}: {got:?}"),
            }
        }
        let cut = Answer { whole: false, ..answer(200, format!("{ROLE}{CHUNK}{REST}{END}")) };
        assert!(matches!(read(&cut, Form::Stream, "id", &says), Reading::Broken(_)));
    }

    #[test]
    fn a_plain_answer_is_whole_or_refused_in_the_agreed_form() {
        let says = ["one two".to_owned()];
        let good = r#"{"choices":[{"message":{"content":"one two"},"finish_reason":"stop"}]}"#;
        let error = r#"{"error":{"message":"m","type":"t","code":"c","request_id":"id"}}"#;
        for (status, body, want) in [
            (200, good, Some(Reading::Whole)),
            (200, &good[..30], None),
            (200, &good.replace("two", "ten"), None),
            (503, error, Some(Reading::Refused("c".to_owned()))),
            (503, &error.replace("\"id\"", "\"other\""), None),
            (502, "<html>", None),
            (302, "", None),
        ] {
            let got = read(&answer(status, body.to_owned()), Form::Plain, "id", &says);
            match want {
                Some(want) => assert_eq!(got, want, "{status} {body}"),
                None => assert!(matches!(got, Reading::Broken(_)), "{status} {body}: {got:?}"),
            }
        }
    }

    #[test]
    fn first_content_is_when_its_event_was_there_to_its_end() {
        let ms = Duration::from_millis;
        let body = format!("{ROLE}{CHUNK}{REST}{END}");
        let (role, chunk) = (ROLE.len(), ROLE.len() + CHUNK.len());
        let marks = vec![(role, ms(1)), (chunk - 1, ms(2)), (chunk + 9, ms(3)), (body.len(), ms(4))];
        let stream = Answer { marks: marks.clone(), ..answer(200, body) };
        assert_eq!(first_content(&stream), Some(ms(3)));
        assert_eq!(first_content(&Answer { marks, ..answer(200, format!("{ROLE}{END}")) }), None);
    }
}
