//! Attempts in virtual time, over pipes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use sluice_core::lens::wire::Wire;

use super::*;
use crate::config::{self, BaseUrl};
use crate::upstream::{Client, ConnectError, Dial, Dialed, Line};

const CONFIG: &str = r#"
upstreams: { a: { base_url: "http://a.test", models: { m: {} } } }
routes: { chat: { targets: [ a/m ] } }
"#;

/// Says this to every request, and then nothing any more.
struct Says(&'static str, TaskTracker);

impl Dial for Says {
    fn dial<'a>(
        &'a self,
        _: &'a BaseUrl,
    ) -> Pin<Box<dyn Future<Output = Result<Dialed, ConnectError>> + Send + 'a>> {
        let (client, mut server) = tokio::io::duplex(1 << 20);
        let says = self.0;
        self.1.spawn(async move {
            let mut read = [0; 4096];
            while server.read(&mut read).await.is_ok_and(|count| count > 0) {
                server.write_all(says.as_bytes()).await.unwrap();
            }
        });
        Box::pin(async move { Ok(Dialed { io: Box::new(TokioIo::new(client)), http2: false }) })
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_whose_body_never_ends_is_judged_by_what_has_come() {
    let loaded = config::parse(CONFIG, "sluice.yaml".as_ref(), &|_| None).unwrap();
    let config = loaded.config;
    let upstream = config.upstreams.values().next().unwrap().clone();
    let tracker = TaskTracker::new();
    let error = r#"{"error":{"message":"busy","type":"overloaded_error","code":"busy"}}"#;
    for (says, code) in [
        ("HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\n\r\n", None),
        (
            &*format!("HTTP/1.1 503 Busy\r\ncontent-length: 1000\r\nretry-after: 7\r\n\r\n{error}"),
            Some("busy"),
        ),
    ] {
        let dial = Arc::new(Says(says.to_owned().leak(), tracker.clone()));
        let client = Client::new(upstream.clone(), dial, tracker.clone(), CancellationToken::new());
        let outgoing = Outgoing {
            client: &client,
            line: &Line::default(),
            path: "/chat/completions",
            credential: None,
            headers: (&HeaderMap::new(), &[]),
            request_id: "one",
            trace: None,
            begun: crate::clock::now(),
            body: Bytes::from_static(b"{}"),
            connect: Duration::from_secs(2),
        };
        let expected = Expected {
            wire: Wire::Chat,
            streaming: false,
            usage_asked: false,
            rules: Rules {
                event_max: 1 << 20,
                held_events_max: 64,
                held_bytes_max: 1 << 20,
                malformed_fails: false,
                choices: 1,
                complete_max: None,
                hide_usage: false,
            },
            limits: config.limits,
            idle: None,
            wait_max: Duration::from_secs(60),
        };
        let progress = Progress::default();
        let attempt = run(&outgoing, &expected, &progress);
        let ended = tokio::time::timeout(Duration::from_millis(1500), attempt).await;
        let Ok(Err(fault)) = ended else { panic!("it waited for an end of {says:?}") };
        assert_eq!((fault.status, fault.stage), (Some(503), Stage::Body));
        assert_eq!(fault.error.and_then(|error| error.code).as_deref(), code);
        assert_eq!(fault.retry_after, code.map(|_| Duration::from_secs(7)));
    }
}
