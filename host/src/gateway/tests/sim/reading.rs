//! An answer as it stands on the wire, and what of its text came: all of one exchange, in order, to its end?

use serde_json::Value;

/// An answer, as far as it came.
#[derive(Debug, Default)]
pub struct Reply {
    /// 0: no head came.
    pub status: u16,
    /// The head.
    pub head: String,
    /// The body without its chunks.
    pub body: Vec<u8>,
    /// The body had a proper end.
    pub whole: bool,
}

impl Reply {
    /// Reads what came of one answer.
    pub fn read(got: &[u8]) -> Self {
        let mut reply = Self::default();
        let Some(end) = got.windows(4).position(|window| window == b"\r\n\r\n") else { return reply };
        reply.head = String::from_utf8(got[..end].to_vec()).unwrap();
        reply.status = reply.head[9..12].parse().unwrap();
        let body = &got[end + 4..];
        match reply.header("content-length") {
            Some(length) => {
                reply.whole = body.len() == length.parse::<usize>().unwrap();
                reply.body = body.to_vec();
            }
            None => reply.unchunk(body),
        }
        reply
    }

    /// A header; names are written in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().filter_map(|line| line.split_once(": ")).find_map(|(n, v)| (n == name).then_some(v))
    }

    /// The body as JSON, null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    fn unchunk(&mut self, mut rest: &[u8]) {
        loop {
            let Some(line) = rest.windows(2).position(|window| window == b"\r\n") else { return };
            let size = std::str::from_utf8(&rest[..line]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            if size == 0 {
                self.whole = rest[line..] == *b"\r\n\r\n";
                return;
            }
            let data = &rest[line + 2..];
            self.body.extend_from_slice(&data[..size.min(data.len())]);
            if data.len() < size + 2 {
                return;
            }
            rest = &data[size + 2..];
        }
    }
}

/// What came of a stream.
#[derive(Debug, Default)]
pub struct Seen {
    /// Exchange and place of each piece of text.
    pub pieces: Vec<(usize, usize)>,
    /// A finish reason came.
    pub finished: bool,
    /// The end marker came.
    pub done: bool,
    /// The error event.
    pub error: Option<Value>,
    /// Something came behind the end, or was no event.
    pub stray: bool,
}

impl Seen {
    /// Reads the events of a body.
    pub fn read(body: &[u8]) -> Self {
        let mut seen = Self::default();
        let text = String::from_utf8_lossy(body);
        // What the caller left in the middle of is no event.
        let whole = text.rfind("\n\n").map_or("", |end| &text[..end + 2]);
        for event in whole.split_terminator("\n\n") {
            let over = seen.done || seen.error.is_some();
            let Some(data) = event.strip_prefix("data: ") else {
                seen.stray = true;
                continue;
            };
            seen.stray |= over || data.contains('\n');
            if data == "[DONE]" {
                seen.done = true;
                continue;
            }
            let Ok(data) = serde_json::from_str::<Value>(data) else {
                seen.stray = true;
                continue;
            };
            if data["error"].is_object() {
                seen.error = Some(data["error"].clone());
                continue;
            }
            let choice = &data["choices"][0];
            seen.finished |= choice["finish_reason"] == "stop";
            seen.pieces.extend(pieces(choice["delta"]["content"].as_str().unwrap_or("")));
        }
        seen
    }
}

/// The pieces that a text is made of.
pub fn pieces(text: &str) -> Vec<(usize, usize)> {
    let marks =
        text.split_terminator('>').map(|mark| mark.strip_prefix('<').unwrap().split_once('.').unwrap());
    marks.map(|(mark, at)| (mark.parse().unwrap(), at.parse().unwrap())).collect()
}

/// Text of one exchange only, from its begin, without a gap.
pub fn of_one(pieces: &[(usize, usize)]) -> bool {
    pieces.iter().enumerate().all(|(at, piece)| *piece == (pieces[0].0, at))
}

/// What is wrong with an answer; `whole` says how many pieces the answer of an exchange has. A client that `left`
/// is owed no end.
pub fn wrong_with(
    reply: &Reply,
    stream: bool,
    left: bool,
    whole: impl Fn(usize) -> usize,
) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    let mut hold = |what, holds: bool| {
        if !holds {
            wrong.push(what);
        }
    };
    let complete =
        |pieces: &[(usize, usize)]| pieces.first().is_some_and(|(mark, _)| whole(*mark) == pieces.len());
    hold("a client that stayed got no whole body", reply.whole || left);
    match (reply.status, stream) {
        (200, true) => {
            let seen = Seen::read(&reply.body);
            hold("stray bytes in a stream", !seen.stray);
            hold("text of two exchanges, or a gap", of_one(&seen.pieces));
            hold("an end that is none", !seen.done || (seen.finished && complete(&seen.pieces)));
            hold("two ends", !(seen.done && seen.error.is_some()));
            hold("no end", seen.done || seen.error.is_some() || left);
        }
        (200, false) if reply.whole => {
            let pieces = pieces(reply.json()["choices"][0]["message"]["content"].as_str().unwrap_or(""));
            hold("an answer that is not whole", of_one(&pieces) && complete(&pieces));
        }
        (0 | 200, _) => {}
        _ if reply.whole => {
            let error = &reply.json()["error"];
            hold("an error that does not say which", error["code"].is_string() || error["type"].is_string());
        }
        _ => {}
    }
    wrong
}
