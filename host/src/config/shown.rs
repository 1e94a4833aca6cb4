//! A configuration as people may see it: what its file says, as YAML in one fixed form. Comments are gone and
//! aliases followed, keys keep their order, and what could be a secret shows its reference or nothing at all.
//!
//! Read again it is the same configuration, but for what is hidden.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use super::reference::is_reference;
use super::tree::{Entry, Node, Value};

/// Stands where a value is nobody's business.
const HIDDEN: &str = "(hidden)";
/// A list of words that is no longer than this stands on one line.
const ONE_LINE: usize = 100;

/// The text. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown(Arc<str>);

impl Shown {
    pub(super) fn of(root: &Node) -> Self {
        let mut writer = Writer { out: String::new(), path: Vec::new() };
        match &root.value {
            Value::Map(entries) => writer.map(entries, 0, false),
            _ => writer.inline(root),
        }
        Self(writer.out.into())
    }
}

impl Shown {
    /// The same with another text for a key of the top.
    #[must_use]
    pub fn with(&self, key: &str, text: &str) -> Self {
        let mut out = String::new();
        let mut of_key = false;
        for line in self.0.split_inclusive('\n') {
            if !line.starts_with([' ', '-']) {
                of_key = line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
            }
            out.push_str(if of_key { "" } else { line });
        }
        let _ = write!(out, "{key}: ");
        scalar(&mut out, text, false);
        out.push('\n');
        Self(out.into())
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

struct Writer<'n> {
    out: String,
    /// Keys down to here; an item of a list has none.
    path: Vec<&'n str>,
}

impl<'n> Writer<'n> {
    /// The entries, each on lines of its own; the first stands behind a dash that is written already.
    fn map(&mut self, entries: &'n [Entry], depth: usize, mut behind_dash: bool) {
        for entry in entries {
            if !std::mem::take(&mut behind_dash) {
                self.indent(depth);
            }
            scalar(&mut self.out, &entry.key, false);
            self.out.push(':');
            self.path.push(&entry.key);
            self.below(&entry.node, depth);
            self.path.pop();
        }
    }

    fn list(&mut self, items: &'n [std::rc::Rc<Node>], depth: usize) {
        for item in items {
            self.indent(depth);
            self.out.push('-');
            match &item.value {
                Value::Map(entries) if !entries.is_empty() => {
                    self.out.push(' ');
                    self.map(entries, depth + 1, true);
                }
                _ => self.below(item, depth),
            }
        }
    }

    /// What stands behind a key or a dash.
    fn below(&mut self, node: &'n Node, depth: usize) {
        match &node.value {
            Value::Map(entries) if !entries.is_empty() => {
                self.out.push('\n');
                self.map(entries, depth + 1, false);
            }
            Value::List(items) if !items.is_empty() && !self.fits(node) => {
                self.out.push('\n');
                self.list(items, depth + 1);
            }
            _ => {
                self.out.push(' ');
                self.inline(node);
                self.out.push('\n');
            }
        }
    }

    /// Whether a list can stand on the line of its key.
    fn fits(&self, node: &'n Node) -> bool {
        let Value::List(items) = &node.value else { return false };
        let plain = |item: &std::rc::Rc<Node>| matches!(item.value, Value::Plain(_) | Value::Quoted(_));
        let mut line = Self { out: String::new(), path: self.path.clone() };
        items.iter().all(plain) && {
            line.inline(node);
            line.out.chars().count() <= ONE_LINE
        }
    }

    fn inline(&mut self, node: &'n Node) {
        match &node.value {
            Value::Plain(_) if node.is_null() => self.out.push_str("null"),
            Value::Plain(text) => self.value(text, node.kind() != "text"),
            Value::Quoted(text) => self.value(text, false),
            Value::List(items) => {
                self.out.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.out.push_str(if at > 0 { ", " } else { "" });
                    self.inline(item);
                }
                self.out.push(']');
            }
            // One with entries has lines of its own.
            Value::Map(_) => self.out.push_str("{}"),
        }
    }

    fn value(&mut self, text: &str, bare: bool) {
        if may_be_secret(&self.path) && !is_reference(text) {
            return scalar(&mut self.out, HIDDEN, false);
        }
        match without_secrets(text) {
            Some(shown) => scalar(&mut self.out, &shown, false),
            None => scalar(&mut self.out, text, bare),
        }
    }

    fn indent(&mut self, depth: usize) {
        self.out.extend(std::iter::repeat_n("  ", depth));
    }
}

/// Keys whose value is a secret unless it is a reference to one.
fn may_be_secret(path: &[&str]) -> bool {
    let named = |key: &&str| matches!(*key, "credentials" | "key" | "key_sha256" | "postgres");
    matches!(path, ["upstreams", _, "headers", ..]) || path.last().is_some_and(named)
}

/// A URL, or a path with a query, without what may be a key in it; none: there is nothing to hide.
fn without_secrets(text: &str) -> Option<String> {
    if !text.contains("://") && !text.starts_with('/') {
        return None;
    }
    let (front, query) = text.split_once('?').map_or((text, None), |(front, query)| (front, Some(query)));
    let (scheme, rest) = front.split_once("://").unwrap_or(("", front));
    let user = rest.split('/').next().unwrap_or_default().rfind('@');
    if query.is_none() && user.is_none() {
        return None;
    }
    let host = user.and_then(|at| rest.get(at + 1..)).unwrap_or(rest);
    let mut shown = String::new();
    if !scheme.is_empty() {
        shown.push_str(scheme);
        shown.push_str("://");
    }
    shown.push_str(if user.is_some() { "(hidden)@" } else { "" });
    shown.push_str(host);
    shown.push_str(if query.is_some() { "?(hidden)" } else { "" });
    Some(shown)
}

/// A scalar that reads as what it was: `bare` is a number or a word that is no text.
fn scalar(out: &mut String, text: &str, bare: bool) {
    let simple = |c: char| c.is_ascii_alphanumeric() || "_./:+@-".contains(c);
    let plain = text.chars().all(simple)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || "_./".contains(c))
        && !text.ends_with(':')
        && !text.starts_with("...")
        && Node::plain(text).kind() == "text";
    if bare || plain {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // What YAML could take for the end of a line, or not take at all.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{parse, tree};
    use super::*;

    fn shown(text: &str) -> String {
        let tree = tree::parse(text).unwrap_or_else(|finding| unreachable!("{finding:?}"));
        Shown::of(&tree.root).to_string()
    }

    #[test]
    fn it_reads_as_what_the_file_says() {
        let long = "x".repeat(60);
        for (text, want) in [
            ("a: 1 # note\nb: '1'\nc: \"x: y\"", "a: 1\nb: \"1\"\nc: \"x: y\"\n".to_owned()),
            ("{\"listen\": \"127.0.0.1:0\", \"z\": null}", "listen: 127.0.0.1:0\nz: null\n".to_owned()),
            (
                "a: &x { b: [ 1, two, 'three' ] }\nc: *x",
                "a:\n  b: [1, two, three]\nc:\n  b: [1, two, three]\n".into(),
            ),
            (
                "a: [ { t: u/m, w: 2 }, u/n ]\ne: []\nf: {}",
                "a:\n  - t: u/m\n    w: 2\n  - u/n\ne: []\nf: {}\n".into(),
            ),
            (&format!("a: [ {long}, {long} ]"), format!("a:\n  - {long}\n  - {long}\n")),
            ("'true': 'off'\n\"k\\n\": \"\\u0085é\"", "\"true\": off\n\"k\\n\": \"\\u0085é\"\n".into()),
            ("a: -5\nb: '-x'\nc: '...'\nd: 'x:'", "a: -5\nb: \"-x\"\nc: \"...\"\nd: \"x:\"\n".into()),
        ] {
            let once = shown(text);
            assert_eq!(once, want, "{text}");
            assert_eq!(shown(&once), once, "read again: {text}");
        }
    }

    #[test]
    fn what_may_be_a_secret_shows_its_reference_or_nothing() {
        for (text, want) in [
            ("upstreams: { a: { credentials: [ 'env:K', hush ] } }", "[env:K, \"(hidden)\"]"),
            ("upstreams: { a: { headers: { x-key: hush } } }", "x-key: \"(hidden)\""),
            ("upstreams: { a: { headers: { x-key: 'file:./k' } } }", "x-key: file:./k"),
            ("upstreams: { a: { base_url: 'https://h/v1?key=hush' } }", "\"https://h/v1?(hidden)\""),
            ("traces: { otlp: 'https://u:hush@h:1/p' }", "\"https://(hidden)@h:1/p\""),
            ("upstreams: { a: { probe: { path: '/models?key=hush' } } }", "\"/models?(hidden)\""),
            ("callers: [ { name: n, key: hush, key_sha256: hush } ]", "key_sha256: \"(hidden)\""),
            ("plugins: { headers: [ x-sluice-task ] }", "headers: [x-sluice-task]"),
            ("upstreams: { a: { base_url: 'https://h/a@b' } }", "https://h/a@b"),
        ] {
            let shown = shown(text);
            assert!(shown.contains(want) && !shown.contains("hush"), "{text}\n{shown}");
        }
    }

    #[test]
    fn a_configuration_read_again_is_the_same() {
        let text = "listen: localhost:1\nadmin: '[::1]:2'\nupstreams: { a: { base_url: 'http://h/v1', models: { 'm: 1': { price: { input: 1, output: 2.50 } }, '5': {} } } }\n\
                    routes: { 'a route': { targets: [ 'a/m: 1', { target: a/5, tasks: [ t ] } ], idle: off }, \"on\": { targets: [ a/5 ] } }\n";
        let read = |text: &str| {
            let loaded = parse(text, Path::new("c.yaml"), &|_| None);
            loaded.unwrap_or_else(|errors| unreachable!("{errors}\n{text}")).config
        };
        let first = read(text);
        let second = read(&first.shown.to_string());
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
    }
}
