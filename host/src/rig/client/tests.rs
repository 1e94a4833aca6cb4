#![allow(clippy::unwrap_used, reason = "a test may stop where it fails")]

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use super::*;

const MIB: usize = 1 << 20;

/// What is made of a body of so many bytes, of which so many are announced.
async fn answer(sent: usize, announced: usize) -> Answer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let upstream = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 1024];
        assert!(stream.read(&mut head).await.unwrap() > 0);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {announced}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        // Whoever has read enough goes away in the middle.
        for at in (0..sent).step_by(MIB) {
            if stream.write_all(&vec![b'x'; MIB.min(sent - at)]).await.is_err() {
                break;
            }
        }
    };
    let client = async {
        let (mut sender, connection) = connect(address, |stream| stream).await.unwrap();
        TaskTracker::new().spawn(async move { drop(connection.await) });
        let (ask, mut heard) = (Ask::get("/"), Vec::new());
        let calling = call(&mut sender, address, &ask, clock::now(), |bytes| heard.push(bytes));
        let answer = calling.await.unwrap();
        let marks: Vec<_> = answer.marks.iter().map(|(bytes, _)| *bytes).collect();
        assert_eq!(marks, heard);
        answer
    };
    let both = async { tokio::join!(client, upstream) };
    tokio::time::timeout(Duration::from_secs(60), both).await.unwrap().0
}

#[tokio::test]
async fn an_answer_is_whole_up_to_the_bound_and_no_longer_than_it_beyond() {
    for (sent, announced, whole, kept) in [
        (10, 10, true, 10..=10),
        (ANSWER_MAX, ANSWER_MAX, true, ANSWER_MAX..=ANSWER_MAX),
        (ANSWER_MAX + 1, ANSWER_MAX + 1, false, 1..=ANSWER_MAX),
        (4 * ANSWER_MAX, 4 * ANSWER_MAX, false, 1..=ANSWER_MAX),
        (10, 11, false, 10..=10),
    ] {
        let answer = answer(sent, announced).await;
        assert_eq!(answer.whole, whole, "{sent} of {announced}");
        assert!(kept.contains(&answer.body.len()), "{sent} of {announced}: {}", answer.body.len());
        assert!(answer.head <= answer.took && answer.marks.is_sorted());
    }
}
