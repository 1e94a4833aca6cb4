//! Connections in virtual time, over pipes.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinSet;

use super::http2::{GOODBYE_WAIT, LAST_BYTES_WAIT};
use super::*;
use crate::server::io::UNTOLD;
use crate::server::preface::PREFACE;

/// Answers everything after a while, once its body is there.
struct After(Duration, Bytes);

impl Serve for After {
    fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
        _: WriteLimit,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        Box::pin(async move {
            request.into_body().collect().await.unwrap();
            tokio::time::sleep(self.0).await;
            Response::new(Body::full(self.1.clone()))
        })
    }

    fn refuse_plain_text(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        self.serve(request, WriteLimit::default())
    }
}

const SECOND: Duration = Duration::from_secs(1);
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// GET / over http, a whole request.
const GET: &[u8] = &[0, 0, 3, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84];
const GET_HTTP1: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// What a client of HTTP/2 begins with.
fn begun() -> Vec<u8> {
    [PREFACE, SETTINGS].concat()
}

/// A connection with these bytes sent, and the task that serves it.
async fn open(bytes: &[u8], answers: impl Serve, ends: &Ends) -> (DuplexStream, JoinSet<()>) {
    let (mut client, server) = tokio::io::duplex(64 << 10);
    client.write_all(bytes).await.unwrap();
    let (service, tracker) = (Arc::new(answers), TaskTracker::new());
    let mut task = JoinSet::new();
    task.spawn(serve_connection(TokioIo::new(server), Leaving::Unseen, service, tracker, ends.clone()));
    (client, task)
}

fn after(time: Duration) -> After {
    After(time, Bytes::from_static(b"done"))
}

/// What comes until the answer is there.
async fn until_done(client: &mut DuplexStream, name: &str) -> Vec<u8> {
    let mut got = Vec::new();
    let read = async {
        while !got.windows(4).any(|window| window == b"done") {
            let more = client.read_buf(&mut got).await.unwrap();
            assert!(more > 0, "{name}: closed before the answer: {got:?}");
        }
    };
    let there = tokio::time::timeout(5 * HEAD_WAIT, read).await;
    assert!(there.is_ok(), "{name}: no answer");
    got
}

/// Whether the connection ends within this time.
async fn ends_within(task: &mut JoinSet<()>, time: Duration) -> bool {
    tokio::time::timeout(time, task.join_next()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_nothing_is_closed_in_time_and_no_sooner_however_far_it_came() {
    // A head that has begun and does not end.
    let half_a_head = [&begun()[..], &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82]].concat();
    let table: [(&str, &[u8], bool); 9] = [
        ("nothing", b"", false),
        ("one byte of a preface", b"P", false),
        ("half a preface", &PREFACE[..12], false),
        ("a preface", PREFACE, false),
        ("settings", &begun(), false),
        ("half a head of HTTP/2", &half_a_head, false),
        ("half a head of HTTP/1.1", b"GET / HTTP/1.1\r\nhost:", false),
        ("an answered request", GET_HTTP1, true),
        ("an answered request of HTTP/2", &[&begun()[..], GET].concat(), true),
    ];
    for (name, bytes, answered) in table {
        let (mut client, mut task) = open(bytes, after(Duration::ZERO), &Ends::default()).await;
        if answered {
            until_done(&mut client, name).await;
        }
        assert!(!ends_within(&mut task, HEAD_WAIT - SECOND).await, "{name}: closed at once");
        let last_bytes = if answered { UNTOLD } else { GOODBYE_WAIT };
        assert!(ends_within(&mut task, SECOND + 2 * last_bytes).await, "{name}: held for good");
        drop(client);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_its_time_is_no_quiet_connection() {
    for (name, bytes) in [("HTTP/2", &[&begun()[..], GET].concat()[..]), ("HTTP/1.1", GET_HTTP1)] {
        let (mut client, mut task) = open(bytes, after(4 * HEAD_WAIT), &Ends::default()).await;
        until_done(&mut client, name).await;
        assert!(ends_within(&mut task, HEAD_WAIT + 2 * UNTOLD).await, "{name}: held after its answer");
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_begins_late_and_does_not_end_is_not_waited_for_either() {
    let rest = [&PREFACE[1..], SETTINGS].concat();
    for (first, then) in [(b"P", &rest[..]), (b"P", b"OST / HTTP/1.1\r\n"), (b"G", b"ET / HTTP/1.1\r\nhost:")]
    {
        let (mut client, mut task) = open(first, after(Duration::ZERO), &Ends::default()).await;
        tokio::time::sleep(HEAD_WAIT - SECOND).await;
        client.write_all(then).await.unwrap();
        assert!(ends_within(&mut task, HEAD_WAIT + 2 * GOODBYE_WAIT).await, "{then:?}: held for good");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_behind_a_late_head_is_read_and_answered() {
    let head = &b"OST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n"[..];
    // Bytes of the body in the same read as the head, and all of them in one that comes later still.
    for (with_head, later) in [(&b"body"[..], &b""[..]), (b"bo", b"dy"), (b"", b"body")] {
        let (mut client, _task) = open(b"P", after(Duration::ZERO), &Ends::default()).await;
        tokio::time::sleep(HEAD_WAIT - SECOND).await;
        client.write_all(&[head, with_head].concat()).await.unwrap();
        tokio::time::sleep(2 * HEAD_WAIT).await;
        client.write_all(later).await.unwrap();
        let got = until_done(&mut client, "late").await;
        assert!(got.starts_with(b"HTTP/1.1 200 "), "{got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_there_when_the_listener_closes_is_answered() {
    for (name, bytes) in [("HTTP/1.1", GET_HTTP1), ("HTTP/2", &[&begun()[..], GET].concat())] {
        // A turn of luck would pass some of the time.
        for _ in 0..32 {
            let ends = Ends::default();
            ends.closing.cancel();
            let (mut client, _task) = open(bytes, after(Duration::ZERO), &ends).await;
            until_done(&mut client, name).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_to_a_goodbye_is_not_waited_for() {
    for (name, bytes, answered) in [
        ("a preface", PREFACE.to_vec(), false),
        ("settings", begun(), false),
        ("an answered request", [&begun()[..], GET].concat(), true),
    ] {
        let ends = Ends::default();
        let (mut client, mut task) = open(&bytes, after(Duration::ZERO), &ends).await;
        if answered {
            until_done(&mut client, name).await;
        }
        tokio::time::sleep(SECOND).await;
        ends.closing.cancel();
        let last_bytes = if answered { UNTOLD } else { GOODBYE_WAIT };
        assert!(ends_within(&mut task, 2 * last_bytes).await, "{name}: held for good");
        drop(client);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_runs_at_the_goodbye_ends_in_its_own_time() {
    for (name, bytes) in [("HTTP/2", &[&begun()[..], GET].concat()[..]), ("HTTP/1.1", GET_HTTP1)] {
        let ends = Ends::default();
        let (mut client, mut task) = open(bytes, after(4 * HEAD_WAIT), &ends).await;
        tokio::time::sleep(SECOND).await;
        ends.closing.cancel();
        until_done(&mut client, name).await;
        // The wait begins anew with what was written.
        assert!(ends_within(&mut task, 2 * UNTOLD + SECOND).await, "{name}: held after its answer");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_taken_slowly_at_the_goodbye_is_there_to_its_end() {
    const WINDOW: usize = 65_535;
    let body = [&vec![b'x'; 2 * WINDOW - 100][..], b"done"].concat();
    let ends = Ends::default();
    let bytes = [&begun()[..], GET].concat();
    let (mut client, mut task) = open(&bytes, After(Duration::ZERO, body.into()), &ends).await;
    tokio::time::sleep(SECOND).await;
    ends.closing.cancel();
    client.write_all(SETTINGS).await.unwrap();
    let (mut from, mut to) = tokio::io::split(client);
    let mut gives = JoinSet::new();
    gives.spawn(async move {
        // Room for a part of it in each, for the connection and for the stream.
        for _ in 0..5 {
            tokio::time::sleep(UNTOLD - SECOND).await;
            for stream in [0, 1] {
                to.write_all(&[0, 0, 4, 8, 0, 0, 0, 0, stream, 0, 0, 0x40, 0]).await.unwrap();
            }
        }
        to
    });
    let mut got = Vec::new();
    while !got.windows(4).any(|window| window == b"done") {
        assert!(from.read_buf(&mut got).await.unwrap() > 0, "cut off after {} bytes", got.len());
    }
    assert!(ends_within(&mut task, 3 * UNTOLD).await, "held after its answer");
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_during_a_goodbye_ends_with_what_is_torn() {
    let ends = Ends::default();
    let (mut client, mut task) = open(&begun(), after(4 * HEAD_WAIT), &ends).await;
    // Quiet for so long that the goodbye has begun.
    tokio::time::sleep(HEAD_WAIT + SECOND).await;
    client.write_all(GET).await.unwrap();
    assert!(!ends_within(&mut task, 3 * GOODBYE_WAIT).await, "the call was not waited for");
    ends.torn.cancel();
    assert!(ends_within(&mut task, SECOND).await, "out of reach");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_hear_a_goodbye_is_not_served_for_ever() {
    let pings = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8].to_vec();
    let asks = |stream: u16| [&GET[..7], &stream.to_be_bytes(), &GET[9..]].concat();
    for (name, keeps_on) in [("pings", None), ("asks", Some(asks))] {
        let ends = Ends::default();
        let (mut client, mut task) = open(&begun(), after(Duration::ZERO), &ends).await;
        tokio::time::sleep(SECOND).await;
        ends.closing.cancel();
        let (mut turns, mut heard) = (0, Vec::new());
        while !ends_within(&mut task, 3 * SECOND).await {
            assert!(3 * u64::from(turns) < LAST_BYTES_WAIT.as_secs() + 60, "{name}: held for good");
            let bytes = keeps_on.map_or_else(|| pings.clone(), |asks| asks(2 * turns + 1));
            client.write_all(&bytes).await.unwrap();
            client.read_buf(&mut heard).await.unwrap();
            turns += 1;
        }
        assert!(u64::from(turns) > GOODBYE_WAIT.as_secs() / 3, "{name}: cut off at once");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_of_no_route_that_nobody_reads_end_their_connection() {
    // The pipe takes 64 KiB; what is asked for is more.
    let body = Bytes::from(vec![b'x'; 256 << 10]);
    let (_client, mut task) = open(GET_HTTP1, After(Duration::ZERO, body), &Ends::default()).await;
    assert!(!ends_within(&mut task, 29 * SECOND).await, "dropped too soon");
    assert!(ends_within(&mut task, 2 * SECOND).await, "held for good");
}
