//! What upstreams do: moods that come and go, and in each a choice of ways to answer.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// How an upstream feels, for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feeling {
    Well,
    Slow,
    Flapping,
    Mad,
    Strict,
    Down,
}

/// The mood of one upstream.
#[derive(Debug, Clone, Copy)]
pub struct Mood {
    feeling: Feeling,
    until: Option<Instant>,
}

impl Mood {
    /// Well.
    pub const fn new() -> Self {
        Self { feeling: Feeling::Well, until: None }
    }

    /// The mood now; one that is over is followed by another.
    pub fn now(&mut self, now: Instant, rng: &mut fastrand::Rng) -> Feeling {
        if self.until.is_none_or(|until| now >= until) {
            use Feeling::{Down, Flapping, Mad, Slow, Strict, Well};
            self.feeling =
                rng.choice([Well, Well, Well, Well, Slow, Flapping, Flapping, Mad, Strict, Down]).unwrap();
            self.until = Some(now + Duration::from_millis(rng.u64(200..3000)));
        }
        self.feeling
    }
}

impl Feeling {
    /// A connection takes so long.
    pub fn connects_after(self, rng: &mut fastrand::Rng) -> Duration {
        Duration::from_millis(match self {
            Self::Slow | Self::Mad => rng.u64(0..400),
            _ => rng.u64(0..5),
        })
    }

    /// No connection is accepted.
    pub const fn refuses(self) -> bool {
        matches!(self, Self::Down)
    }
}

/// What is done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Does nothing.
    Wait(Duration),
    /// Writes.
    Say(Vec<u8>),
    /// Ends the connection.
    Close,
    /// Says nothing more, and stays.
    Stall,
}

/// One answer.
#[derive(Debug)]
pub struct Act {
    /// In this order.
    pub steps: Vec<Step>,
    /// Pieces of text of the whole answer.
    pub pieces: usize,
}

/// How an answer goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    Cut,
    Stall,
    Error,
    NoMarker,
    Malformed,
    Late,
    Status(u16),
    Html,
    Garbage,
    Silent,
    Closed,
    Empty,
}

const WRONGS: [Wrong; 23] = [
    Wrong::Nothing,
    Wrong::Cut,
    Wrong::Cut,
    Wrong::Cut,
    Wrong::Stall,
    Wrong::Stall,
    Wrong::Error,
    Wrong::Error,
    Wrong::NoMarker,
    Wrong::Malformed,
    Wrong::Late,
    Wrong::Status(500),
    Wrong::Status(503),
    Wrong::Status(429),
    Wrong::Status(404),
    Wrong::Status(400),
    Wrong::Status(401),
    Wrong::Status(307),
    Wrong::Html,
    Wrong::Garbage,
    Wrong::Silent,
    Wrong::Closed,
    Wrong::Empty,
];

/// One piece of text: its exchange and its place in it, and nothing that any other could be taken for.
fn piece(mark: usize, at: usize) -> String {
    format!("<{mark}.{at}>")
}

impl Act {
    /// The answer of one exchange, whose text carries `mark`.
    pub fn new(mood: Feeling, mark: usize, stream: bool, rng: &mut fastrand::Rng) -> Self {
        let wrong = match mood {
            Feeling::Well | Feeling::Slow => Wrong::Nothing,
            Feeling::Flapping if rng.bool() => Wrong::Nothing,
            Feeling::Strict => Wrong::Status(429),
            Feeling::Down => Wrong::Closed,
            Feeling::Flapping | Feeling::Mad => rng.choice(WRONGS).unwrap(),
        };
        let pieces = rng.usize(1..25);
        let slow = mood == Feeling::Slow;
        let first = Duration::from_millis(if slow { rng.u64(200..900) } else { rng.u64(0..120) });
        let mut act = Self { steps: vec![Step::Wait(first)], pieces };
        match wrong {
            Wrong::Silent => act.steps.push(Step::Stall),
            Wrong::Closed => act.steps.push(Step::Close),
            Wrong::Garbage => {
                let noise = (0..rng.usize(1..300)).map(|_| rng.u8(..)).collect();
                act.steps.extend([Step::Say(noise), Step::Close]);
            }
            Wrong::Status(status) => act.status(status, rng),
            Wrong::Html => act.whole("text/html", "<html>Bad gateway</html>", None),
            Wrong::Empty => act.whole("application/json", "", None),
            wrong if stream => act.stream(wrong, mark, slow, rng),
            wrong => act.answer(wrong, mark, rng),
        }
        act
    }

    /// Says what the script says. True: the connection may be used again.
    pub async fn play(&self, to: &mut (impl AsyncWrite + Unpin)) -> bool {
        for step in &self.steps {
            match step {
                Step::Wait(pause) => tokio::time::sleep(*pause).await,
                Step::Say(bytes) => {
                    if to.write_all(bytes).await.is_err() {
                        return false;
                    }
                }
                Step::Close => return false,
                Step::Stall => std::future::pending().await,
            }
        }
        true
    }

    /// Ends a connection without a word of an answer.
    pub fn closes_unheard(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step, Step::Say(_))) && self.steps.contains(&Step::Close)
    }

    fn status(&mut self, status: u16, rng: &mut fastrand::Rng) {
        let hint = if rng.bool() { "retry-after-ms: 300\r\n" } else { "" };
        let body = json!({"error": {"message": "no", "type": "some_error", "code": null}}).to_string();
        let head = format!("HTTP/1.1 {status} X\r\n{hint}content-length: {}\r\n\r\n", body.len());
        self.steps.push(Step::Say((head + &body).into_bytes()));
    }

    /// A body of a stated length, cut short where that is asked for.
    fn whole(&mut self, kind: &str, body: &str, cut: Option<usize>) {
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        let shown = &body[..cut.unwrap_or(body.len())];
        self.steps.push(Step::Say((head + shown).into_bytes()));
    }

    fn answer(&mut self, wrong: Wrong, mark: usize, rng: &mut fastrand::Rng) {
        let text: String = (0..self.pieces).map(|at| piece(mark, at)).collect();
        let body = json!({"object": "chat.completion", "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]});
        let body = match wrong {
            Wrong::Error => json!({"error": {"message": "no", "code": "server_error"}}).to_string(),
            Wrong::Malformed => body.to_string().replacen('}', "", 1),
            _ => body.to_string(),
        };
        if wrong == Wrong::Late {
            self.steps.push(Step::Wait(Duration::from_millis(rng.u64(700..4000))));
        }
        match wrong {
            Wrong::Cut | Wrong::Stall => {
                self.whole("application/json", &body, Some(rng.usize(0..body.len())));
                self.steps.push(if wrong == Wrong::Cut { Step::Close } else { Step::Stall });
            }
            _ => self.whole("application/json", &body, None),
        }
    }

    fn stream(&mut self, wrong: Wrong, mark: usize, slow: bool, rng: &mut fastrand::Rng) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        self.steps.push(Step::Say(head.into()));
        self.events(&[&event(&json!({"role": "assistant"}), Value::Null)], rng);
        if wrong == Wrong::Late {
            self.steps.push(Step::Wait(Duration::from_millis(rng.u64(400..3000))));
        }
        let breaks = rng.usize(0..=self.pieces);
        for at in 0..self.pieces {
            if at == breaks {
                match wrong {
                    Wrong::Cut => return self.steps.push(Step::Close),
                    Wrong::Stall => return self.steps.push(Step::Stall),
                    Wrong::Error => {
                        self.events(
                            &["data: {\"error\":{\"message\":\"no\",\"code\":\"server_error\"}}\n\n"],
                            rng,
                        );
                        return self.end();
                    }
                    Wrong::Malformed => self.events(&["data: {\"choices\":[{\"delta\":\n\n"], rng),
                    _ => {}
                }
            }
            let pace = if slow { rng.u64(0..250) } else { rng.u64(0..40) };
            self.steps.push(Step::Wait(Duration::from_millis(pace)));
            self.events(&[&event(&json!({"content": piece(mark, at)}), Value::Null)], rng);
        }
        if wrong == Wrong::Cut {
            return self.steps.push(Step::Close);
        }
        self.events(&[": a comment\n\n", &event(&json!({}), json!("stop"))], rng);
        if wrong != Wrong::NoMarker {
            self.events(&["data: [DONE]\n\n"], rng);
        }
        self.end();
    }

    fn end(&mut self) {
        self.steps.push(Step::Say(b"0\r\n\r\n".to_vec()));
    }

    /// Writes events as chunks whose borders are anywhere.
    fn events(&mut self, events: &[&str], rng: &mut fastrand::Rng) {
        let all = events.concat();
        let mut rest = all.as_bytes();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rng.usize(1..=rest.len()));
            let mut chunk = format!("{:x}\r\n", now.len()).into_bytes();
            chunk.extend_from_slice(now);
            chunk.extend_from_slice(b"\r\n");
            self.steps.push(Step::Say(chunk));
            rest = later;
        }
    }
}

fn event(delta: &Value, finish: Value) -> String {
    let chunk = json!({"object": "chat.completion.chunk",
                       "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}
