//! Failover scenarios 1 to 7 and 10 to 13: what goes wrong before the first token, or does not spoil the answer.

use crate::expect::LATE;
use crate::scenarios::{RULES, Verdict, ask, begun, judged, provider_error, text, tokens, whole, within};
use harness::prelude::*;

/// The primary does this once, and is asked again.
async fn made_good_by_a_retry(fault: &Script) {
    for rule in RULES {
        let x = rule.start(|setup| setup).await;
        x.a.queue(fault.clone());
        let r = ask(&x).await;
        judged(&r, Verdict::Whole);
        r.tags("A/a1", false).attempts(2);
        x.calls([2, 0, 0]);
        x.end().await;
    }
}

#[tokio::test]
async fn s01_a_429_with_a_hint() {
    for rule in RULES {
        let x = rule.start(|setup| setup).await;
        x.a.queue(LIMITED(&[("retry-after", "2")]));
        let r = ask(&x).await;
        judged(&r, Verdict::Whole);
        // Two seconds are no scaled time: the hint is waited out, and nobody is hammered meanwhile.
        r.tags("A/a1", false).attempts(2);
        assert!(within(&x, ms(1500)) == 1, "{:?}", x.a.attempts());
        let apart = x.a.attempt(1).at - x.a.attempt(0).at;
        assert!(apart >= ms(1950) && apart <= ms(2100) + LATE, "asked again after {apart:?}");
        x.calls([2, 0, 0]);
        x.end().await;
    }
}

#[tokio::test]
async fn s02_a_429_for_ever() {
    for rule in RULES {
        let x = rule.start(|setup| setup).await;
        x.a.play(LIMITED(&[]));
        let r = ask(&x).await;
        judged(&r, Verdict::Whole);
        r.tags("B/b1", true);
        // Nothing says when to come again, so that another is asked.
        x.calls([1, 1, 0]);
        x.end().await;
    }
}

#[tokio::test]
async fn s03_a_500_once() {
    made_good_by_a_retry(&STATUS(500)).await;
}

#[tokio::test]
async fn s04_a_503_for_ever() {
    for rule in RULES {
        let x = rule.start(|setup| setup).await;
        x.a.play(STATUS(503));
        let r = ask(&x).await;
        judged(&r, Verdict::Whole);
        r.tags("B/b1", true);
        x.calls([3, 1, 0]);
        x.end().await;
        // Not the breaker alone holds it back: where that is out of the way, the retries of the route do.
        let x = rule.start(|setup| setup.set("/breaker/consecutive", 1000)).await;
        x.a.play(STATUS(503));
        judged(&ask(&x).await, Verdict::Whole);
        x.calls([3, 1, 0]);
        x.end().await;
    }
}

#[tokio::test]
async fn s05_a_reset_before_the_headers() {
    made_good_by_a_retry(&RST.into()).await;
}

#[tokio::test]
async fn s06_no_response_at_all() {
    for rule in RULES {
        let x = rule.start(|setup| setup).await;
        x.a.play([SLEEP(120_000), OK]);
        let r = ask(&x).await;
        judged(&r, Verdict::Whole);
        r.tags("B/b1", true).attempts(2);
        assert!(r.took() <= x.t(ms(30_000)) + LATE, "{r:?}");
        // A silent target is not asked a second time.
        x.calls([1, 1, 0]);
        x.end().await;
    }
}

#[tokio::test]
async fn s07_a_slow_first_token() {
    for rule in RULES {
        let x = rule.start(|setup| setup).await;
        x.a.play([vec![SSE, SLEEP(20_000)], whole().0].concat());
        let r = ask(&x).await;
        judged(&r, Verdict::Whole);
        r.tags("B/b1", true).attempts(2);
        x.between(x.b.attempt(0).at - r.sent, ms(8000), ms(8000));
        assert!(r.took() <= x.t(ms(15_000)) + ms(500), "no limit for the first token: {r:?}");
        x.calls([1, 1, 0]);
        x.end().await;
    }
}

#[tokio::test]
async fn s10_a_broken_event_in_the_stream() {
    for rule in RULES {
        let x = rule.start(|setup| setup).await;
        let broken = RAW("data: {\"id\":\"x\",\"choices\":[{\"delta\":{\"content\": \n\n");
        x.a.play([begun(9), vec![broken], tokens(10, 60), vec![FIN("stop"), USAGE, DONE]].concat());
        let r = ask(&x).await;
        judged(&r, Verdict::Whole);
        r.tags("A/a1", false).attempts(1);
        assert_eq!(r.text(), text(60));
        x.calls([1, 0, 0]);
        x.metric_becomes("sluice_malformed_events_total", &[("target", "A/a1")], 1.0).await;
        x.end().await;
    }
}

#[tokio::test]
async fn s11_no_end_marker() {
    for rule in RULES {
        let x = rule.start(|setup| setup).await;
        x.a.play([begun(60), vec![FIN("stop"), USAGE, END]].concat());
        let r = ask(&x).await;
        judged(&r, Verdict::Whole);
        r.tags("A/a1", false).attempts(1);
        assert!(r.took() <= x.t(ms(8000)) + LATE, "{r:?}");
        assert_eq!(r.events.iter().filter(|event| event.json()["usage"].is_object()).count(), 1, "{r:?}");
        x.calls([1, 0, 0]);
        x.end().await;
    }
}

#[tokio::test]
async fn s12_the_context_is_too_long() {
    let too_long = provider_error(
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "8192 tokens are the most of this model, and these are 9631",
    );
    for rule in RULES {
        let declared = |setup: Setup| {
            let setup = setup.set("/upstreams/A/models/a1", json!({"context": 8192}));
            setup.set("/upstreams/B/models/b1", json!({"context": 128_000}))
        };
        let x = rule.start(declared).await;
        x.a.play(too_long.clone());
        let r = ask(&x).await;
        judged(&r, Verdict::Whole);
        r.tags("B/b1", true).attempts(2);
        x.calls([1, 1, 0]);
        x.breaker_is("A/a1", "closed", 0).await;
        x.end().await;
        // Nobody is known to take more: the one answer is the provider's own.
        let x = rule.start(|setup| setup).await;
        x.a.play(too_long.clone());
        let r = ask(&x).await;
        judged(&r, Verdict::CleanError);
        r.refused(400, "context_length_exceeded").attempts(1);
        x.calls([1, 0, 0]);
        x.end().await;
    }
}

#[tokio::test]
async fn s13_a_content_filter_refuses() {
    let words = "refused by the safety system";
    for rule in RULES {
        let x = rule.start(|setup| setup).await;
        x.a.play(provider_error(400, "invalid_request_error", "content_policy_violation", words));
        let r = ask(&x).await;
        judged(&r, Verdict::CleanError);
        r.refused(400, "content_policy_violation").attempts(1);
        assert_eq!(r.error()["message"], words);
        assert_eq!(r.header("x-sluice-failure-kind"), Some("content_filtered"));
        x.calls([1, 0, 0]);
        x.end().await;
    }
}
