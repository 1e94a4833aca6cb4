//! HTTP/2 connections in virtual time, over pipes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Client, ConnectError, Dial, Dialed, Exchange, ExchangeError, Line};
use crate::config::{self, BaseUrl};
use crate::tracked::Tracked;

const CONFIG: &str = r#"
upstreams: { a: { base_url: "http://a.test", models: { m: {} } } }
routes: { chat: { targets: [ a/m ] } }
"#;

/// An upstream that speaks HTTP/2 over pipes.
struct Peer {
    /// Streams it allows on one connection.
    streams: u32,
    /// Connections made.
    dials: AtomicUsize,
    /// Requests it has seen.
    seen: watch::Sender<usize>,
    /// It answers while this is true.
    answers: watch::Sender<bool>,
    /// Connections up to this one carry nothing any more.
    dark: watch::Sender<usize>,
    /// Its tasks.
    tasks: TaskTracker,
}

impl Peer {
    fn new(streams: u32) -> Arc<Self> {
        Arc::new(Self {
            streams,
            dials: AtomicUsize::new(0),
            seen: watch::Sender::new(0),
            answers: watch::Sender::new(true),
            dark: watch::Sender::new(0),
            tasks: TaskTracker::new(),
        })
    }

    fn dials(&self) -> usize {
        self.dials.load(Ordering::Relaxed)
    }

    fn open(&self) -> TokioIo<tokio::io::DuplexStream> {
        let number = self.dials.fetch_add(1, Ordering::Relaxed) + 1;
        let (client, mut near) = tokio::io::duplex(1 << 20);
        let (mut far, server) = tokio::io::duplex(1 << 20);
        let mut dark = self.dark.subscribe();
        self.tasks.spawn(async move {
            let went_dark = async { dark.wait_for(|dark| *dark >= number).await.is_ok() };
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut near, &mut far) => return,
                _ = went_dark => {}
            }
            std::future::pending::<()>().await;
        });
        let (seen, answers) = (self.seen.clone(), self.answers.subscribe());
        let answer = service_fn(move |_: Request<Incoming>| {
            seen.send_modify(|seen| *seen += 1);
            let mut answers = answers.clone();
            async move {
                let _ = answers.wait_for(|answers| *answers).await;
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"{}"))))
            }
        });
        let mut builder = hyper::server::conn::http2::Builder::new(Tracked::new(self.tasks.clone()));
        builder.max_concurrent_streams(self.streams);
        let serving = builder.serve_connection(TokioIo::new(server), answer);
        self.tasks.spawn(async move {
            // A client that leaves is no concern of this peer.
            let _ = serving.await;
        });
        TokioIo::new(client)
    }
}

impl Dial for Peer {
    fn dial<'a>(
        &'a self,
        _: &'a BaseUrl,
    ) -> Pin<Box<dyn Future<Output = Result<Dialed, ConnectError>> + Send + 'a>> {
        Box::pin(async move { Ok(Dialed { io: Box::new(self.open()), http2: true }) })
    }
}

struct Bench {
    client: Arc<Client>,
    peer: Arc<Peer>,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Bench {
    fn new(streams: u32) -> Self {
        let loaded = config::parse(CONFIG, "sluice.yaml".as_ref(), &|_| None).unwrap();
        let upstream = loaded.config.upstreams.values().next().unwrap().clone();
        let (peer, tracker, stop) = (Peer::new(streams), TaskTracker::new(), CancellationToken::new());
        let client = Arc::new(Client::new(upstream, peer.clone(), tracker.clone(), stop.clone()));
        Self { client, peer, tracker, stop }
    }

    fn exchange(&self) -> impl Future<Output = Result<Exchange, ExchangeError>> + Send + 'static {
        let client = self.client.clone();
        async move {
            let make = || {
                let mut request = Request::post("/").body(Full::new(Bytes::from_static(b"{}"))).unwrap();
                client.address(&mut request, "/chat/completions", None);
                request
            };
            client.exchange(Duration::from_secs(2), &Line::default(), make).await
        }
    }

    /// An exchange up to the end of its body.
    async fn whole(&self) -> Result<(), ExchangeError> {
        let mut exchange = self.exchange().await?;
        while let Some(data) = exchange.body.data().await {
            data.unwrap();
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_went_dark_is_replaced_after_an_attempt_ran_into_its_clock() {
    let bench = Bench::new(100);
    bench.whole().await.unwrap();
    bench.peer.dark.send_replace(1);
    let clock = Duration::from_secs(2);
    assert!(tokio::time::timeout(clock, bench.whole()).await.is_err(), "nothing comes over it");
    let next = tokio::time::timeout(clock, bench.whole()).await;
    assert!(matches!(next, Ok(Ok(()))), "the call after it is on a new connection: {next:?}");
    assert_eq!(bench.peer.dials(), 2);
}

#[tokio::test(start_paused = true)]
async fn attempts_too_short_to_tell_find_a_dark_connection_out_together() {
    let bench = Bench::new(100);
    bench.whole().await.unwrap();
    bench.peer.dark.send_replace(1);
    let mut failed = 0;
    while tokio::time::timeout(Duration::from_millis(300), bench.whole()).await.is_err() {
        failed += 1;
        assert!(failed < 10, "it is never replaced");
    }
    assert_eq!(bench.peer.dials(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_early_costs_no_connection() {
    let bench = Bench::new(100);
    bench.whole().await.unwrap();
    bench.peer.answers.send_replace(false);
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(tokio::time::timeout(Duration::from_millis(300), bench.whole()).await.is_err());
    }
    bench.peer.answers.send_replace(true);
    bench.whole().await.unwrap();
    assert_eq!(bench.peer.dials(), 1, "the connection was never in doubt");
}

#[tokio::test(start_paused = true)]
async fn an_exchange_on_a_dark_connection_ends_without_a_clock_of_its_own() {
    let bench = Bench::new(100);
    bench.whole().await.unwrap();
    bench.peer.dark.send_replace(1);
    let ended = tokio::time::timeout(Duration::from_secs(30), bench.whole()).await;
    assert!(ended.is_ok(), "pings find out that nobody is there");
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_streams_of_a_connection_go_out_on_another() {
    for (announced, calls, connections) in [(10, 25, 3), (200, 150, 2), (1, 5, 5)] {
        let bench = Bench::new(announced);
        bench.whole().await.unwrap();
        bench.peer.answers.send_replace(false);
        let tasks = TaskTracker::new();
        for _ in 0..calls {
            let exchange = bench.exchange();
            tasks.spawn(async move { exchange.await.unwrap() });
        }
        let mut seen = bench.peer.seen.subscribe();
        let all =
            tokio::time::timeout(Duration::from_secs(1), seen.wait_for(|seen| *seen == calls + 1)).await;
        assert!(all.is_ok(), "{announced}: the peer saw {} of {calls} calls", *bench.peer.seen.borrow() - 1);
        assert_eq!(bench.peer.dials(), connections, "{calls} calls, {announced} at a time");
        bench.peer.answers.send_replace(true);
        tasks.close();
        tasks.wait().await;
    }
}

#[tokio::test(start_paused = true)]
async fn more_connections_than_are_kept_are_used_once() {
    let bench = Bench::new(1);
    bench.whole().await.unwrap();
    bench.peer.answers.send_replace(false);
    let tasks = TaskTracker::new();
    for _ in 0..100 {
        let exchange = bench.exchange();
        tasks.spawn(async move { exchange.await.unwrap() });
    }
    let mut seen = bench.peer.seen.subscribe();
    let all = tokio::time::timeout(Duration::from_secs(1), seen.wait_for(|seen| *seen == 101)).await;
    assert!(all.is_ok(), "the peer saw {} calls", *bench.peer.seen.borrow());
    bench.peer.answers.send_replace(true);
    tasks.close();
    tasks.wait().await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(bench.client.kept(), super::pool::SHARED_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_connection_nobody_uses_is_closed_however_often_it_was_used() {
    let bench = Bench::new(100);
    for _ in 0..20 {
        bench.whole().await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!((bench.peer.dials(), bench.client.kept()), (1, 1));
    tokio::time::sleep(bench.client.upstream().pool_idle * 2).await;
    assert_eq!(bench.client.kept(), 0);
}

#[tokio::test(start_paused = true)]
async fn every_task_of_a_connection_is_on_the_tracker() {
    let bench = Bench::new(100);
    bench.whole().await.unwrap();
    let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(alive, bench.tracker.len() + bench.peer.tasks.len());
    bench.stop.cancel();
    bench.tracker.close();
    let over = tokio::time::timeout(Duration::from_secs(5), bench.tracker.wait()).await;
    assert!(over.is_ok(), "connections outlive the gateway");
}
