//! "Did you mean": the nearest known word, if one is near.

/// Longer words are not compared: no known word is nearly as long, and the cost stays small.
const LONGEST: usize = 64;

/// The word of `known` that `word` is most likely a slip of.
pub(super) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = folded(word)?;
    let near = |candidate: &'k str| {
        let other = folded(candidate)?;
        let distance = distance(&word, &other);
        let allowed = (word.len().max(other.len()) / 3).clamp(1, 3);
        (distance <= allowed && distance < other.len()).then_some((distance, candidate))
    };
    known.into_iter().filter_map(near).min_by_key(|&(distance, _)| distance).map(|(_, candidate)| candidate)
}

/// `; did you mean "…"?`, or nothing.
pub(super) fn hint<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(word, known).map_or_else(String::new, |near| format!("; did you mean {near:?}?"))
}

/// Case and the choice between `-` and `_` are not what people get wrong by a letter.
fn folded(word: &str) -> Option<Vec<char>> {
    let folded: Vec<char> =
        word.chars().take(LONGEST + 1).map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect();
    (folded.len() <= LONGEST).then_some(folded)
}

/// Edits between two words: insert, delete, replace, swap of neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_finds_its_word_and_a_stranger_finds_none() {
        let known = ["budget", "base_url", "queue", "queue_wait", "idle", "max_in_flight"];
        for (word, expected) in [
            ("budgte", Some("budget")),
            ("base-url", Some("base_url")),
            ("baseUrl", Some("base_url")),
            ("quene_wait", Some("queue_wait")),
            ("max_inflight", Some("max_in_flight")),
            ("IDLE", Some("idle")),
            ("idel", Some("idle")),
            ("zzz", None),
            ("", None),
            ("timeout", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"q".repeat(5000), known), None);
    }
}
