//! Text of an upstream that is passed on to a caller, without hosts, addresses and keys.

/// Longest text passed on, bytes.
const TEXT_MAX: usize = 4096;
/// Prefixes of provider keys.
const KEY_PREFIXES: [&str; 9] = ["sk-", "sk_", "pk-", "gsk_", "xai-", "AIza", "hf_", "key-", "Bearer"];

/// Replaces URLs, host names, addresses and keys, and cuts the text to a bound. `secrets` are replaced
/// wherever they stand.
pub fn clean(text: &str, secrets: &[&str]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| secret.len() >= 4) {
        text = text.replace(secret, "[key]");
    }
    let mut out = String::with_capacity(text.len().min(TEXT_MAX));
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let space = &piece[word.len()..];
        let core = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '[');
        let replacement = replacement(core);
        match replacement {
            Some(new) if !core.is_empty() => out.push_str(&word.replace(core, new)),
            _ => out.push_str(word),
        }
        out.push_str(space);
        if out.len() > TEXT_MAX {
            let end = (0..=TEXT_MAX).rev().find(|i| out.is_char_boundary(*i)).unwrap_or(0);
            out.truncate(end);
            break;
        }
    }
    out
}

fn replacement(word: &str) -> Option<&'static str> {
    if word.contains("://") {
        return Some("[url]");
    }
    if KEY_PREFIXES.iter().any(|p| word.len() > p.len() + 7 && word.contains(p)) {
        return Some("[key]");
    }
    if word.parse::<std::net::IpAddr>().is_ok()
        || word.parse::<std::net::SocketAddr>().is_ok()
        || is_host(word)
    {
        return Some("[host]");
    }
    None
}

/// Ends that make two labels a host and not, say, a field of a request.
const ENDS: [&str; 10] = ["com", "net", "org", "io", "ai", "dev", "app", "cloud", "local", "internal"];

/// Dotted labels with a letter-only end, as `api.example.com` or `db.internal:8080`, with or without a path
/// behind. A model name such as `gpt-4.1` or `llama-3.1-8b` is none: its last label is no word. Nor is
/// `messages.0.content`: no name of a host has a number between two words.
fn is_host(word: &str) -> bool {
    let host = word.split('/').next().unwrap_or(word);
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let labels: Vec<&str> = name.split('.').collect();
    let dns = |label: &&str| {
        label.chars().any(|c| c.is_ascii_alphabetic())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let end = labels.last().copied().unwrap_or("");
    let known_end = ENDS.iter().any(|known| end.eq_ignore_ascii_case(known));
    port.is_none_or(|port| port.parse::<u16>().is_ok())
        && labels.len() >= if port.is_some() || known_end { 2 } else { 3 }
        && labels.iter().all(dns)
        && end.len() >= 2
        && end.chars().all(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_keys_go_and_the_rest_stays() {
        let cases = [
            ("maximum context length is 8192 tokens", "maximum context length is 8192 tokens"),
            ("see https://api.example.com/docs?x=1.", "see [url]."),
            ("from api.internal.example (10.0.0.1) at 10.0.0.1:8080", "from [host] ([host]) at [host]"),
            (
                "model gpt-4.1 or llama-3.1-8b, param messages.0.content",
                "model gpt-4.1 or llama-3.1-8b, param messages.0.content",
            ),
            ("openai.com, api.openai.com/v1/x", "[host], [host]"),
            ("key sk-abcdefghijkl is bad", "key [key] is bad"),
            ("my-secret-key-1 stands here: (my-secret-key-1)", "[key] stands here: ([key])"),
            ("messages[0].content  é", "messages[0].content  é"),
        ];
        for (text, expected) in cases {
            assert_eq!(clean(text, &["my-secret-key-1"]), expected);
        }
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let cut = clean(&"é".repeat(5000), &[]);
        assert!(cut.len() <= TEXT_MAX && cut.ends_with('é'));
    }
}
