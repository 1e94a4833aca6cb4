//! A caller: asks, reads at its own pace, leaves when it likes, and notes what it saw.

use tokio::io::DuplexStream;

use super::reading::Reply;
use super::*;

/// What one call came to, as its caller saw it.
#[derive(Debug)]
pub(super) struct Answer {
    pub id: String,
    pub stream: bool,
    pub sent: Instant,
    /// The first byte of an answer came.
    pub shown: Option<Instant>,
    /// The caller left.
    pub left: Option<Instant>,
    /// What came.
    pub reply: Reply,
}

/// How a call is made.
struct Manner {
    stream: bool,
    /// Leaves so long after it asked.
    patience: Option<Duration>,
    /// Rests so long between reads.
    rest: Option<Duration>,
}

/// A caller and its way to the gateway.
pub(super) struct Client<C> {
    rng: fastrand::Rng,
    connect: C,
}

/// Longest that anything may take: a budget, and a stream that just does not stall.
const FOR_GOOD: Duration = Duration::from_secs(300);

impl<C: Fn(DuplexStream)> Client<C> {
    pub const fn new(rng: fastrand::Rng, connect: C) -> Self {
        Self { rng, connect }
    }

    /// Makes calls, one after the other.
    pub async fn calls(mut self, number: usize, calls: usize) -> Vec<Answer> {
        let mut answers = Vec::new();
        for call in 0..calls {
            tokio::time::sleep(Duration::from_millis(self.rng.u64(0..400))).await;
            answers.push(self.call(format!("{number}-{call}")).await);
        }
        answers
    }

    async fn call(&mut self, id: String) -> Answer {
        let rng = &mut self.rng;
        let manner = Manner {
            stream: rng.u8(..4) > 0,
            patience: (rng.u8(..4) == 0).then(|| Duration::from_millis(rng.u64(0..2500))),
            rest: (rng.u8(..8) == 0).then(|| Duration::from_millis(rng.u64(1..60))),
        };
        let route = rng.choice(["all", "pair", "held"]).unwrap();
        let body =
            json!({"model": route, "stream": manner.stream, "messages": [{"role": "user", "content": "hi"}]});
        let body = body.to_string();
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-request-id: {id}\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let (mut io, theirs) = tokio::io::duplex(rng.choice([256, 4096, 64 << 10]).unwrap());
        (self.connect)(theirs);
        let mut answer = Answer {
            id,
            stream: manner.stream,
            sent: clock::now(),
            shown: None,
            left: None,
            reply: Reply::default(),
        };
        let mut got = Vec::new();
        let reading = async {
            io.write_all(request.as_bytes()).await.unwrap();
            while io.read_buf(&mut got).await.unwrap() > 0 {
                answer.shown.get_or_insert_with(clock::now);
                if let Some(rest) = manner.rest {
                    tokio::time::sleep(rest).await;
                }
            }
        };
        let patience = manner.patience.unwrap_or(FOR_GOOD);
        if tokio::time::timeout(patience, reading).await.is_err() {
            assert!(manner.patience.is_some(), "{}: no end after {FOR_GOOD:?}", answer.id);
            answer.left = Some(clock::now());
        }
        drop(io);
        answer.reply = Reply::read(&got);
        answer
    }
}
