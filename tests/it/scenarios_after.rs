//! Failover scenarios 8, 9 and 14 to 16: what goes wrong within an answer, an outage, and the books.

use crate::expect::LATE;
use crate::scenarios::{RULES, Rule, Verdict, ask, begun, judged, text, tokens};
use harness::prelude::*;

#[tokio::test]
async fn s08_a_cut_in_mid_answer() {
    for rule in RULES {
        let x = rule.start(|setup| setup).await;
        x.a.play([begun(40), vec![CUT]].concat());
        let r = ask(&x).await;
        rule.after_content(&r);
        match rule {
            Rule::FirstContent => {
                r.broken_stream(&text(40)).tags("A/a1", false);
                x.calls([1, 0, 0]);
            }
            Rule::Complete => {
                r.tags("B/b1", true);
            }
        }
        x.end().await;
    }
}

#[tokio::test]
async fn s09_a_stream_that_stalls() {
    for rule in RULES {
        let x = rule.start(|setup| setup).await;
        x.a.play([begun(20), vec![SLEEP(30_000), CUT]].concat());
        let r = ask(&x).await;
        rule.after_content(&r);
        match rule {
            Rule::FirstContent => {
                r.broken_stream(&text(20)).tags("A/a1", false);
                assert_eq!(r.code(), "stream_stalled");
                x.calls([1, 0, 0]);
            }
            Rule::Complete => {
                r.tags("B/b1", true);
                x.calls([1, 1, 0]);
            }
        }
        assert!(r.took() <= x.t(ms(25_000)) + LATE, "{r:?}");
        // It is alive afterwards.
        x.call("other").await.tags("B/b1", false);
        x.end().await;
    }
}

#[tokio::test]
async fn s14_a_backup_that_would_reject_a_continuation() {
    for rule in RULES {
        let x = rule.start(|setup| setup).await;
        x.a.play([begun(40), vec![CUT]].concat());
        x.b.decide(|attempt| {
            let messages = attempt.json()["messages"].clone();
            let last = messages.as_array().and_then(|messages| messages.last());
            let continues = last.is_some_and(|message| message["role"] == "assistant");
            let rejection = json!({"error": {"message": "no prefill", "type": "invalid_request_error", "code": "invalid_prefill"}});
            continues.then(|| JSON(400, &rejection))
        });
        let r = ask(&x).await;
        rule.after_content(&r);
        assert!(!String::from_utf8_lossy(&r.raw).contains("prefill"), "not what went wrong: {r:?}");
        match rule {
            Rule::FirstContent => {
                assert_eq!(r.code(), "upstream_interrupted");
                assert_eq!(x.b.calls(), 0);
            }
            // What the client sent is asked anew, and nothing is continued.
            Rule::Complete => {
                r.tags("B/b1", true);
                assert_eq!(x.b.attempt(0).json()["messages"], x.a.attempt(0).json()["messages"]);
            }
        }
        x.end().await;
    }
}

#[tokio::test]
async fn s15_a_primary_that_is_down_for_a_minute() {
    for rule in RULES {
        let x = rule.start(|setup| setup).await;
        let (began, down) = (now(), x.t(ms(60_000)));
        x.a.decide(move |attempt| (attempt.at < began + down).then(|| STATUS(503)));
        let mut served = Vec::new();
        for n in 0..20 {
            tokio::time::sleep_until((began + x.t(ms(4000)) * n).into()).await;
            let r = ask(&x).await;
            judged(&r, Verdict::Whole);
            served.push(r);
        }
        let attempts = x.a.attempts();
        let (outage, back): (Vec<_>, Vec<_>) = attempts.iter().partition(|attempt| attempt.at < began + down);
        assert!(!back.is_empty(), "the primary was not used again");
        let after = back[0].at - (began + down);
        assert!(after <= x.t(ms(30_000)), "used again {after:?} after it was well");
        served.last().unwrap().tags("A/a1", false);
        // Three failures open it; after that one probe in ten seconds of sixty, the last of them at the end.
        assert!(outage.len() <= 3 + 6, "{} attempts at a primary that was down", outage.len());
        let fallbacks = served.iter().filter(|r| r.header("x-sluice-upstream") == Some("B")).count();
        assert!(fallbacks >= 15, "{fallbacks} of the calls in the outage were served by the backup");
        x.end().await;
    }
}

#[tokio::test]
async fn s16_the_books_after_a_failover() {
    for rule in RULES {
        let x = rule.start(|setup| setup.set("/account_usage", true)).await;
        x.a.play(STATUS(503));
        let usage = json!({"choices": [], "usage": {"prompt_tokens": 17, "completion_tokens": 61}});
        let end = vec![FIN("stop"), EVENT(&usage), DONE];
        x.b.play([vec![ROLE], tokens(1, 60), end].concat());
        let r = ask(&x).await;
        judged(&r, Verdict::Whole);
        r.tags("B/b1", true);
        assert!(x.a.calls() <= 6, "{} attempts", x.a.calls());
        let models = r.events.iter().map(|event| event.json()["model"].clone());
        assert!(models.filter(|model| !model.is_null()).all(|model| model == "b1"), "{r:?}");
        let shown = r.events.iter().map(|event| event.json()["usage"].clone()).find(|usage| !usage.is_null());
        assert_eq!(shown, Some(usage["usage"].clone()), "{r:?}");
        let record = x.record(&r).await;
        let tokens = json!({"input": 17, "output": 61, "source": "upstream"});
        assert_eq!((&record["served_model"], &record["tokens"]), (&json!("b1"), &tokens), "{record}");
        let name = "sluice_tokens_total";
        x.metric_becomes(name, &[("served_model", "b1"), ("direction", "output")], 61.0).await;
        x.metric_becomes(name, &[("model", "chat"), ("direction", "input")], 17.0).await;
        x.metric_becomes(name, &[("served_model", "a1")], 0.0).await;
        let request = [("model", "chat"), ("served_model", "b1"), ("upstream", "B"), ("fallback", "true")];
        x.metric_becomes("sluice_requests_total", &request, 1.0).await;
        x.end().await;
    }
}
