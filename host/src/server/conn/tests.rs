//! Connections in virtual time, over pipes.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::http2::GOODBYE_WAIT;
use super::*;

/// Answers everything after a while.
struct After(Duration);

impl Serve for After {
    fn serve(
        self: Arc<Self>,
        _: Request<Incoming>,
        _: WriteLimit,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        Box::pin(async move {
            tokio::time::sleep(self.0).await;
            Response::new(Body::full("done".into()))
        })
    }

    fn refuse_plain_text(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
        self.serve(request, WriteLimit::default())
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// GET / over http, a whole request.
const GET: &[u8] = &[0, 0, 3, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84];

/// A connection with these bytes sent, and the task that serves it.
async fn open(bytes: &[u8], answers_after: Duration) -> (DuplexStream, tokio::task::JoinSet<()>) {
    let (mut client, server) = tokio::io::duplex(64 << 10);
    let mut task = tokio::task::JoinSet::new();
    let (service, tracker) = (Arc::new(After(answers_after)), TaskTracker::new());
    let io = TokioIo::new(server);
    task.spawn(serve_connection(io, Leaving::Unseen, service, tracker, Ends::default()));
    client.write_all(bytes).await.unwrap();
    (client, task)
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_nothing_is_closed_however_far_it_came() {
    let begun = [PREFACE, SETTINGS].concat();
    // A head that has begun and does not end.
    let half_a_head = [&begun[..], &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82]].concat();
    let table: [(&str, &[u8]); 8] = [
        ("nothing", b""),
        ("one byte of a preface", b"P"),
        ("half a preface", &PREFACE[..12]),
        ("a preface", PREFACE),
        ("settings", &begun),
        ("half a head of HTTP/2", &half_a_head),
        ("half a head of HTTP/1.1", b"GET / HTTP/1.1\r\nhost:"),
        ("an answered request", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
    ];
    for (name, bytes) in table {
        let (client, mut task) = open(bytes, Duration::ZERO).await;
        let ended = tokio::time::timeout(HEAD_WAIT + 2 * GOODBYE_WAIT, task.join_next()).await;
        assert!(ended.is_ok(), "{name}: held for good");
        drop(client);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_its_time_is_no_quiet_connection() {
    let begun = [PREFACE, SETTINGS, GET].concat();
    for bytes in [&begun[..], b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let (mut client, mut task) = open(bytes, 4 * HEAD_WAIT).await;
        let mut got = Vec::new();
        let read = async {
            while !got.windows(4).any(|w| w == b"done") {
                assert!(client.read_buf(&mut got).await.unwrap() > 0, "closed before the answer: {got:?}");
            }
        };
        tokio::time::timeout(5 * HEAD_WAIT, read).await.unwrap();
        let ended = tokio::time::timeout(HEAD_WAIT + 2 * GOODBYE_WAIT, task.join_next()).await;
        assert!(ended.is_ok(), "held for good after its answer");
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_begins_late_and_does_not_end_is_not_waited_for_either() {
    let rest = [&PREFACE[1..], SETTINGS].concat();
    for (first, then) in [(b"P", &rest[..]), (b"P", b"OST / HTTP/1.1\r\n"), (b"G", b"ET / HTTP/1.1\r\nhost:")]
    {
        let (mut client, mut task) = open(first, Duration::ZERO).await;
        tokio::time::sleep(HEAD_WAIT - Duration::from_secs(1)).await;
        client.write_all(then).await.unwrap();
        let ended = tokio::time::timeout(HEAD_WAIT + 2 * GOODBYE_WAIT, task.join_next()).await;
        assert!(ended.is_ok(), "{then:?}: held for good");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_there_when_the_listener_closes_is_answered() {
    for bytes in [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], &[PREFACE, SETTINGS, GET].concat()] {
        // A turn of luck would pass some of the time.
        for _ in 0..32 {
            let (mut client, server) = tokio::io::duplex(64 << 10);
            client.write_all(bytes).await.unwrap();
            let ends = Ends::default();
            ends.closing.cancel();
            let (service, tracker) = (Arc::new(After(Duration::ZERO)), TaskTracker::new());
            let mut task = tokio::task::JoinSet::new();
            task.spawn(serve_connection(TokioIo::new(server), Leaving::Unseen, service, tracker, ends));
            let mut got = Vec::new();
            let read = async {
                while !got.windows(4).any(|window| window == b"done") {
                    let more = client.read_buf(&mut got).await.unwrap();
                    assert!(more > 0, "dropped with a request unread: {got:?}");
                }
            };
            tokio::time::timeout(HEAD_WAIT, read).await.unwrap();
        }
    }
}
