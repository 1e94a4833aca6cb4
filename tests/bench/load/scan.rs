//! As much of HTTP/1.1 and of event streams as a load needs: where a head ends, how long a body is, and where the
//! events and the end of a stream are. It trusts its peers, which are this program and the gateway.

/// Where the body begins, if the head is there in full.
pub fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// The status of a head.
pub fn status(head: &[u8]) -> Option<u16> {
    std::str::from_utf8(head.get(9..12)?).ok()?.parse().ok()
}

/// The length that a head announces.
pub fn content_length(head: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(head).ok()?;
    let value = text.split("\r\n").skip(1).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    })?;
    value.trim().parse().ok()
}

/// Whether an event stream in chunks is over, and whether its last event said so.
pub fn ended(tail: &[u8]) -> Option<bool> {
    let body = tail.strip_suffix(b"\r\n0\r\n\r\n")?;
    Some(body.ends_with(b"data: [DONE]\n\n"))
}

/// The times at which the events in `bytes` were written, as the upstream put them between two `@`; `from` is how far
/// it has been read before, and the second value how far it has now.
pub fn stamps(bytes: &[u8], from: usize, mut each: impl FnMut(u128)) -> usize {
    let mut at = from;
    while let Some(begin) = find(&bytes[at..], b"\"@").map(|found| at + found + 2) {
        let Some(length) = find(&bytes[begin..], b"@") else { return begin - 2 };
        if let Some(stamp) =
            std::str::from_utf8(&bytes[begin..begin + length]).ok().and_then(|t| t.parse().ok())
        {
            each(stamp);
        }
        at = begin + length + 1;
    }
    // The first of the two bytes may be there already.
    at.max(bytes.len().saturating_sub(1))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_whatever_its_case() {
        let head = b"HTTP/1.1 503 Down\r\nX: 1\r\nContent-LENGTH: 12\r\n\r\nrest";
        assert_eq!(head_end(head), Some(head.len() - 4));
        assert_eq!((status(head), content_length(head)), (Some(503), Some(12)));
        assert_eq!(head_end(b"HTTP/1.1 200 OK\r\n\r"), None);
    }

    #[test]
    fn a_stream_is_over_at_its_last_chunk_and_whole_with_done_before_it() {
        assert_eq!(ended(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"), Some(true));
        assert_eq!(ended(b"5\r\nabc\n\n\r\n0\r\n\r\n"), Some(false));
        assert_eq!(ended(b"e\r\ndata: [DONE]\n\n\r\n"), None);
    }

    #[test]
    fn stamps_are_found_once_however_the_bytes_are_cut() {
        let bytes = br#"data: {"content":"@12@xx"} data: {"content":"@345@"}"#;
        for cut in 0..bytes.len() {
            let mut seen = Vec::new();
            let at = stamps(&bytes[..cut], 0, |stamp| seen.push(stamp));
            stamps(bytes, at, |stamp| seen.push(stamp));
            assert_eq!(seen, [12, 345], "cut at {cut}");
        }
    }
}
