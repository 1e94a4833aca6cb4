//! Condition Z has to be able to fail.

use crate::call::Call;
use crate::client::Ledger;
use crate::metrics::Metrics;
use crate::prelude::*;
use crate::z::{busy_gauges, leaks, no_panic, nothing_busy, untraceable};

#[tokio::test]
#[should_panic(expected = "A is still busy with attempts [1]")]
async fn an_upstream_that_still_works_is_noticed() {
    let up = Upstream::start("A", 1.0).await;
    let ledger = Ledger::default();
    Call::new(up.addr(), ledger.clone(), "m").await.answered();
    nothing_busy(&up).await;
    up.play([ROLE, SILENT]);
    let _running = Call::new(up.addr(), ledger, "m").begin().await;
    up.wait_for_attempts(2).await;
    nothing_busy(&up).await;
}

#[test]
fn gauges_have_to_be_there_and_at_zero() {
    let both = "sluice_gate_in_flight{gate=\"global\"} 0\nsluice_gate_queue_depth{gate=\"global\"} 0\n";
    assert_eq!(busy_gauges(&Metrics::parse(both)), Vec::<String>::new());
    for bad in [
        format!("{both}sluice_gate_in_flight{{gate=\"upstream:A\"}} 1\n"),
        format!("{both}sluice_gate_queue_depth{{gate=\"upstream:A\"}} -1\n"),
        "sluice_gate_in_flight{gate=\"global\"} 0\n".to_owned(),
        String::new(),
    ] {
        assert!(!busy_gauges(&Metrics::parse(&bad)).is_empty(), "{bad}");
    }
}

#[test]
fn an_answer_that_the_log_does_not_know_is_noticed() {
    let response = |id: &str| {
        let mut response = Response::new(now());
        response.feed(format!("HTTP/1.1 200 OK\r\n{id}content-length: 0\r\n\r\n").as_bytes(), now());
        response
    };
    let known = response("x-request-id: r1\r\n");
    let unanswered = Response::new(now());
    assert!(untraceable(&[known, unanswered], "{\"request_id\":\"r1\"}").is_empty());
    assert_eq!(untraceable(&[response("x-request-id: r2\r\n"), response("")], "r1").len(), 2);
}

#[test]
fn a_credential_is_found_wherever_it_is() {
    let secrets = [crate::setup::key_of("A"), "short".to_owned()];
    let page = |text: &str| ("page".to_owned(), text.to_owned());
    assert!(leaks(&secrets, &[page("sk-scripted and short"), page("")]).is_empty());
    assert_eq!(leaks(&secrets, &[page(&format!("x{}y", secrets[0]))]), ["page"]);
}

#[tokio::test]
async fn every_response_of_a_case_is_in_its_ledger_once() {
    let up = Upstream::start("A", 1.0).await;
    let ledger = Ledger::default();
    let call = Call::new(up.addr(), ledger.clone(), "m");
    let mut kept = call.begin().await;
    kept.finish().await;
    call.on(&mut kept).await;
    drop(kept);
    up.play([ROLE, TXT("one "), SILENT]);
    let mut left = call.begin().await;
    left.contents(1).await;
    left.reset();
    let ends: Vec<_> = ledger.lock().unwrap().iter().map(|response| response.end).collect();
    assert_eq!(ends, [End::Complete, End::Complete, End::Open]);
}

#[test]
#[should_panic(expected = "something panicked")]
fn a_panic_is_noticed() {
    no_panic("{\"event\":\"listening\"}\n{\"plugin\":\"p\",\"message\":\"panicked at src/lib.rs\"}");
    no_panic("thread 'tokio-runtime-worker' panicked at host/src/x.rs:1:2:\noops");
}
