use crate::metrics::Metrics;
use crate::now;
use crate::prelude::*;
use crate::response::Event;

const STREAM: &str = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
    12;x=y\r\ndata: {\"a\": 1}\n\n: \r\n8\r\nc\n\ndata:\r\n10\r\n x\ndata: y\n\ndata\r\n0\r\nt: v\r\n\r\n";

fn parse(pieces: &[&[u8]]) -> Response {
    let mut response = Response::new(now());
    for piece in pieces {
        response.feed(piece, now());
    }
    response
}

#[test]
fn a_response_is_the_same_however_its_bytes_are_split() {
    let bytes = STREAM.as_bytes();
    let mut splits: Vec<Vec<&[u8]>> = (0..=bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]).collect();
    splits.push(bytes.chunks(1).collect());
    for pieces in splits {
        let response = parse(&pieces);
        assert_eq!((response.status, response.end), (200, End::Complete), "{response:?}");
        let data: Vec<_> = response.events.iter().map(Event::data).collect();
        assert_eq!(data, [Some("{\"a\": 1}".to_owned()), None, Some("x\ny".to_owned())]);
        assert_eq!(response.raw, bytes);
    }
}

#[test]
fn framing_that_lies_is_not_taken_for_an_end() {
    let table = [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfour", End::Cut),
        ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfour", End::Complete),
        ("HTTP/1.1 200 OK\r\n\r\nuntil close", End::Complete),
        ("HTTP/1.1 204 No Content\r\n\r\n", End::Complete),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n", End::Cut),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n", End::Cut),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n", End::Broken),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nfour\r\n", End::Broken),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n", End::Broken),
        ("HTTP/1.1 200", End::Cut),
        ("SSH-2.0\r\n\r\n", End::Broken),
    ];
    for (text, want) in table {
        let mut response = parse(&[text.as_bytes()]);
        response.closed(false, now());
        assert_eq!(response.end, want, "{text:?}");
    }
}

#[test]
fn a_metrics_page_is_read_with_its_escapes() {
    let page = "# HELP x y\n# TYPE x counter\nx{a=\"1\",b=\"q\\\"{,} \\n\\\\\"} 2\nx{a=\"2\"} 3.5\nplain 7 1700000000\nh_bucket{le=\"+Inf\"} 1\n";
    let metrics = Metrics::parse(page);
    assert_eq!(metrics.samples.len(), 4);
    assert_eq!(metrics.samples[0].labels["b"], "q\"{,} \n\\");
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(metrics.sum("x", &[]), 5.5) && close(metrics.sum("x", &[("a", "2")]), 3.5));
    assert!(close(metrics.sum("plain", &[]), 7.0) && metrics.has("h_bucket") && !metrics.has("h"));
    assert!(close(metrics.by("x", "a")["1"], 2.0));
}
