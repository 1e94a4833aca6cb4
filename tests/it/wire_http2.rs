//! HTTP/2 towards an upstream, agreed on by ALPN: calls share a connection, and a call that goes away takes
//! only its own stream with it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use harness::prelude::*;
use harness::tls::Identity;
use http_body_util::BodyExt as _;
use http_body_util::channel::Channel;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response as Answer, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::expect::{GONE, LATE};

/// What the upstream does with a call, by the text of its last message.
#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    /// Texts of the calls that have come.
    calls: Mutex<Vec<String>>,
    /// Texts of the calls whose stream was reset.
    reset: Mutex<Vec<String>>,
    heads: Mutex<Vec<String>>,
    changed: watch::Sender<u64>,
    /// Answers on their way.
    answers: TaskTracker,
}

struct Http2Upstream {
    addr: SocketAddr,
    seen: Arc<Seen>,
    pem: String,
    /// Closes every connection and says when that is done; new ones are accepted.
    hang_up: mpsc::Sender<oneshot::Sender<()>>,
    _tasks: JoinSet<()>,
}

/// Notes a call whose stream was reset before it was answered to its end.
struct Note {
    seen: Arc<Seen>,
    text: String,
    done: bool,
}

impl Drop for Note {
    fn drop(&mut self) {
        if !self.done {
            self.seen.reset.lock().unwrap().push(self.text.clone());
            self.seen.changed.send_modify(|n| *n += 1);
        }
    }
}

impl Http2Upstream {
    async fn start() -> Self {
        let identity = Identity::with_protocols("127.0.0.1", &["h2", "http/1.1"]);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (addr, pem, seen) =
            (listener.local_addr().unwrap(), identity.pem().to_owned(), Arc::new(Seen::default()));
        let (hang_up, mut hang_ups) = mpsc::channel::<oneshot::Sender<()>>(1);
        let shared = Arc::clone(&seen);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap(),
                    Some(done) = hang_ups.recv() => {
                        connections.shutdown().await;
                        done.send(()).unwrap();
                        continue;
                    }
                };
                let (tls, seen) = (identity.acceptor(), Arc::clone(&shared));
                connections.spawn(async move {
                    let stream = tls.accept(stream).await.unwrap();
                    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
                    seen.connections.fetch_add(1, Ordering::Relaxed);
                    let serve = service_fn(move |request| serve(request, Arc::clone(&seen)));
                    let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    // How it ends is seen by the calls on it.
                    let _ = http2.serve_connection(TokioIo::new(stream), serve).await;
                });
            }
        });
        Self { addr, seen, pem, hang_up, _tasks: tasks }
    }

    /// Returns once no connection is left: a call that comes now cannot be served by an old one.
    async fn hang_up(&self) {
        let (done, closed) = oneshot::channel();
        self.hang_up.send(done).await.unwrap();
        closed.await.unwrap();
    }

    async fn until(&self, within: Duration, ready: impl Fn(&Seen) -> bool) -> bool {
        let mut changes = self.seen.changed.subscribe();
        let wait = async {
            while !ready(&self.seen) {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(within, wait).await.is_ok()
    }

    async fn setup(&self) -> Setup {
        let base = format!("https://{}/v1", self.addr);
        Setup::new().wide_gates().file("h2.pem", self.pem.clone()).set("/defaults/idle", ms(20_000)).edit(
            move |config, _| {
                config["upstreams"]["A"]["base_url"] = base.into();
                config["upstreams"]["A"]["ca_file"] = "h2.pem".into();
            },
        )
    }
}

type Body = Channel<Bytes, Infallible>;

async fn serve(request: Request<Incoming>, seen: Arc<Seen>) -> Result<Answer<Body>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let json: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = json["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
    assert_eq!(head.version, Version::HTTP_2);
    seen.heads.lock().unwrap().push(format!("{} {:?}", head.uri, head.headers.get("host")));
    seen.calls.lock().unwrap().push(text.clone());
    seen.changed.send_modify(|n| *n += 1);
    let mut note = Note { seen, text, done: false };
    let chunk = |delta: Value, finish: Option<&str>| {
        Bytes::from(format!(
            "data: {}\n\n",
            json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        ))
    };
    match note.text.as_str() {
        "no head" => std::future::pending().await,
        // The service's error resets the stream.
        "refuse" => {
            note.done = true;
            return Err(std::io::ErrorKind::Other.into());
        }
        _ => {}
    }
    let (mut sender, body) = Channel::new(4);
    let answers = note.seen.answers.clone();
    answers.spawn(async move {
        // All of it, and not the one flag that is written below.
        let mut note = note;
        let _ = sender.send_data(chunk(json!({"content": "one "}), None)).await;
        if note.text == "no end" {
            // Until nobody wants it any more.
            while sender.send_data(chunk(json!({"role": "assistant"}), None)).await.is_ok() {
                tokio::time::sleep(ms(10)).await;
            }
            drop(note);
            return;
        }
        for rest in [chunk(json!({"content": "two three"}), None), chunk(json!({}), Some("stop"))] {
            let _ = sender.send_data(rest).await;
        }
        note.done = sender.send_data(Bytes::from_static(b"data: [DONE]\n\n")).await.is_ok();
    });
    let answer = Answer::builder().header("content-type", "text/event-stream");
    Ok(answer.body(body).unwrap())
}

fn say(x: &Case, text: &str) -> harness::call::Call {
    x.call("solo").set("messages", json!([{"role": "user", "content": text}]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_share_a_connection_that_outlives_a_cancelled_one() {
    let up = Http2Upstream::start().await;
    let x = up.setup().await.start().await;
    say(&x, "hello").await.answered().tags("A/a1", false);
    let head = up.seen.heads.lock().unwrap()[0].clone();
    assert_eq!(head, format!("https://{}/v1/chat/completions None", up.addr));
    let mut staying = say(&x, "no end").begin().await;
    staying.contents(1).await;
    // One leaves in mid answer, one before there is a head.
    let mut leaving = say(&x, "no end").begin().await;
    leaving.contents(1).await;
    leaving.close();
    assert!(
        up.until(GONE + LATE, |seen| seen.reset.lock().unwrap().len() == 1).await,
        "no RST_STREAM in mid answer"
    );
    let waiting = say(&x, "no head").begin().await;
    assert!(
        up.until(harness::PATIENCE, |seen| seen.calls.lock().unwrap().iter().any(|c| c == "no head")).await
    );
    waiting.close();
    let gone = |seen: &Seen| seen.reset.lock().unwrap().iter().any(|text| text == "no head");
    assert!(up.until(GONE + LATE, gone).await, "no RST_STREAM before the head");
    x.outcome("client_cancelled", 2).await;
    x.metric_becomes("sluice_gate_in_flight", &[("gate", "upstream:A")], 1.0).await;
    // The connection and the stream beside them go on.
    say(&x, "hello").await.answered();
    assert_eq!(up.seen.reset.lock().unwrap().len(), 2, "another stream was reset too");
    assert_eq!(up.seen.connections.load(Ordering::Relaxed), 1);
    staying.close();
    assert!(up.until(GONE + LATE, |seen| seen.reset.lock().unwrap().len() == 3).await);
    x.metric_becomes("sluice_gate_in_flight", &[], 0.0).await;
    x.breaker_is("A/a1", "closed", 0).await;
    x.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_the_upstream_resets_is_a_failure_and_no_dead_connection() {
    let up = Http2Upstream::start().await;
    let x = up.setup().await.start().await;
    say(&x, "hello").await.answered();
    let failed = say(&x, "refuse").await;
    failed.refused(502, "retryable_upstream");
    failed.attempts(1);
    assert_eq!(up.seen.calls.lock().unwrap().iter().filter(|c| *c == "refuse").count(), 1, "sent twice");
    x.breaker_is("A/a1", "closed", 1).await;
    say(&x, "hello").await.answered();
    assert_eq!(up.seen.connections.load(Ordering::Relaxed), 1);
    x.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_calls_than_a_connection_takes_get_another() {
    let up = Http2Upstream::start().await;
    let x = up.setup().await.start().await;
    say(&x, "hello").await.answered();
    let mut clients = Vec::new();
    for _ in 0..130 {
        let mut client = say(&x, "no end").begin().await;
        client.contents(1).await;
        clients.push(client);
    }
    assert_eq!(up.seen.connections.load(Ordering::Relaxed), 2);
    drop(clients);
    assert!(up.until(harness::PATIENCE, |seen| seen.reset.lock().unwrap().len() == 130).await);
    say(&x, "hello").await.answered();
    assert_eq!(up.seen.connections.load(Ordering::Relaxed), 2);
    x.metric_becomes("sluice_gate_in_flight", &[], 0.0).await;
    x.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_went_away_is_made_anew_inside_the_attempt() {
    let up = Http2Upstream::start().await;
    let x = up.setup().await.start().await;
    for connections in 1..=3 {
        let r = say(&x, "hello").await;
        r.answered().tags("A/a1", false).attempts(1);
        assert_eq!(up.seen.connections.load(Ordering::Relaxed), connections);
        up.hang_up().await;
    }
    x.breaker_is("A/a1", "closed", 0).await;
    // What was on its way when the connection went away is a broken stream.
    let mut client = say(&x, "no end").begin().await;
    client.contents(1).await;
    up.hang_up().await;
    client.finish().await.broken_stream("one ");
    x.breaker_is("A/a1", "closed", 1).await;
    x.end().await;
}
