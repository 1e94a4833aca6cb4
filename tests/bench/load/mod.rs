//! The load: connections that call one after the other, closed (as fast as answers come) or at a fixed rate, and
//! streams that are held open.

pub mod scan;
mod stats;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use harness::now;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

pub use stats::Figures;
use stats::Stats;

use crate::place;

/// An event that took longer than this from the upstream to the client is late.
pub const LATE: Duration = Duration::from_millis(250);
/// Most that is kept of a stream's end.
const TAIL: usize = 64 << 10;

/// What is called, by how many, and until when.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Who is called.
    pub to: SocketAddr,
    /// The route, which is the model of the call.
    pub route: String,
    /// Answers are event streams.
    pub stream: bool,
    /// Connections.
    pub connections: usize,
    /// Ends after so many calls altogether; 0: after `millis`.
    pub calls: usize,
    /// How long it lasts, and at most when `calls` is given.
    pub millis: u64,
    /// Calls a second over all connections; 0: as fast as answers come.
    pub rate: u64,
    /// Bytes of the prompt.
    pub prompt: usize,
    /// Connections begin one after the other over so many milliseconds; 0: all at once.
    pub ramp: u64,
    /// Calls of each connection that only warm it up: of them errors alone are counted.
    pub warm_up: usize,
}

impl Plan {
    fn request(&self) -> Vec<u8> {
        let (route, stream) = (&self.route, self.stream);
        let prompt = "word ".repeat(self.prompt / 5 + 1);
        let body = format!(
            r#"{{"model":"{route}","stream":{stream},"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
        );
        let length = body.len();
        let to = self.to;
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into()
    }
}

/// Calls as `plan` says.
pub async fn run(plan: Plan) -> Figures {
    let (request, begun) = (plan.request(), now());
    let mut callers = JoinSet::new();
    for n in 0..plan.connections {
        let (plan, request) = (plan.clone(), request.clone());
        callers.spawn(async move { Caller::new(plan, n, begun).call(&request).await });
    }
    let mut all = Stats::new();
    while let Some(stats) = callers.join_next().await {
        all.add(&stats.expect("a caller does not panic"));
    }
    all.figures(now() - begun)
}

/// One connection.
struct Caller {
    plan: Plan,
    ends: Instant,
    calls: usize,
    warm_up: usize,
    begins: Instant,
    /// When its next call is due, and what lies between two.
    pace: Option<(Instant, Duration)>,
    stats: Stats,
}

impl Caller {
    fn new(plan: Plan, n: usize, begun: Instant) -> Self {
        let calls = match plan.calls {
            0 => usize::MAX,
            calls => calls / plan.connections + usize::from(n < calls % plan.connections),
        };
        let pace = (plan.rate > 0).then(|| {
            let all = Duration::from_secs(1).div_f64(plan.rate as f64);
            (begun + all * n as u32, all * plan.connections as u32)
        });
        let warm_up = plan.warm_up;
        let begins = begun + Duration::from_millis(plan.ramp) * n as u32 / plan.connections as u32;
        let ends = begun + Duration::from_millis(plan.millis);
        Self { ends, plan, calls, warm_up, begins, pace, stats: Stats::new() }
    }

    async fn call(mut self, request: &[u8]) -> Stats {
        let mut connection = None;
        tokio::time::sleep_until(self.begins.into()).await;
        while self.calls > 0 && now() < self.ends {
            self.calls -= 1;
            let mut due = now();
            if let Some((next, step)) = &mut self.pace {
                due = *next;
                *next += *step;
                tokio::time::sleep_until(due.into()).await;
            }
            // Whoever comes late because the one before took long, has waited too.
            let begun = due.min(now());
            let stream = match connection.take() {
                Some(stream) => Ok(stream),
                None => connect(self.plan.to).await,
            };
            let left = self.ends.saturating_duration_since(now()) + Duration::from_secs(5);
            let exchange = async { self.exchange(stream?, request, begun).await };
            match tokio::time::timeout(left, exchange).await {
                Ok(Ok(again)) => connection = again,
                Ok(Err(_)) | Err(_) => self.stats.errors += 1,
            }
            if self.warm_up > 0 {
                self.warm_up -= 1;
                self.stats.forget_times();
            }
        }
        self.stats
    }

    /// One call. The connection comes back if it can be used again.
    async fn exchange(
        &mut self,
        mut stream: TcpStream,
        request: &[u8],
        begun: Instant,
    ) -> std::io::Result<Option<TcpStream>> {
        stream.write_all(request).await?;
        let mut read = Vec::with_capacity(16 << 10);
        let head = loop {
            if let Some(head) = scan::head_end(&read) {
                break head;
            }
            if stream.read_buf(&mut read).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        };
        if scan::status(&read[..head]) != Some(200) {
            self.stats.errors += 1;
            return Ok(None);
        }
        if let Some(length) = scan::content_length(&read[..head]) {
            while read.len() < head + length {
                if stream.read_buf(&mut read).await? == 0 {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
            }
            self.stats.answered(now() - begun);
            return Ok(Some(stream));
        }
        read.drain(..head);
        self.events(stream, read, begun).await
    }

    async fn events(
        &mut self,
        mut stream: TcpStream,
        mut read: Vec<u8>,
        begun: Instant,
    ) -> std::io::Result<Option<TcpStream>> {
        let (mut seen, mut first) = (0, true);
        loop {
            let clock = place::nanoseconds();
            let before = self.stats.events;
            seen = scan::stamps(&read, seen, |stamp| self.stats.event(stamp, clock));
            if first && self.stats.events > before {
                self.stats.first(now() - begun);
                first = false;
            }
            if let Some(whole) = scan::ended(&read) {
                if whole {
                    self.stats.answered(now() - begun);
                } else {
                    self.stats.errors += 1;
                }
                return Ok(Some(stream));
            }
            if read.len() > TAIL {
                let gone = seen.min(read.len() - 64);
                read.drain(..gone);
                seen -= gone;
            }
            // A stream without an end is left when the time is over.
            let left = self.ends.saturating_duration_since(now());
            let more = stream.read_buf(&mut read);
            match tokio::time::timeout(left, more).await {
                Ok(Ok(0)) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => return Ok(None),
            }
        }
    }
}

async fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
