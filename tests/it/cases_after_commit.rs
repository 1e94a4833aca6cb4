//! Worked cases: once the client was shown something there is no second attempt, and no invented end.

use crate::expect::{LATE, has};
use harness::prelude::*;

#[tokio::test]
async fn b009_cut_in_mid_answer() {
    for end in [CUT, RST, END] {
        let x = Setup::new().start().await;
        x.a.play([ROLE, TXT("one "), TXT("two "), SLEEP(50), end]);
        let r = x.call("chat").await;
        r.broken_stream("one two ").tags("A/a1", false).attempts(1);
        assert_eq!(r.code(), "upstream_interrupted");
        x.calls([1, 0, 0]);
        x.breaker_is("A/a1", "closed", 1).await;
        let interrupted = [("target", "A/a1"), ("reason", "upstream_interrupted")];
        x.metric_becomes("sluice_streams_interrupted_total", &interrupted, 1.0).await;
        x.outcome("interrupted", 1).await;
        x.metric_becomes("sluice_requests_total", &[], 1.0).await;
        x.end().await;
    }
}

#[tokio::test]
async fn b010_stall_in_mid_answer() {
    let pings: Vec<Step> = (0..200).flat_map(|_| [SLEEP(300), CMT("ping")]).collect();
    for after in [vec![SILENT], pings] {
        let x = Setup::new().start().await;
        x.a.play([&[ROLE, TXT("one ")], &after[..]].concat());
        let r = x.call("chat").await;
        r.broken_stream("one ").tags("A/a1", false);
        assert_eq!(r.code(), "stream_stalled");
        let (content, error) = (r.contents()[0].at, r.errors()[0].at);
        x.near(error.saturating_duration_since(content), ms(1000));
        let closed = x.closed_after(&x.a, 0, content).await;
        x.near(closed, ms(1000));
        x.metric_becomes("sluice_gate_in_flight", &[("gate", "upstream:A")], 0.0).await;
        x.breaker_is("A/a1", "closed", 1).await;
        x.calls([1, 0, 0]);
        x.end().await;
    }
}

#[tokio::test]
async fn b012_the_line_stays_open_after_the_end_marker() {
    for after in
        [vec![SILENT], vec![TXT("more "), TXT("and more"), SILENT], vec![TXT("more "), TXT("and more")]]
    {
        let held = matches!(after.last(), Some(Step::Silent));
        let x = Setup::new().set("/upstreams/A/max_in_flight", 1).set("/upstreams/A/queue", 0).start().await;
        x.a.play([&[OK], &after[..]].concat());
        let r = x.call("solo").await;
        r.answered().tags("A/a1", false);
        let done = r.events.last().unwrap().at;
        let late = r.ended.unwrap().saturating_duration_since(done);
        assert!(late <= ms(200) + LATE, "the body ended {late:?} after its end marker");
        // The permit is free at that moment: with one place and no queue, the next call would be refused.
        x.a.healthy();
        x.call("solo").await.answered();
        if held {
            let closed = x.closed_after(&x.a, 0, done).await;
            assert!(closed <= ms(1000) + LATE, "the connection lingered for {closed:?}");
            assert!(!x.a.attempt(1).reused, "a connection with an answer on it was used again");
        }
        has(&x.record(&r).await, &json!({"outcome": "success", "attempts": [{"kind": null}]}));
        x.breaker_is("A/a1", "closed", 0).await;
        x.end().await;
    }
}
