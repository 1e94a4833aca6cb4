use super::*;
use proptest::prelude::*;

const RULES: Rules = Rules {
    event_max: 1 << 20,
    held_events_max: 64,
    held_bytes_max: 256 << 10,
    malformed_fails: false,
    complete_max: None,
    choices: 1,
    hide_usage: false,
};

fn frame(word: &str) -> String {
    let delta = |d: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{d}}}]}}\n\n");
    match word {
        "ROLE" => delta(r#"{"role":"assistant","content":""}"#),
        "FIN" => "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n".to_owned(),
        "FIN1" => {
            "data: {\"choices\":[{\"index\":1,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n".to_owned()
        }
        "USAGE" => {
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}\n\n".to_owned()
        }
        "ERR" => "data: {\"error\":{\"message\":\"m\",\"code\":503}}\n\n".to_owned(),
        "DONE" => "data: [DONE]\n\n".to_owned(),
        "BAD" => "data: {broken\n\n".to_owned(),
        "PING" => "data: {\"type\":\"ping\"}\n\n".to_owned(),
        "CMT" => ": c\n\n".to_owned(),
        text => delta(&format!("{{\"content\":\"{text}\"}}")),
    }
}

/// Plays words; `END` and `CUT` end the body. Gives the output as words, whether it committed, and the end.
fn play(rules: Rules, script: &str) -> (String, bool, Option<End>) {
    let mut stream = ChatStream::new(rules);
    let mut end = None;
    let mut out = Vec::new();
    for word in script.split(' ') {
        end = match word {
            "END" => Some(stream.body_ended(true)),
            "CUT" => Some(stream.body_ended(false)),
            word => stream.push(frame(word).into()),
        };
        out.extend_from_slice(&stream.take_output());
        if end.is_some() {
            break;
        }
    }
    let mut shown = String::from_utf8_lossy(&out).into_owned();
    for word in ["ROLE", "FIN", "FIN1", "USAGE", "DONE", "a", "b"] {
        shown = shown.replace(&frame(word), &format!("{word} "));
    }
    (shown.trim_end().to_owned(), stream.committed(), end)
}

#[test]
fn what_is_shown_and_how_it_ends() {
    let error = || {
        Some(End::Error(
            ProviderError::find(br#"{"error":{"message":"m","code":503}}"#).map(Box::new).unwrap_or_default(),
        ))
    };
    let cases = [
        ("ROLE a b FIN DONE", "ROLE a b FIN DONE", true, Some(End::Well)),
        ("ROLE a FIN END", "ROLE a FIN DONE", true, Some(End::Well)),
        ("ROLE a FIN CUT", "ROLE a FIN DONE", true, Some(End::Well)),
        ("ROLE a FIN USAGE DONE", "ROLE a FIN USAGE DONE", true, Some(End::Well)),
        ("ROLE a FIN ERR", "ROLE a FIN DONE", true, Some(End::Well)),
        ("ROLE a FIN BAD USAGE DONE", "ROLE a FIN USAGE DONE", true, Some(End::Well)),
        ("ROLE a DONE", "ROLE a DONE", true, Some(End::Well)),
        ("ROLE a END", "ROLE a", true, Some(End::Cut { proper: true })),
        ("ROLE a CUT", "ROLE a", true, Some(End::Cut { proper: false })),
        ("ROLE a ERR", "ROLE a", true, error()),
        ("ROLE CUT", "", false, Some(End::Cut { proper: false })),
        ("ROLE END", "", false, Some(End::Empty)),
        ("ROLE ERR", "", false, error()),
        ("ERR DONE", "", false, error()),
        ("DONE", "", false, Some(End::Empty)),
        ("ROLE DONE", "", false, Some(End::Empty)),
        ("END", "", false, Some(End::Empty)),
        ("CMT CMT CUT", "", false, Some(End::Cut { proper: false })),
        ("FIN DONE", "FIN DONE", true, Some(End::Well)),
        ("USAGE ROLE PING CMT a BAD b FIN DONE", "USAGE ROLE a b FIN DONE", true, Some(End::Well)),
        ("ROLE a", "ROLE a", true, None),
    ];
    for (script, shown, committed, end) in cases {
        assert_eq!(play(RULES, script), (shown.to_owned(), committed, end), "{script}");
    }
}

#[test]
fn a_malformed_event_ends_the_stream_where_the_route_wants_that() {
    let strict = Rules { malformed_fails: true, ..RULES };
    assert_eq!(play(strict, "a BAD b"), ("a".to_owned(), true, Some(End::Malformed)));
}

#[test]
fn after_its_finish_reason_nothing_makes_an_answer_a_failure() {
    let strict = Rules { malformed_fails: true, event_max: 200, ..RULES };
    let held = Rules { complete_max: Some(4096), ..strict };
    let large = "x".repeat(300);
    for rules in [strict, held] {
        for after in ["BAD", "BAD DONE", &large, "ERR"] {
            let (shown, committed, end) = play(rules, &format!("ROLE a FIN {after}"));
            assert_eq!((&*shown, committed, end), ("ROLE a FIN DONE", true, Some(End::Well)), "{after}");
        }
        assert_eq!(play(rules, &format!("ROLE a {large}")).2, Some(End::TooLarge));
    }
    // What is held has room for the answer, and not for what follows it.
    let answer: usize = ["ROLE", "a", "FIN"].map(|word| frame(word).len()).iter().sum();
    let full = Rules { complete_max: Some(answer), ..RULES };
    assert_eq!(play(full, "ROLE a FIN USAGE"), ("ROLE a FIN DONE".to_owned(), true, Some(End::Well)));
    let short = Rules { complete_max: Some(answer - 1), ..RULES };
    assert_eq!(play(short, "ROLE a FIN DONE"), (String::new(), false, Some(End::TooLarge)));
}

#[test]
fn a_finish_reason_is_no_content() {
    let mut stream = ChatStream::new(RULES);
    for (word, content) in [("ROLE", false), ("FIN1", false), ("a", true), ("FIN", true)] {
        stream.push(frame(word).into());
        assert_eq!(stream.has_content(), content, "{word}");
    }
}

#[test]
fn a_stream_of_two_answers_is_finished_when_both_are() {
    let two = Rules { choices: 2, ..RULES };
    assert_eq!(play(two, "a FIN CUT").2, Some(End::Cut { proper: false }));
    assert_eq!(play(two, "a FIN FIN1 CUT").2, Some(End::Well));
}

#[test]
fn what_is_held_is_bounded() {
    let few = Rules { held_events_max: 2, ..RULES };
    assert!(!play(few, "ROLE ROLE").1);
    assert_eq!(play(few, "ROLE ROLE ROLE"), ("ROLE ROLE ROLE".to_owned(), true, None));
    let small = Rules { held_bytes_max: 100, ..RULES };
    assert!(play(small, "ROLE ROLE").1);
}

#[test]
fn a_stream_held_to_its_end_shows_all_of_it_or_nothing() {
    let held = Rules { complete_max: Some(4096), held_events_max: 1, held_bytes_max: 1, ..RULES };
    let all = "ROLE a b FIN USAGE DONE";
    assert_eq!(play(held, all), (all.to_owned(), true, Some(End::Well)));
    assert_eq!(play(held, "ROLE a FIN CUT"), ("ROLE a FIN DONE".to_owned(), true, Some(End::Well)));
    for (script, end) in [
        ("ROLE ROLE a b", None),
        ("ROLE a FIN", None),
        ("ROLE a CUT", Some(End::Cut { proper: false })),
        ("ROLE a END", Some(End::Cut { proper: true })),
        ("ROLE END", Some(End::Empty)),
        ("DONE", Some(End::Empty)),
    ] {
        assert_eq!(play(held, script), (String::new(), false, end), "{script}");
    }
    let (shown, committed, end) = play(held, "ROLE a ERR");
    assert!(shown.is_empty() && !committed && matches!(end, Some(End::Error(_))));
    let small = Rules { complete_max: Some(150), ..held };
    assert_eq!(play(small, all), (String::new(), false, Some(End::TooLarge)));
}

#[test]
fn usage_is_the_upstreams_own_or_an_estimate() {
    let mut stream = ChatStream::new(RULES);
    stream.push(frame("abcde").into());
    assert_eq!(stream.usage(7), Usage { input: 7, output: 2, estimated: true });
    stream.push(frame("USAGE").into());
    assert_eq!(stream.usage(7), Usage { input: 5, output: 3, estimated: false });
}

#[test]
fn usage_that_only_we_asked_for_is_read_and_not_shown() {
    let hidden = Rules { hide_usage: true, ..RULES };
    assert_eq!(play(hidden, "ROLE a FIN USAGE DONE"), ("ROLE a FIN DONE".to_owned(), true, Some(End::Well)));
    let mut stream = ChatStream::new(hidden);
    for word in ["USAGE", "a"] {
        stream.push(frame(word).into());
    }
    assert_eq!(stream.usage(7), Usage { input: 5, output: 3, estimated: false });
    assert_eq!(stream.take_output(), frame("a"));
    // Usage that rides on a chunk of an answer is shown with it.
    let riding =
        r#"data: {"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":6,"completion_tokens":2}}"#;
    stream.push(format!("{riding}\n\n").into());
    assert_eq!(stream.usage(7), Usage { input: 6, output: 2, estimated: false });
    assert_eq!(stream.take_output(), format!("{riding}\n\n"));
}

proptest! {
    /// However the bytes are split and whatever comes, a good end has exactly one `[DONE]`, at the end of
    /// the output; any other end has none; before commit nothing is shown.
    #[test]
    fn done_is_shown_only_at_a_good_end(
        words in proptest::collection::vec(prop::sample::select(vec!["ROLE", "a", "b", "FIN", "USAGE", "ERR", "DONE", "BAD", "PING", "CMT"]), 0..10),
        proper in any::<bool>(),
        size in 1usize..64,
    ) {
        let bytes: String = words.iter().map(|w| frame(w)).collect();
        let mut stream = ChatStream::new(RULES);
        let mut out = Vec::new();
        let mut end = None;
        for piece in bytes.as_bytes().chunks(size) {
            end = stream.push(Bytes::copy_from_slice(piece));
            let shown = stream.take_output();
            prop_assert!(stream.committed() || shown.is_empty());
            out.extend_from_slice(&shown);
            if end.is_some() { break; }
        }
        let end = end.unwrap_or_else(|| stream.body_ended(proper));
        out.extend_from_slice(&stream.take_output());
        let text = String::from_utf8_lossy(&out);
        let dones = text.matches("[DONE]").count();
        prop_assert_eq!(dones, usize::from(end == End::Well));
        prop_assert!(dones == 0 || text.ends_with("data: [DONE]\n\n"));
        prop_assert!(!text.contains("error") && !text.contains("broken"));
        prop_assert!(stream.push(Bytes::from_static(b"data: x\n\n")).is_none());
    }
}
