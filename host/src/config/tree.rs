//! From text to a tree of values that know their place, bounded in depth and in size. Decides what of
//! YAML is a configuration: one document of maps, lists and scalars; aliases, but no merge keys and no
//! tags. It gives no scalar a type: what a scalar means depends on the key it is read for.

mod syntax;

use std::collections::HashMap;
use std::rc::Rc;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, options};

use super::finding::{Finding, Pos, WHOLE_FILE};

/// Deepest nesting, aliases followed. The deepest key of a configuration is at seven.
const MAX_DEPTH: usize = 32;
/// Values in a file, aliases followed: what a few lines of nested aliases could blow up.
const MAX_VALUES: usize = 50_000;

/// A value and its place. An alias is the node it stands for, with that node's place.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: Pos,
    pub(super) value: Value,
    /// Values in it, itself included.
    weight: usize,
    /// Levels in it, itself included.
    height: usize,
}

#[derive(Debug)]
pub(super) enum Value {
    /// A scalar without quotes, which may be a number, `true` or nothing.
    Plain(String),
    /// A scalar that can only be text.
    Quoted(String),
    List(Vec<Rc<Node>>),
    /// In the order of the file, duplicates included.
    Map(Vec<Entry>),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) at: Pos,
    pub(super) key: String,
    pub(super) node: Rc<Node>,
}

impl Node {
    fn new(at: Pos, value: Value) -> Self {
        let (weight, height) = match &value {
            Value::Plain(_) | Value::Quoted(_) => (0, 0),
            Value::List(nodes) => totals(nodes.iter()),
            Value::Map(entries) => totals(entries.iter().map(|entry| &entry.node)),
        };
        Self { at, value, weight: weight + 1, height: height + 1 }
    }

    /// A scalar without quotes, as if it stood in a file.
    pub(super) fn plain(text: &str) -> Self {
        Self::new(Pos::START, Value::Plain(text.to_owned()))
    }

    /// Nothing was written: `key:`, `~` or `null`.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Plain(text) if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// What it is, in words for "expected …, found …". Never what it holds.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            _ if self.is_null() => "nothing",
            Value::Plain(text) if matches!(text.as_str(), "true" | "false") => "true or false",
            Value::Plain(text) if text.parse::<f64>().is_ok_and(f64::is_finite) => "a number",
            Value::Plain(_) | Value::Quoted(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

fn totals<'n>(nodes: impl Iterator<Item = &'n Rc<Node>>) -> (usize, usize) {
    nodes.fold((0, 0), |(weight, height), node| (weight + node.weight, height.max(node.height)))
}

/// A whole file, and what is wrong with it that does not hide the rest.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: Rc<Node>,
    pub(super) findings: Vec<Finding>,
}

/// Builds the tree of `text`; the error is the one finding behind which nothing has a certain place.
pub(super) fn parse(text: &str) -> Result<Tree, Finding> {
    let options = options! {
        emit_comments: false,
        disallow_directives: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder { source: Source::new(text), ..Builder::default() };
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) =
            next.map_err(|error| builder.terminal(error.marker(), syntax::text(error.kind())))?;
        builder.event(event, &span)?;
    }
    let root = builder.root.unwrap_or_else(|| Rc::new(Node::new(Pos::START, Value::Plain(String::new()))));
    Ok(Tree { root, findings: builder.findings })
}

/// Where the text ends: the parser's places may lie behind it.
#[derive(Default)]
struct Source {
    /// Characters of each line, without its break.
    widths: Vec<usize>,
}

impl Source {
    fn new(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut widths = vec![0];
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\r' if chars.peek() == Some(&'\n') => {}
                '\r' | '\n' => widths.push(0),
                _ => {
                    if let Some(last) = widths.last_mut() {
                        *last += 1;
                    }
                }
            }
        }
        Self { widths }
    }

    /// The parser counts lines from 1 and columns from 0.
    fn pos(&self, mark: &Marker) -> Pos {
        let line = mark.line().clamp(1, self.widths.len().max(1));
        let width = self.widths.get(line - 1).copied().unwrap_or(0);
        let column = if mark.line() > line { width } else { mark.col().min(width) };
        Pos { line, column: column + 1 }
    }
}

/// A collection that is not yet closed.
enum Open {
    List { at: Pos, anchor: usize, items: Vec<Rc<Node>> },
    Map { at: Pos, anchor: usize, entries: Vec<Entry>, key: Key },
}

/// The half of an entry that has come.
enum Key {
    None,
    Text(Pos, String),
    /// A key that is no text: its value is read and left out.
    Refused,
}

#[derive(Default)]
struct Builder {
    source: Source,
    stack: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    values: usize,
    root: Option<Rc<Node>>,
    documents: usize,
    findings: Vec<Finding>,
}

impl Builder {
    fn terminal(&self, mark: &Marker, text: impl Into<String>) -> Finding {
        Finding::new(self.source.pos(mark), WHOLE_FILE, text)
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Finding> {
        let at = self.source.pos(&span.start);
        if event.tag().is_some() {
            self.findings.push(Finding::new(at, WHOLE_FILE, "tags (\"!…\") are not supported"));
        }
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(self.terminal(
                        &span.start,
                        "a second document starts here; a configuration is one document",
                    ));
                }
            }
            Event::Scalar(text, style, anchor, _) => {
                let text = text.into_owned();
                let value =
                    if style == ScalarStyle::Plain { Value::Plain(text) } else { Value::Quoted(text) };
                self.add(Rc::new(Node::new(at, value)), anchor, span)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.stack.push(Open::List { at, anchor, items: Vec::new() })
            }
            Event::MappingStart(_, anchor, _) => {
                self.stack.push(Open::Map { at, anchor, entries: Vec::new(), key: Key::None });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let (at, anchor, value) = match self.stack.pop() {
                    Some(Open::List { at, anchor, items }) => (at, anchor, Value::List(items)),
                    Some(Open::Map { at, anchor, entries, .. }) => (at, anchor, Value::Map(entries)),
                    None => return Err(self.terminal(&span.start, syntax::OTHER)),
                };
                self.add(Rc::new(Node::new(at, value)), anchor, span)?;
            }
            Event::Alias(id) => {
                // An anchor is known once its node is whole, so a node that holds itself finds none.
                let Some(node) = self.anchors.get(&id).cloned() else {
                    return Err(self.terminal(&span.start, "an alias stands inside the value it names"));
                };
                self.values += node.weight - 1;
                self.add(node, 0, span)?;
            }
            _ => {}
        }
        if self.stack.len() > MAX_DEPTH {
            return Err(self.terminal(&span.start, syntax::too_deep()));
        }
        Ok(())
    }

    /// Puts a finished node where it belongs.
    fn add(&mut self, node: Rc<Node>, anchor: usize, span: &Span) -> Result<(), Finding> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(
                self.terminal(&span.start, format!("holds more than {MAX_VALUES} values, aliases followed"))
            );
        }
        if self.stack.len() + node.height > MAX_DEPTH {
            return Err(self.terminal(&span.start, syntax::too_deep()));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key, .. }) => match std::mem::replace(key, Key::None) {
                Key::None => *key = Self::key(&node, &mut self.findings),
                Key::Text(at, key) => entries.push(Entry { at, key, node: placed(node, at) }),
                Key::Refused => {}
            },
        }
        Ok(())
    }

    fn key(node: &Node, findings: &mut Vec<Finding>) -> Key {
        match &node.value {
            Value::Plain(text) if text == "<<" => {
                let text = "merge keys (\"<<\") are not supported; what routes share goes into \"defaults\"";
                findings.push(Finding::new(node.at, WHOLE_FILE, text));
                Key::Refused
            }
            Value::Plain(text) | Value::Quoted(text) => Key::Text(node.at, text.clone()),
            Value::List(_) | Value::Map(_) => {
                findings.push(Finding::new(
                    node.at,
                    WHOLE_FILE,
                    format!("a key must be text, found {}", node.kind()),
                ));
                Key::Refused
            }
        }
    }
}

/// A value that was not written has no place of its own; it gets its key's.
fn placed(node: Rc<Node>, key: Pos) -> Rc<Node> {
    match &node.value {
        Value::Plain(text) if text.is_empty() => Rc::new(Node::new(key, Value::Plain(String::new()))),
        _ => node,
    }
}
