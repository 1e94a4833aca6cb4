//! The network of a simulation: pipes instead of sockets, and an upstream at the end of each.

use std::collections::HashMap;

use tokio::io::{DuplexStream, ReadHalf};

use std::sync::OnceLock;

use super::script::{Act, Mood};
use super::*;
use crate::state::TargetCell;
use crate::upstream::Io;
use sluice_core::breaker::Facts;

/// One exchange, as the upstream saw it. Its place in the list of all is what its text is marked with.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    pub upstream: usize,
    pub request_id: String,
    /// The request was there.
    pub begun: Instant,
    /// The answer was out, or the gateway had gone.
    pub ended: Option<Instant>,
    /// Pieces of text of a whole answer.
    pub pieces: usize,
    /// A connection that was used before ended before a word of the answer: the gateway may ask once more.
    pub redialled: bool,
    /// The breaker of its target when the request was there.
    pub breaker: Facts,
}

struct Upstream {
    name: String,
    mood: Mutex<Mood>,
}

/// Connections to upstreams that do not exist.
#[derive(Clone)]
pub(super) struct Net(Arc<Inner>);

struct Inner {
    upstreams: Vec<Upstream>,
    /// What the gateway knows of each upstream's one target, once there is a gateway.
    cells: OnceLock<Vec<Arc<TargetCell>>>,
    rng: Mutex<fastrand::Rng>,
    exchanges: Mutex<Vec<Exchange>>,
    tracker: TaskTracker,
}

impl Net {
    pub fn new<const N: usize>(names: [&str; N], rng: fastrand::Rng) -> Self {
        let upstreams =
            names.map(|name| Upstream { name: format!("{name}.test"), mood: Mutex::new(Mood::new()) }).into();
        let (rng, exchanges, tracker) = (Mutex::new(rng), Mutex::default(), TaskTracker::new());
        Self(Arc::new(Inner { upstreams, cells: OnceLock::new(), rng, exchanges, tracker }))
    }

    /// What is looked at whenever a request comes. Once.
    pub fn watch(&self, cells: Vec<Arc<TargetCell>>) {
        assert!(self.0.cells.set(cells).is_ok(), "one gateway to a network");
    }

    pub fn exchanges(&self) -> Vec<Exchange> {
        self.0.exchanges.lock().unwrap().clone()
    }
}

impl Inner {
    fn rng(&self) -> fastrand::Rng {
        self.rng.lock().unwrap().fork()
    }

    fn note(&self, mark: usize, change: impl FnOnce(&mut Exchange)) {
        change(&mut self.exchanges.lock().unwrap()[mark]);
    }
}

impl Dial for Net {
    fn dial<'a>(
        &'a self,
        base: &'a BaseUrl,
    ) -> Pin<Box<dyn Future<Output = Result<Dialed, ConnectError>> + Send + 'a>> {
        Box::pin(async move {
            let net = self.0.clone();
            let mut rng = net.rng();
            let at = net.upstreams.iter().position(|u| u.name == base.authority.as_str()).unwrap();
            let mood = net.upstreams[at].mood.lock().unwrap().now(clock::now(), &mut rng);
            tokio::time::sleep(mood.connects_after(&mut rng)).await;
            if mood.refuses() {
                return Err(ConnectError::Io(io::ErrorKind::ConnectionRefused.into()));
            }
            let (ours, theirs) = tokio::io::duplex(rng.choice([64, 1024, 64 << 10]).unwrap());
            let io: Box<dyn Io> = Box::new(TokioIo::new(ours));
            self.0.tracker.spawn(serve(net, at, theirs, rng));
            Ok(Dialed { io, http2: false })
        })
    }
}

/// A request as far as an upstream cares.
struct Asked {
    request_id: String,
    stream: bool,
}

/// Reads one request; none: the gateway is gone.
async fn read(io: &mut ReadHalf<DuplexStream>) -> Option<Asked> {
    let mut got = Vec::new();
    loop {
        if let Some(end) = got.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&got[..end]).to_ascii_lowercase();
            let headers: HashMap<&str, &str> =
                head.lines().filter_map(|line| line.split_once(": ")).collect();
            let length: usize = headers["content-length"].parse().unwrap();
            if got.len() >= end + 4 + length {
                assert_eq!(got.len(), end + 4 + length, "more than one request at a time");
                let body: Value = serde_json::from_slice(&got[end + 4..]).unwrap();
                assert_eq!(body["model"], "m");
                let request_id = headers["x-request-id"].to_owned();
                return Some(Asked { request_id, stream: body["stream"] == true });
            }
        }
        if io.read_buf(&mut got).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

/// One connection of an upstream, to its end.
async fn serve(net: Arc<Inner>, upstream: usize, io: DuplexStream, mut rng: fastrand::Rng) {
    let (mut from, mut to) = tokio::io::split(io);
    let mut used = false;
    while let Some(asked) = read(&mut from).await {
        let begun = clock::now();
        let mood = net.upstreams[upstream].mood.lock().unwrap().now(begun, &mut rng);
        let mark = {
            let breaker = net.cells.get().unwrap()[upstream].page(begun).breaker;
            let mut exchanges = net.exchanges.lock().unwrap();
            let (mark, request_id) = (exchanges.len(), asked.request_id);
            exchanges.push(Exchange {
                upstream,
                request_id,
                begun,
                ended: None,
                pieces: 0,
                redialled: false,
                breaker,
            });
            mark
        };
        let act = Act::new(mood, mark, asked.stream, &mut rng);
        net.note(mark, |exchange| {
            exchange.pieces = act.pieces;
            exchange.redialled = used && act.closes_unheard();
        });
        used = true;
        let mut gone = [0];
        let stays = tokio::select! {
            biased;
            stays = act.play(&mut to) => stays,
            // Nothing more is said before the answer is out, so this is the end of the connection.
            read = from.read(&mut gone) => {
                assert_eq!(read.unwrap_or(0), 0, "the gateway spoke out of turn");
                false
            }
        };
        net.note(mark, |exchange| exchange.ended = Some(clock::now()));
        if !stays {
            return;
        }
    }
}
