//! A collector of spans as the standard has it: takes OTLP over HTTP, and is away, slow or unwilling when a test wants so.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use harness::prelude::*;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response as Answer};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1 as wire;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A span as it was told.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty: the first of its trace.
    pub(crate) parent: String,
    pub(crate) server: bool,
    pub(crate) name: String,
    /// Nanoseconds.
    pub(crate) time: (u64, u64),
    pub(crate) failed: bool,
    pub(crate) attributes: Value,
    pub(crate) service: Value,
}

/// What it does with a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Mood {
    Takes,
    Says(u16),
    Hangs,
}

struct Shared {
    mood: watch::Sender<Mood>,
    spans: Mutex<Vec<Span>>,
    requests: Mutex<Vec<String>>,
}

/// A collector. Its listener and connections end with it.
pub(crate) struct Collector {
    addr: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        Self::at(([127, 0, 0, 1], 0).into()).await
    }

    pub(crate) async fn at(addr: SocketAddr) -> Self {
        let listener = TcpListener::bind(addr).await.expect("a loopback port");
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            mood: watch::Sender::new(Mood::Takes),
            spans: Mutex::default(),
            requests: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        let seen = Arc::clone(&shared);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let seen = Arc::clone(&seen);
                connections.spawn(async move {
                    let serve = service_fn(move |request| take(request, Arc::clone(&seen)));
                    // How it ends is seen by what was taken.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), serve)
                        .await;
                });
            }
        });
        Self { addr, shared, _tasks: tasks }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// For a configuration.
    pub(crate) fn section(&self, sample: f64) -> Value {
        json!({"otlp": format!("http://{}/otel", self.addr), "sample": sample})
    }

    pub(crate) fn is(&self, mood: Mood) {
        self.shared.mood.send_replace(mood);
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.shared.spans.lock().unwrap().clone()
    }

    /// Path and content type of every batch.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The spans once there are so many, and no more than that.
    pub(crate) async fn until(&self, x: &Case, count: usize) -> Vec<Span> {
        let there = x.poll(Duration::from_secs(10), async || self.spans().len() >= count).await;
        let spans = self.spans();
        assert!(there && spans.len() == count, "wanted {count} spans, got {spans:#?}\n{}", x.gateway.log());
        spans
    }
}

async fn take(request: Request<Incoming>, seen: Arc<Shared>) -> Result<Answer<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let kind = head.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    seen.requests.lock().unwrap().push(format!("{} {} {kind}", head.method, head.uri.path()));
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut moods = seen.mood.subscribe();
    let mood = *moods.wait_for(|mood| *mood != Mood::Hangs).await.unwrap();
    let mut answer = Answer::new(Full::default());
    if let Mood::Says(status) = mood {
        *answer.status_mut() = hyper::StatusCode::from_u16(status).unwrap();
        return Ok(answer);
    }
    let batch = ExportTraceServiceRequest::decode(body).expect("a batch of spans");
    let mut spans = seen.spans.lock().unwrap();
    for resource in batch.resource_spans {
        let service = attributes(&resource.resource.unwrap_or_default().attributes)["service.name"].clone();
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            spans.push(Span::of(&span, &service));
        }
    }
    Ok(answer)
}

impl Span {
    fn of(span: &wire::Span, service: &Value) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Self {
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            server: span.kind() == wire::span::SpanKind::Server,
            name: span.name.clone(),
            time: (span.start_time_unix_nano, span.end_time_unix_nano),
            failed: span
                .status
                .as_ref()
                .is_some_and(|status| status.code() == wire::status::StatusCode::Error),
            attributes: attributes(&span.attributes),
            service: service.clone(),
        }
    }

    /// What an upstream was told of it.
    pub(crate) fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace, self.id)
    }
}

fn attributes(of: &[KeyValue]) -> Value {
    let value = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => json!(text),
        Some(any_value::Value::IntValue(number)) => json!(number),
        Some(any_value::Value::BoolValue(flag)) => json!(flag),
        other => panic!("{}: {other:?}", pair.key),
    };
    let pairs: BTreeMap<String, Value> = of.iter().map(|pair| (pair.key.clone(), value(pair))).collect();
    json!(pairs)
}
