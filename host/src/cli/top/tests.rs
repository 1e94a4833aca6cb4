use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::frame::{Told, frame};
use super::interval;
use super::look::{Look, Rates};
use super::text::{Column, Line, Tone, clip, left, length, piece, table, visible};

/// A gateway in which something of everything is wrong.
fn troubled() -> Look {
    let target = |name: &str, rest: serde_json::Value| {
        let mut target = json!({"target": name, "routes": ["chat"], "able": true, "in_flight": 1,
            "breaker": {"state": "closed", "failures": 0, "until_ms": null}, "cooldown_ms": 0, "success_rate_1m": 1.0,
            "latency_ms": {"p50": 120.0, "p95": 1250.0}, "first_content_ms": {"p95": 1300.0}});
        target.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        target
    };
    let upstreams = json!({
        "now": "2026-01-02T03:04:05.678Z", "version": "0.1.0",
        "readiness": {"ready": true, "reason": null, "routes": {"chat": 1, "solo": 0},
            "blocked": [{"target": "c/m", "why": "no_credential", "until_ms": 61_000}]},
        "targets": [
            target("well/m", json!({})),
            target("b/m", json!({"able": false, "cooldown_ms": 4_200, "cooldown_kind": "retryable_rate_limit"})),
            target("c/m", json!({"able": false})),
            target("h/m", json!({"breaker": {"state": "half_open", "failures": 3, "until_ms": null}})),
            target("a/m", json!({"able": false, "breaker": {"state": "open", "failures": 3, "until_ms": 1_001}})),
        ],
        "upstreams": [{"upstream": "b", "credentials": [{"state": "ok"}, {"state": "denied"}]}],
        "gates": [
            {"gate": "global", "in_flight": 4, "limit": 1024, "queue": 0},
            {"gate": "upstream:b", "in_flight": 8, "limit": 8, "queue": 3},
        ],
        "records": {"away_since": "2026-01-02T03:00:00.000Z", "spooled": 17},
    });
    let plugins = json!({"generation": 7, "plugins": [
        {"name": "standard-tagger", "kinds": ["tagger"], "state": "active", "version": "0.1.0", "digest": "0123456789",
         "calls": 12, "p50_us": 3, "p99_us": 70, "failures": {"trap": 2}, "rejection": null},
        {"name": "mine", "kinds": [], "state": "last_good", "calls": 0, "failures": {},
         "rejection": {"reason": "probe", "message": "a\nb\u{1b}[2J"}},
        {"name": "weighted-router", "kinds": ["router"], "state": "active", "failures": {}, "replaced": true},
    ]});
    let config = json!({"generation": 7, "config": "x", "last_rejection": {
        "message": "all of it", "standing": true, "mistakes": [
            {"line": 3, "key": "routes.chat", "text": "expected a map"}, {"line": 4, "key": "x", "text": "y"}]}});
    let requests = json!([
        {"time": "2026-01-02T03:04:04.100Z", "model": "chat", "status_code": 200, "outcome": "fallback_success",
         "latency_ms": 1500, "duration_ms": 2000, "attempts": [
            {"target": "a/m", "kind": "retryable_timeout", "ms": 1000}, {"target": "well/m", "kind": null, "ms": 500}]},
        {"time": "2026-01-02T03:04:03.100Z", "model": "\u{1b}]0;x\u{7}", "status_code": 404, "outcome": "invalid_request",
         "latency_ms": null, "duration_ms": 1, "attempts": []},
    ]);
    Look {
        upstreams: serde_json::from_value(upstreams).unwrap(),
        plugins: serde_json::from_value(plugins).unwrap(),
        config: serde_json::from_value(config).unwrap(),
        requests: serde_json::from_value(requests).unwrap(),
        outcomes: BTreeMap::from([("success".to_owned(), 12.0), ("exhausted".to_owned(), 3.0)]),
    }
}

fn told<'a>(look: &'a Look, size: Option<(usize, usize)>) -> Told<'a> {
    Told {
        look,
        address: "h:1",
        rates: None,
        trouble: None,
        age: Duration::from_secs(3),
        size,
        keys: size.is_some(),
    }
}

fn shown(told: &Told<'_>) -> Vec<String> {
    frame(told).iter().map(Line::plain).collect()
}

/// The cells of the line that begins with this.
fn cells(lines: &[String], begin: &str) -> Vec<String> {
    let line =
        lines.iter().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{begin}: {lines:#?}"));
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_first_lines_say_whether_anything_is_wrong() {
    let mut look = troubled();
    let lines = shown(&told(&look, None));
    assert_eq!(lines[0], "sluice 0.1.0  h:1  generation 7  ready  2026-01-02T03:04:05");
    assert_eq!(
        lines[1],
        "✕ route solo cannot serve, 4 of 5 targets in trouble, a gate is full, plugin mine last_good, \
         configuration file refused: line 3: routes.chat: expected a map (and 1 more), \
         store of records away since 03:00:00 (17 in its spool)"
    );
    assert_eq!(lines[2], "requests since the start 15  exhausted 3  success 12");
    let rates = Rates::from([("success".to_owned(), 2.5)]);
    let lines = shown(&Told { rates: Some(&rates), trouble: Some("gone".to_owned()), ..told(&look, None) });
    assert_eq!(lines[1], "✕ no answer, this is 3.00 s old: gone");
    assert_eq!(lines[2], "requests/s 2.5  success 2.5");
    look.upstreams.readiness.reason = Some("draining".to_owned());
    assert!(shown(&told(&look, None))[0].contains("not ready: draining"));
    assert_eq!(shown(&told(&Look::default(), None))[1], "✓ nothing is wrong");
    let mut refused = Look { config: troubled().config, ..Look::default() };
    refused.config.last_rejection.as_mut().unwrap().mistakes.clear();
    assert_eq!(shown(&told(&refused, None))[1], "▲ configuration file refused: all of it");
    refused.config.last_rejection.as_mut().unwrap().standing = false;
    refused.upstreams.records = Some(super::look::Records::default());
    assert_eq!(shown(&told(&refused, None))[1], "✓ nothing is wrong", "both were put right");
}

#[test]
fn trouble_comes_first_and_says_what_happens_next() {
    let lines = shown(&told(&troubled(), None));
    let first = lines.iter().position(|line| line == "TARGETS").unwrap() + 2;
    let order: Vec<_> = lines[first..first + 5].iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(order, ["a/m", "h/m", "c/m", "b/m", "well/m"]);
    let table: [(&str, &[&str]); 9] = [
        ("a/m", &["a/m", "✕ open", "probe in 2 s", "1", "100 %", "120 ms", "1.25 s", "1.30 s", "chat"]),
        ("h/m", &["h/m", "◐ half-open", "one probe decides"]),
        ("c/m", &["c/m", "✕ no credential", "tried again in 1 m 01 s"]),
        ("b/m", &["b/m", "▲ cooling", "tried again in 5 s, retryable_rate_limit"]),
        ("upstream:b", &["upstream:b", "8", "8", "3", "▲ 1 of 2 ok"]),
        ("mine", &["mine", "▲ last_good", "-", "0", "-/-", "probe: a␊b␛[2J"]),
        ("weighted-router", &["weighted-router", "replaced", "router"]),
        (
            "standard-tagger",
            &["standard-tagger", "active", "tagger", "0.1.0 01234567", "12", "3/70", "trap 2"],
        ),
        (
            "03:04:04",
            &[
                "03:04:04",
                "chat",
                "200",
                "fallback_success",
                "1.50 s",
                "2.00 s",
                "a/m ✕ retryable_timeout 1.00 s → well/m ✓ 500 ms",
            ],
        ),
    ];
    for (begin, want) in table {
        assert_eq!(cells(&lines, begin)[..want.len()], *want);
    }
    let at = |begin: &str| lines.iter().position(|line| line.starts_with(begin)).unwrap();
    assert!(at("upstream:b") < at("global") && at("mine") < at("standard-tagger"));
}

#[test]
fn a_frame_is_never_larger_than_its_window() {
    let mut look = troubled();
    let one = look.upstreams.targets[0].clone();
    for n in 0..128 {
        look.upstreams
            .targets
            .push(super::look::Target { target: format!("up/{}{n}", "x".repeat(80)), ..one.clone() });
    }
    look.requests = vec![look.requests[0].clone(); 60];
    for (width, height) in [(1, 1), (20, 5), (40, 24), (80, 24), (120, 50), (300, 1000)] {
        let lines = frame(&told(&look, Some((width, height))));
        assert!(lines.len() <= height, "{width} x {height}: {} lines", lines.len());
        for line in &lines {
            let length: usize = line.0.iter().map(|piece| piece.text.chars().count()).sum();
            assert!(length <= width, "{width} x {height}: {length}: {line:?}");
        }
    }
    let lines = shown(&told(&look, Some((120, 30))));
    assert_eq!(lines.len(), 30, "the window is used: {lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("TARGETS ") && line.ends_with(" of 133")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("✕ open")), "trouble is not cut off: {lines:#?}");
    assert!(lines[0].ends_with("q ends"), "{}", lines[0]);
}

#[test]
fn nothing_that_steers_a_terminal_gets_into_a_line() {
    for size in [None, Some((80, 40))] {
        for line in frame(&told(&troubled(), size)) {
            for piece in line.0 {
                assert!(!piece.text.chars().any(char::is_control), "{piece:?}");
            }
        }
    }
    for (text, want) in [
        ("a\u{1b}[31mb", "a␛[31mb"),
        ("\0\r\n\t\u{7f}", "␀␍␊␉␡"),
        ("\u{9b}2J\u{9d}", "\u{fffd}2J\u{fffd}"),
        ("\u{202e}abc\u{2066}\u{200f}", "\u{fffd}abc\u{fffd}\u{fffd}"),
        ("é漢 ok", "é漢 ok"),
    ] {
        assert_eq!(visible(text), want);
    }
}

#[test]
fn a_table_gives_way_where_it_may() {
    let columns = [
        Column { head: "A", number: false, least: Some(4) },
        Column { head: "B", number: true, least: None },
    ];
    let rows = vec![vec![piece("abcdefghij", Tone::Plain), piece("12345", Tone::Plain)]];
    let text = |width| table(&columns, &rows, width).iter().map(Line::plain).collect::<Vec<_>>();
    assert_eq!(text(None), [format!("A{}B", " ".repeat(15)), "abcdefghij  12345".to_owned()]);
    assert_eq!(text(Some(13)), [format!("A{}B", " ".repeat(11)), "abcde…  12345".to_owned()]);
    assert_eq!(text(Some(10))[1], "abc…  123…", "cut where nothing may give way any more");
    for (text, width, want) in [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("abcd", 1, "…"), ("abcd", 0, "")]
    {
        assert_eq!(clip(text, width), want);
    }
}

#[test]
fn times_are_written_as_people_say_them() {
    for (ms, want) in [
        (None, "-"),
        (Some(0.0), "0 ms"),
        (Some(999.4), "999 ms"),
        (Some(1250.0), "1.25 s"),
        (Some(14_000.0), "14 s"),
        (Some(125_000.0), "2 m 05 s"),
    ] {
        assert_eq!(length(ms), want);
    }
    for (ms, want) in [(0, "0 s"), (1, "1 s"), (1_000, "1 s"), (59_001, "1 m 00 s"), (90_000, "1 m 30 s")] {
        assert_eq!(left(ms), want);
    }
}

#[test]
fn it_is_looked_at_now_and_then_and_neither_all_the_time_nor_never() {
    assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
    for bad in ["1ms", "2h", "x", "0s"] {
        assert!(interval(bad).is_err(), "{bad}");
    }
}
