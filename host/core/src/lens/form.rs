//! Whether a body is one document or a stream of events, by its bytes: a `content-type` is only a hint.

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One JSON text.
    Document,
    /// Events, or nothing that makes sense; a reader of events finds out.
    Events,
}

/// Looks at the first bytes of a body. None: white space and a byte-order mark, so far.
pub fn form(bytes: &[u8]) -> Option<Form> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let bytes = match bytes.strip_prefix(MARK) {
        Some(rest) => rest,
        None if MARK.starts_with(bytes) => return None,
        None => bytes,
    };
    match bytes.trim_ascii_start().first()? {
        // No line of an event stream that means anything begins so.
        b'{' | b'[' => Some(Form::Document),
        _ => Some(Form::Events),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_that_is_no_space_tells() {
        let cases: [(&[u8], Option<Form>); 12] = [
            (b"{\"id\":1}", Some(Form::Document)),
            (b" \r\n\t[", Some(Form::Document)),
            (b"\xef\xbb\xbf {", Some(Form::Document)),
            (b"data: {", Some(Form::Events)),
            (b": comment", Some(Form::Events)),
            (b"\xef\xbb\xbfdata:", Some(Form::Events)),
            (b"<html>", Some(Form::Events)),
            (b"\xefx", Some(Form::Events)),
            (b"", None),
            (b"\n\n ", None),
            (b"\xef\xbb", None),
            (b"\xef\xbb\xbf\n", None),
        ];
        for (bytes, expected) in cases {
            assert_eq!(form(bytes), expected, "{bytes:?}");
        }
    }
}
