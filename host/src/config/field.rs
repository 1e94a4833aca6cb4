//! The reader that every section of the file is read with. A [`Field`] is one key, there or not; a
//! [`Map`] is a section. Each reading method gives the value if it is there and right, and otherwise
//! none, having noted what is wrong: the caller goes on with a default, and so one run finds everything.
//!
//! No text made here holds a value of the file. Keys are shown where they are names of the operator's
//! own (upstreams, routes, models, headers) and where an unknown one reads like a word of this
//! configuration; anything else may be a secret in the wrong place.

mod scalar;

pub(super) use scalar::SOME;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::finding::{Finding, Pos, WHOLE_FILE};
use super::plugin_names::PluginNames;
use super::source::Sources;
use super::suggest;
use super::tree::{Entry, Node, Value};
use super::{Environment, Secrets};

/// What reading needs beside the tree, and what it found.
pub(super) struct Cx<'a> {
    /// Where relative paths start.
    dir: &'a Path,
    /// Names that a route's list of plugins may hold.
    pub(super) plugin_names: PluginNames,
    pub(super) env: &'a Environment<'a>,
    secrets: Secrets,
    findings: RefCell<Vec<Finding>>,
    warnings: RefCell<Vec<Finding>>,
    sources: RefCell<Sources>,
}

impl<'a> Cx<'a> {
    pub(super) fn new(
        dir: &'a Path,
        env: &'a Environment<'a>,
        secrets: Secrets,
        findings: Vec<Finding>,
    ) -> Self {
        Self {
            dir,
            plugin_names: PluginNames::default(),
            env,
            secrets,
            findings: RefCell::new(findings),
            warnings: RefCell::default(),
            sources: RefCell::default(),
        }
    }

    /// The bytes of a file that the text refers to, or why not, in words without the path. Every such file is
    /// read here: a change of it is a change of the configuration.
    pub(super) fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, String> {
        self.sources.borrow_mut().read(path, limit)
    }

    /// What was read so far.
    pub(super) fn sources(&self) -> Sources {
        self.sources.borrow().clone()
    }

    /// Mistakes and warnings, each sorted by place, each once (an alias is read once for each use).
    pub(super) fn into_findings(self) -> (Vec<Finding>, Vec<Finding>) {
        let sorted = |cell: RefCell<Vec<Finding>>| {
            let mut findings = cell.into_inner();
            findings.sort();
            findings.dedup();
            findings
        };
        (sorted(self.findings), sorted(self.warnings))
    }

    fn note(&self, at: Pos, path: &str, text: impl Into<String>) {
        self.findings.borrow_mut().push(Finding::new(at, path, text));
    }

    /// A path of the file, from where it starts; `./` in it is dropped.
    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.dir.join(path).components().collect()
    }

    pub(super) fn root(&'a self, node: &'a Node) -> Field<'a> {
        Field { cx: self, path: String::new(), at: node.at, node: Some(node) }
    }
}

/// One key of the file.
#[derive(Clone)]
pub(super) struct Field<'a> {
    pub(super) cx: &'a Cx<'a>,
    /// Empty for the root.
    path: String,
    /// Of the value; of the section where the key is absent.
    at: Pos,
    node: Option<&'a Node>,
}

impl<'a> Field<'a> {
    pub(super) fn is_set(&self) -> bool {
        self.node.is_some()
    }

    /// Whether a secret that this key refers to is read.
    pub(super) fn follows_secrets(&self) -> bool {
        match self.cx.secrets {
            Secrets::Real => true,
            Secrets::StandIns => false,
            Secrets::OfRecords => self.path.starts_with("records."),
        }
    }

    pub(super) fn node(&self) -> Option<&'a Node> {
        self.node
    }

    pub(super) fn error(&self, text: impl Into<String>) {
        self.cx.note(self.at, self.shown_path(), text);
    }

    /// For what is inside this field and has no key of its own.
    pub(super) fn error_at(&self, at: Pos, text: impl Into<String>) {
        self.cx.note(at, self.shown_path(), text);
    }

    pub(super) fn warn(&self, text: impl Into<String>) {
        self.cx.warnings.borrow_mut().push(Finding::new(self.at, self.shown_path(), text));
    }

    fn shown_path(&self) -> &str {
        if self.path.is_empty() { WHOLE_FILE } else { &self.path }
    }

    fn child(&self, segment: &str) -> String {
        match (self.path.is_empty(), segment.starts_with('[')) {
            (true, _) => segment.to_owned(),
            (false, true) => format!("{}{segment}", self.path),
            (false, false) => format!("{}.{segment}", self.path),
        }
    }

    fn expected(&self, node: &Node, what: &str) {
        self.error(format!("expected {what}, found {}", node.kind()));
    }

    /// The items of a list; none when the key is absent or no list.
    pub(super) fn list(&self) -> Option<Vec<Field<'a>>> {
        let node = self.node?;
        let Value::List(items) = &node.value else {
            let more = if node.is_null() { "; write [] for none" } else { "" };
            self.error(format!("expected a list, found {}{more}", node.kind()));
            return None;
        };
        let item = |(i, node): (usize, &'a std::rc::Rc<Node>)| Field {
            cx: self.cx,
            path: self.child(&format!("[{i}]")),
            at: if node.is_null() { self.at } else { node.at },
            node: Some(node),
        };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// Reads a section. An absent one, one without content and one of the wrong type read as empty, the
    /// last with a word about it; keys that `read` did not ask for are unknown.
    pub(super) fn map<T>(&self, read: impl FnOnce(&Map<'a>) -> T) -> T {
        let map = Map::open(self);
        let value = read(&map);
        map.refuse_unknown();
        value
    }

    /// The entries of a map whose keys are names: name and value. A name that comes twice
    /// is noted and given once.
    pub(super) fn named(&self) -> Vec<(&'a str, Field<'a>)> {
        let map = Map::open(self);
        // `{ KEY }` is a map too, with an entry without a value: its name may be a secret out of place.
        let shown = |entry: &Entry| {
            let hidden = entry.node.is_null() && !is_word(&entry.key);
            if hidden { "?".to_owned() } else { segment(&entry.key) }
        };
        let entries = map.entries.iter();
        entries.map(|entry| (entry.key.as_str(), map.field_of(entry, &shown(entry)))).collect()
    }

    /// The same key with the key's own place, for what concerns the name and not the value.
    pub(super) fn key_error(&self, key_of: &str, text: impl Into<String>) {
        let at = match &self.node.map(|node| &node.value) {
            Some(Value::Map(entries)) => {
                entries.iter().find(|entry| entry.key == key_of).map_or(self.at, |entry| entry.at)
            }
            _ => self.at,
        };
        self.cx.note(at, self.shown_path(), text);
    }
}

/// A section: a map whose keys are known.
pub(super) struct Map<'a> {
    field: Field<'a>,
    /// Without duplicates.
    entries: Vec<&'a Entry>,
    /// It was there but no map: what it lacks is not its fault.
    broken: bool,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Map<'a> {
    fn open(field: &Field<'a>) -> Self {
        let mut map =
            Self { field: field.clone(), entries: Vec::new(), broken: false, asked: RefCell::default() };
        match field.node.map(|node| (node, &node.value)) {
            Some((_, Value::Map(entries))) => map.collect(entries),
            Some((node, _)) if !node.is_null() || field.path.is_empty() => {
                map.broken = true;
                field.expected(node, "a map");
            }
            _ => {}
        }
        map
    }

    fn collect(&mut self, entries: &'a [Entry]) {
        let mut first: HashMap<&str, Pos> = HashMap::new();
        for entry in entries {
            if let Some(first) = first.get(entry.key.as_str()) {
                let path = if is_word(&entry.key) {
                    self.field.child(&segment(&entry.key))
                } else {
                    self.field.shown_path().to_owned()
                };
                self.field.cx.note(
                    entry.at,
                    &path,
                    format!("duplicate key; the first is on line {}", first.line),
                );
            } else {
                first.insert(&entry.key, entry.at);
                self.entries.push(entry);
            }
        }
    }

    fn field_of(&self, entry: &'a Entry, segment: &str) -> Field<'a> {
        Field {
            cx: self.field.cx,
            path: self.field.child(segment),
            at: entry.node.at,
            node: Some(&entry.node),
        }
    }

    pub(super) fn get(&self, key: &'static str) -> Field<'a> {
        self.asked.borrow_mut().push(key);
        match self.entries.iter().find(|entry| entry.key == key) {
            Some(entry) => self.field_of(entry, key),
            None => Field { cx: self.field.cx, path: self.field.child(key), at: self.field.at, node: None },
        }
    }

    /// As [`Self::get`], for a key that must be there.
    pub(super) fn require(&self, key: &'static str) -> Field<'a> {
        let field = self.get(key);
        if !field.is_set() && !self.broken {
            self.field.error(format!("missing key {key:?}"));
        }
        field
    }

    /// Says what the section lacks, unless it is none.
    pub(super) fn needs(&self, text: &str) {
        if !self.broken {
            self.field.error(text);
        }
    }

    /// The section as a field, for what concerns it as a whole.
    pub(super) fn whole(&self) -> &Field<'a> {
        &self.field
    }

    fn refuse_unknown(&self) {
        let asked = self.asked.borrow();
        for entry in self.entries.iter().filter(|entry| !asked.contains(&entry.key.as_str())) {
            let hint = suggest::hint(&entry.key, asked.iter().copied());
            let shown = if is_word(&entry.key) || !hint.is_empty() {
                format!(" {:?}", entry.key)
            } else {
                String::new()
            };
            self.field.cx.note(entry.at, self.field.shown_path(), format!("unknown key{shown}{hint}"));
        }
    }
}

/// Whether a key reads like a word of this configuration, so that showing it shows no secret: keys of
/// providers are long, or hold digits, or dashes.
fn is_word(key: &str) -> bool {
    (1..=32).contains(&key.len())
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && key.bytes().filter(u8::is_ascii_digit).count() <= 3
}

/// A name as a part of a path: bare where it cannot be misread, else quoted, escaped and cut.
fn segment(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=64).contains(&name.len()) && name.chars().all(bare) {
        return name.to_owned();
    }
    let cut: String = name.chars().take(64).collect();
    let more = if cut.len() < name.len() { "…" } else { "" };
    format!("\"{}{more}\"", cut.escape_debug())
}
