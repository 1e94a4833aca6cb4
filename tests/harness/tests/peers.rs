use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::PATIENCE;
use crate::call::Call;
use crate::client::Ledger;
use crate::prelude::*;
use crate::refuse::{Refusing, Swallowing};

fn call(up: &Upstream) -> Call {
    Call::new(up.addr(), Ledger::default(), "m")
}

async fn upstream() -> Upstream {
    Upstream::start("A", 1.0).await
}

#[tokio::test]
async fn a_healthy_answer_comes_in_the_form_that_was_asked_for() {
    let up = upstream().await;
    let stream = call(&up).await;
    stream.answered();
    assert_eq!((stream.events.len(), stream.contents().len()), (6, 3));
    assert_eq!(stream.events[0].json()["model"], "m");
    let plain = call(&up).plain().await;
    plain.answered();
    assert_eq!(plain.json()["id"], "chatcmpl-A");
    assert_eq!(up.calls(), 2);
    assert!(up.attempts().iter().all(|attempt| matches!(attempt.over, Some((_, How::Finished)))));
}

#[tokio::test]
async fn every_ending_is_seen_as_what_it_is() {
    let up = upstream().await;
    let half = [ROLE, TXT("one "), TXT("two ")];
    let with = |end: Step| Script([&half[..], &[end]].concat());
    for (end, want) in [(END, End::Complete), (CUT, End::Cut), (RST, End::Reset)] {
        up.play(with(end.clone()));
        let response = call(&up).await;
        assert_eq!(response.end, want, "{end:?}: {response:?}");
        // A reset may overtake what the client had not read yet.
        if want != End::Reset {
            assert_eq!(response.text(), "one two ", "{end:?}");
        }
    }
    for (end, want) in [(CUT, End::Cut), (RST, End::Reset)] {
        up.play(end);
        let response = call(&up).await;
        assert_eq!((response.end, response.status), (want, 0), "before the head: {response:?}");
    }
    up.play([SSE, END]);
    let empty = call(&up).await;
    assert_eq!((empty.end, empty.status, empty.body.len()), (End::Complete, 200, 0));
}

#[tokio::test]
async fn judgements_can_fail() {
    let up = upstream().await;
    let verdict = |response: Response, judge: fn(&Response)| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| judge(&response))).is_ok()
    };
    up.play([ROLE, TXT("one "), ERR("x"), END]);
    assert!(verdict(call(&up).await, |r| _ = r.broken_stream("one ")));
    assert!(!verdict(call(&up).await, |r| _ = r.answered()));
    for bad in [
        Script::from([ROLE, TXT("one "), ERR("x"), DONE]),
        Script::from([ROLE, TXT("one "), FIN("stop"), ERR("x")]),
        Script::from([ROLE, TXT("one "), ERR("x"), TXT("two ")]),
        Script::from([ROLE, TXT("one "), ERR("x"), CUT]),
        Script::from([ROLE, TXT("one "), ERR("x"), ERR("x")]),
        Script::from([
            ROLE,
            TXT("one "),
            RAW("data: {\"error\":{\"message\":1,\"type\":\"t\",\"code\":1}}\n\n"),
        ]),
        Script::from([ROLE, TXT("one ")]),
    ] {
        up.play(bad.clone());
        assert!(!verdict(call(&up).await, |r| _ = r.broken_stream("one ")), "{bad:?}");
    }
    up.play([RAW("id: 1\n"), ROLE, TXT("one two three"), FIN("stop"), DONE]);
    assert!(!verdict(call(&up).await, |r| _ = r.answered()));
}

#[tokio::test]
async fn a_client_that_leaves_is_seen_leaving() {
    let up = upstream().await;
    up.play([ROLE, TXT("one "), SILENT]);
    let mut client = call(&up).begin().await;
    client.contents(1).await;
    let left = now();
    client.close();
    assert!(up.closed_within(0, PATIENCE).await >= left);
    assert!(matches!(up.attempt(0).over, Some((_, How::Closed))));
    let mut client = call(&up).begin().await;
    client.contents(1).await;
    client.reset();
    up.closed_within(1, PATIENCE).await;
    assert!(matches!(up.attempt(1).over, Some((_, How::Reset))));
    // A writer that is held up sees it too.
    up.play(vec![RAW(vec![b'x'; 64 << 20])]);
    let client = call(&up).receive_buffer(4096).begin().await;
    assert!(up.wait(PATIENCE, |up| up.calls() == 3 && up.attempt(2).written > 0).await);
    client.close();
    up.closed_within(2, PATIENCE).await;
    assert!(up.attempt(2).written < 64 << 20);
}

#[tokio::test]
async fn the_request_is_logged_as_it_came() {
    let up = upstream().await;
    let body = json!({"model": "a1", "stream": true, "pad": "x".repeat(100_000)}).to_string();
    for call in [call(&up).body(body.as_str()), call(&up).body(body.as_str()).chunked()] {
        call.header("X-Keep", "1")
            .header("authorization", "Bearer k")
            .path("/v1/chat/completions?q=1")
            .await
            .answered();
    }
    for attempt in up.attempts() {
        assert_eq!(attempt.body, body.as_bytes());
        assert_eq!((attempt.method(), attempt.path()), ("POST", "/v1/chat/completions?q=1"));
        assert_eq!((attempt.header("x-keep"), attempt.key()), (Some("1"), Some("k")));
        assert_eq!((attempt.model().as_str(), attempt.reused), ("a1", false));
    }
}

#[tokio::test]
async fn scripts_are_chosen_in_their_order() {
    let up = upstream().await;
    up.play(STATUS(500));
    up.play_for("special", STATUS(501));
    up.queue(STATUS(502)).queue(STATUS(503));
    up.decide(|attempt| (attempt.body.len() > 1000).then(|| STATUS(413)));
    let long = "x".repeat(1000);
    let mut seen = Vec::new();
    for (model, pad) in [("m", ""), ("m", &long), ("special", ""), ("special", ""), ("m", "")] {
        seen.push(call(&up).set("model", model).set("pad", pad).await.status);
    }
    assert_eq!(seen, [502, 413, 503, 501, 500]);
    up.healthy();
    call(&up).await.answered();
}

#[tokio::test]
async fn connections_are_kept_and_counted() {
    let up = upstream().await;
    let mut client = Client::open(up.addr()).await;
    call(&up).on(&mut client).await.answered();
    call(&up).plain().on(&mut client).await.answered();
    let attempts = up.attempts();
    assert_eq!((attempts[0].reused, attempts[1].reused), (false, true));
    assert_eq!((attempts[0].connection, attempts[1].connection, up.connections()), (1, 1, 1));
    up.idle_close(ms(20));
    call(&up).on(&mut client).await.answered();
    let rest = client.read_until(PATIENCE, |_| false).await;
    assert_eq!(rest.end, End::Complete);
    client.send(b"").await;
    assert_eq!(client.read_until(PATIENCE, |_| false).await.end, End::Cut, "idle connections are closed");
}

#[tokio::test]
async fn overlapping_attempts_are_counted_at_their_peak() {
    let up = upstream().await;
    up.play([ROLE, SILENT]);
    let (one, two) = (call(&up).begin().await, call(&up).begin().await);
    up.wait_for_attempts(2).await;
    assert_eq!((up.active(), up.peak()), (2, 2));
    one.close();
    two.close();
    assert!(up.wait(PATIENCE, |up| up.active() == 0).await);
    up.healthy();
    call(&up).await.answered();
    assert_eq!(up.peak(), 2);
}

#[tokio::test]
async fn pauses_are_stretched_and_pieces_are_pieces() {
    let up = Upstream::start("A", 0.1).await;
    up.play([ROLE, SLEEP(1000), TXT("late"), SPLIT(TXT("你好🙂é"), 1, 1), FIN("stop"), DONE]);
    let response = call(&up).await;
    assert_eq!(response.text(), "late你好🙂é");
    let gap = response.events[1].at - response.events[0].at;
    assert!(gap >= ms(95) && gap < ms(900), "{gap:?}");
}

#[tokio::test]
async fn probes_are_no_attempts() {
    let up = upstream().await;
    up.play(STATUS(500));
    let page = crate::client::fetch(up.addr(), &crate::client::get("/v1/models")).await;
    assert_eq!((page.status, up.calls(), up.probes().len()), (200, 0, 1));
}

#[tokio::test]
async fn the_tls_variant_is_trusted_by_its_own_certificate_only() {
    let up = Upstream::start_tls("A", 1.0, "localhost").await;
    let connect = async |trusted: bool, name: &'static str| -> io::Result<Vec<u8>> {
        let mut roots = RootCertStore::empty();
        if trusted {
            roots.add(CertificateDer::from_pem_slice(up.ca_pem().as_bytes()).unwrap()).unwrap();
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tcp = TcpStream::connect(up.addr()).await?;
        let connector = TlsConnector::from(Arc::new(config));
        let mut tls = connector.connect(ServerName::try_from(name).unwrap(), tcp).await?;
        tls.write_all(&call(&up).plain().bytes()).await?;
        let mut answer = Vec::new();
        while !String::from_utf8_lossy(&answer).contains("one two three")
            && tls.read_buf(&mut answer).await? > 0
        {}
        Ok(answer)
    };
    assert!(connect(true, "localhost").await.unwrap().starts_with(b"HTTP/1.1 200"));
    assert!(connect(true, "other.test").await.is_err());
    assert!(connect(false, "localhost").await.is_err());
    assert_eq!(up.calls(), 1);
}

#[tokio::test]
async fn addresses_that_do_not_answer_do_not_answer() {
    let refusing = Refusing::new();
    let refused = TcpStream::connect(refusing.addr()).await.map_err(|error| error.kind());
    assert_eq!(refused.err(), Some(io::ErrorKind::ConnectionRefused));
    let swallowing = Swallowing::new();
    let swallowed =
        tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(swallowing.addr())).await;
    assert!(swallowed.is_err(), "{swallowed:?}");
}
