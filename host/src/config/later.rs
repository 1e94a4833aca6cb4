//! Keys of the configuration whose feature this version does not have. Each is known, so that it is told
//! apart from a slip, and accepted where its value asks for nothing; a feature that arrives deletes its
//! line here and reads its key.

use super::field::Map;
use super::tree::{Node, Value};

/// A key, and the value that asks for nothing of it beside leaving it empty.
pub(super) struct Later(&'static str, Nothing);

enum Nothing {
    /// This word: `off`, `false`, or the default that means none.
    Word(&'static str),
    EmptyMap,
}

pub(super) const TAGS: &[Later] = &[Later("in_body", Nothing::Word("false"))];
pub(super) const UPSTREAM: &[Later] = &[Later("quota", Nothing::EmptyMap)];

impl Map<'_> {
    /// Knows the keys of `table`, and notes each one that asks for something.
    pub(super) fn later(&self, table: &[Later]) {
        for Later(key, nothing) in table {
            let field = self.get(key);
            if field.node().is_some_and(|node| !nothing.is(node)) {
                let but = match nothing {
                    Nothing::Word(word) => format!("leave it out or write {word}"),
                    Nothing::EmptyMap => "leave it out or write {}".to_owned(),
                };
                field.error(format!("this version does not have it yet; {but}"));
            }
        }
    }
}

impl Nothing {
    fn is(&self, node: &Node) -> bool {
        node.is_null()
            || match (self, &node.value) {
                (Self::Word(word), Value::Plain(text)) => text == word,
                // `false` in quotes is no false, but JSON has quotes around every other word.
                (Self::Word(word), Value::Quoted(text)) => text == word && *word != "false",
                (Self::EmptyMap, Value::Map(entries)) => entries.is_empty(),
                _ => false,
            }
    }
}
