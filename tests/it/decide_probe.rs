//! How a target comes back: the one probe, by a call or by a background check, and how long it stays away.

use harness::prelude::*;

fn active() -> Setup {
    Setup::new().set("/upstreams/A/probe", json!({"mode": "active", "interval": "100ms", "timeout": "300ms"}))
}

fn event_counts(x: &Case, event: &str) -> usize {
    x.gateway.events(event).iter().filter(|line| line["target"] == "A/a1").count()
}

#[tokio::test]
async fn a_background_check_closes_the_breaker_without_any_call() {
    let x = active().set("/breaker/open", ms(600)).start().await;
    x.open_a().await;
    let opened = now();
    assert_eq!(x.a.probes().len(), 0, "an open period is not looked into");
    x.gateway.wait_for_event("provider_recovered", |line| line["target"] == "A/a1").await;
    x.between(now() - opened, ms(500), ms(700));
    x.breaker_is("A/a1", "closed", 0).await;
    let probes = x.a.probes();
    assert_eq!(probes.len(), 1, "one probe and no more");
    assert_eq!((probes[0].method(), probes[0].path()), ("GET", "/v1/models"));
    assert_eq!(probes[0].key(), Some(harness::setup::key_of("A").as_str()));
    assert_eq!(event_counts(&x, "provider_probe_succeeded"), 1);
    x.call("chat").await.answered().tags("A/a1", false);
    x.calls([4, 3, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_check_that_fails_opens_it_again_and_calls_stay_away() {
    let broken: [(Script, &str, Value); 4] = [
        (STATUS(500), "retryable_upstream", json!(500)),
        (STATUS(504), "retryable_timeout", json!(504)),
        (CUT.into(), "retryable_upstream", Value::Null),
        (SILENT.into(), "retryable_timeout", Value::Null),
    ];
    for (script, kind, status) in broken {
        let x = active().set("/breaker/open", ms(400)).set("/breaker/open_max", ms(5000)).start().await;
        x.open_a().await;
        x.a.play_probes(script);
        let failed = x.gateway.wait_for_event("provider_probe_failed", |line| line["target"] == "A/a1").await;
        assert_eq!((&failed["kind"], &failed["status"]), (&json!(kind), &status), "{failed}");
        let breaker = x.breaker("A/a1").await;
        assert_eq!((&breaker["state"], breaker["opens"].as_u64()), (&json!("open"), Some(2)), "{breaker}");
        x.call("chat").await.answered().tags("B/b1", true).attempts(1);
        assert_eq!(event_counts(&x, "provider_recovered"), 0);
        x.a.healthy();
        x.gateway.wait_for_event("provider_recovered", |line| line["target"] == "A/a1").await;
        x.end().await;
    }
}

#[tokio::test]
async fn a_check_that_says_nothing_gives_the_slot_back() {
    let x =
        active().set("/breaker/open", ms(300)).set("/upstreams/A/probe/path", "/nowhere?x=1").start().await;
    x.open_a().await;
    x.a.play_probes(STATUS(404));
    assert!(x.a.wait(x.t(ms(5000)), |up| up.probes().len() >= 2).await, "looked at again after the interval");
    assert_eq!(x.a.probes()[0].path(), "/v1/nowhere?x=1");
    assert_eq!(event_counts(&x, "provider_probe_failed") + event_counts(&x, "provider_probe_succeeded"), 0);
    // The next call is the probe.
    let back = x.poll(ms(2000), async || x.call("chat").await.header("x-sluice-upstream") == Some("A"));
    assert!(back.await);
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test]
async fn while_a_check_is_out_it_is_the_one_probe() {
    let x = active().set("/breaker/open", ms(300)).set("/upstreams/A/probe/timeout", "3s").start().await;
    x.open_a().await;
    x.a.play_probes([SLEEP(1000), HEAD(204, &[]), END]);
    assert!(x.a.wait(x.t(ms(5000)), |up| up.probes().len() == 1).await);
    for _ in 0..5 {
        x.call("chat").await.answered().tags("B/b1", true).attempts(1);
    }
    assert_eq!((x.a.calls(), x.a.probes().len()), (3, 1));
    x.gateway.wait_for_event("provider_recovered", |line| line["target"] == "A/a1").await;
    x.call("chat").await.answered().tags("A/a1", false);
    x.end().await;
}

#[tokio::test]
async fn checks_end_with_the_gateway() {
    let x = active().set("/breaker/open", ms(200)).start().await;
    x.open_a().await;
    x.gateway.wait_for_event("provider_recovered", |_| true).await;
    let mut gateway = x.end().await;
    assert_eq!(gateway.stop().await, 0);
}

/// Calls until one of them has become the probe of A, which fails. Gives the last call that went to B without
/// asking A, and the probing one.
async fn until_probed(x: &Case) -> (Response, Response) {
    let (calls, mut kept_away) = (x.a.calls(), None);
    loop {
        let r = x.call("chat").await;
        r.answered().tags("B/b1", true);
        if x.a.calls() > calls {
            assert_eq!(x.a.calls(), calls + 1, "one probe");
            return (kept_away.expect("the first call after an opening is kept away"), r);
        }
        kept_away = Some(r);
    }
}

/// What is compared are calls with each other, so that it does not matter how fast this machine makes them:
/// the last that was kept away came before the end of the longest period there may be, and the one that
/// became the probe was let through after the end of the shortest.
#[tokio::test]
async fn open_periods_grow_with_jitter_up_to_their_cap() {
    let x = Setup::new().set("/breaker/open", ms(400)).set("/breaker/open_max", ms(1500)).start().await;
    x.a.play(STATUS(503));
    let mut opener = x.call("chat").await;
    for _ in 0..2 {
        opener = x.call("chat").await;
    }
    x.breaker_is("A/a1", "open", 3).await;
    let mut opens = x.breaker("A/a1").await["opens"].as_u64().unwrap();
    for (least, most) in [(400, 400), (800, 960), (1500, 1500), (1500, 1500)] {
        let (kept_away, probing) = until_probed(&x).await;
        let probe = x.a.attempts().last().unwrap().at;
        let earliest = opener.sent + x.t(ms(least));
        assert!(probe >= earliest, "{least}: probed {:?} too soon", earliest - probe);
        let latest = opener.ended.unwrap() + x.t(ms(most));
        assert!(kept_away.sent <= latest, "{most}: kept away {:?} too long", kept_away.sent - latest);
        opens += 1;
        let breaker = x.breaker("A/a1").await;
        assert_eq!(
            (&breaker["state"], breaker["opens"].as_u64()),
            (&json!("open"), Some(opens)),
            "{breaker}"
        );
        opener = probing;
    }
    x.end().await;
}

#[tokio::test]
async fn the_share_of_failures_opens_where_no_row_of_them_does() {
    let rate = json!({"enabled": true, "window": 10, "min": 6, "ratio": 0.5});
    let x = Setup::new().set("/breaker/rate", rate).start().await;
    // Every other call fails: never two in a row.
    for n in 0..5 {
        x.a.queue(if n == 1 || n == 3 { OK.into() } else { STATUS(503) });
    }
    for _ in 0..5 {
        x.call("chat").await.answered();
    }
    let breaker = x.breaker("A/a1").await;
    assert_eq!(breaker["state"], "closed", "five calls are too few to tell: {breaker}");
    assert!((breaker["rate"].as_f64().unwrap() - 0.6).abs() < 1e-9, "{breaker}");
    x.a.queue(OK);
    x.call("chat").await.answered().tags("A/a1", false);
    x.breaker_is("A/a1", "open", 0).await;
    x.call("chat").await.answered().tags("B/b1", true).attempts(1);
    x.calls([6, 4, 0]);
    x.end().await;
}
