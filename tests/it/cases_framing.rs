//! Worked cases: event streams as they come, in whatever pieces and whatever spelling.

use crate::expect::own_bytes;
use harness::prelude::*;

#[tokio::test]
async fn b016_characters_split_between_reads() {
    let text = "你好🙂é";
    let x = Setup::new().start().await;
    let whole = [ROLE, TXT(text), FIN("stop"), DONE];
    x.a.play([ROLE, SPLIT(TXT(text), 1, 2), FIN("stop"), DONE]);
    let r = x.call("chat").await;
    assert_eq!((r.text().as_str(), r.end, r.dones()), (text, End::Complete, 1), "{r:?}");
    assert_eq!(r.body, own_bytes("A", "a1", true, whole).await);
    assert!(!String::from_utf8_lossy(&r.body).contains('\u{FFFD}'), "{r:?}");
    r.single_lines().tags("A/a1", false);
    x.end().await;
}

#[tokio::test]
async fn b018_comments_of_the_upstream() {
    let processing = || CMT("OPENROUTER PROCESSING");
    let x = Setup::new().start().await;
    let whole = own_bytes("A", "a1", true, OK).await;
    x.a.play([processing(), SLEEP(200), processing(), SLEEP(200), processing(), OK]);
    let r = x.call("chat").await;
    r.answered();
    assert_eq!(r.body, whole);
    let tokens = x.record(&r).await["tokens"].clone();
    // One glued to the event behind it, and one between two events.
    let glued = RAW(": OPENROUTER PROCESSING\n");
    x.a.play([ROLE, glued, TXT("one "), processing(), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let r = x.call("chat").await;
    r.answered();
    assert_eq!(r.body, whole);
    assert_eq!(x.record(&r).await["tokens"], tokens, "comments are no tokens");
    x.calls([2, 0, 0]);
    // A comment is no first content: what fails after it can still be replaced.
    x.a.play([processing(), ROLE, processing(), RST]);
    let r = x.call("chat").await;
    r.answered().tags("B/b1", true);
    assert_eq!(r.body, own_bytes("B", "b1", true, OK).await);
    x.end().await;
}

#[tokio::test]
async fn b020_an_event_larger_than_common_buffers() {
    let x =
        Setup::new().set("/defaults/idle", ms(10_000)).set("/defaults/first_content", ms(4000)).start().await;
    let (small, large) = ("s".repeat(300 << 10), "l".repeat(3 << 20));
    let whole = [ROLE, TXT(&small), TXT(&large), FIN("stop"), DONE];
    x.a.play([ROLE, SPLIT(TXT(&small), 8 << 10, 0), SPLIT(TXT(&large), 8 << 10, 0), FIN("stop"), DONE]);
    let r = x.call("chat").await;
    assert_eq!((r.status, r.end, r.dones(), r.errors().len()), (200, End::Complete, 1, 0));
    assert!(
        r.body == own_bytes("A", "a1", true, whole).await,
        "{} bytes are not the upstream's",
        r.body.len()
    );
    // A scanner that starts over with every read would look at half a gigabyte.
    assert!(r.took() < ms(4000), "{:?} for three megabytes", r.took());
    r.tags("A/a1", false);
    x.end().await;
}

#[tokio::test]
async fn b023_several_data_lines_and_no_space() {
    let chunk = |text: &str, finish: Value| json!({"id": "x", "object": "chat.completion.chunk", "model": "a1", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]});
    let first = "data: {\"id\": \"x\",\r\ndata: \"object\": \"chat.completion.chunk\",\r\ndata: \"model\": \"a1\",\r\ndata: \"choices\":\r\ndata: [{\"index\": 0, \"delta\": {\"content\": \"one \"}, \"finish_reason\": null}]}\r\n\r\n";
    let second = format!("event: message\nid: 7\nretry: 10\ndata:{}\n\n", chunk("two", Value::Null));
    let third = format!("data:{}\r\rdata:[DONE]\n\n", chunk("", "stop".into()));
    for piece in [1_usize, 3, 4096] {
        let x = Setup::new().start().await;
        let parts = [first.to_owned(), second.clone(), third.clone()];
        x.a.play(parts.map(|part| SPLIT(RAW(part), piece, 0)));
        let r = x.call("chat").await;
        assert_eq!((r.text().as_str(), r.dones(), r.events.len()), ("one two", 1, 4), "{r:?}");
        r.single_lines().tags("A/a1", false);
        let got: Vec<_> = r.events[..3].iter().map(harness::response::Event::json).collect();
        let want = [chunk("one ", Value::Null), chunk("two", Value::Null), chunk("", "stop".into())];
        assert_eq!(got, want);
        assert_eq!(r.events[3].raw, b"data: [DONE]\n\n");
        x.end().await;
    }
}
