//! The sidecar of a plugin, `NAME.yaml` beside `NAME.wasm`: how that one plugin is run. Read as strictly as
//! the configuration and with the same words; what it leaves out is as `plugins` of the configuration says.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map as JsonMap, Value as Json};

use super::Secrets;
use super::checked::PLUGIN_MEMORY_MAX;
use super::field::{Cx, Field, Map, SOME};
use super::finding::{ConfigErrors, ErrorClass, Finding};
use super::tree::{self, Node, Value};

/// Largest sidecar that is read, and most JSON that its settings may come to, bytes.
pub const SIDECAR_MAX: u64 = 256 << 10;

/// What happens when a plugin fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// The bundled policy answers in its place.
    #[default]
    Bundled,
    /// The request is refused.
    Deny,
}

impl OnError {
    /// Spelling in the sidecar and on pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bundled => "bundled",
            Self::Deny => "deny",
        }
    }
}

/// How long an instance lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Instances {
    /// For many calls.
    #[default]
    Warm,
    /// For one call.
    Fresh,
}

impl Instances {
    /// Spelling in the sidecar and on pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Fresh => "fresh",
        }
    }
}

/// A sidecar. The default is what holds without one.
#[derive(Debug, Clone, PartialEq)]
pub struct Sidecar {
    /// Whether anything of the plugin runs.
    pub enabled: bool,
    /// `settings`: a JSON object.
    pub settings_json: String,
    /// Of its scores among several routers.
    pub weight: f64,
    /// What happens when it fails.
    pub on_error: OnError,
    /// SHA-256 its bytes must have, in lower-case hex.
    pub sha256: Option<String>,
    /// How long an instance lives. One that denies is always fresh.
    pub instances: Instances,
    /// Where it has limits of its own.
    pub limits: SidecarLimits,
}

/// `limits` of a sidecar; none: as for every plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SidecarLimits {
    /// Running time of one call.
    pub deadline: Option<Duration>,
    /// Linear memory of one instance, bytes; at most [`PLUGIN_MEMORY_MAX`].
    pub memory: Option<u64>,
    /// Calls at a time.
    pub concurrency: Option<u32>,
    /// Largest file, bytes.
    pub file: Option<u64>,
    /// Calls after which an instance is retired.
    pub calls: Option<u32>,
    /// Age at which an instance is retired.
    pub age: Option<Duration>,
}

impl Default for Sidecar {
    fn default() -> Self {
        Self {
            enabled: true,
            settings_json: "{}".to_owned(),
            weight: 1.0,
            on_error: OnError::default(),
            sha256: None,
            instances: Instances::default(),
            limits: SidecarLimits::default(),
        }
    }
}

/// A sidecar that is none. What it says about failures counts all the same where it could be read: a slip
/// elsewhere in the file must not turn a plugin that denies into one that is passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSidecar {
    /// Every mistake.
    pub errors: ConfigErrors,
    /// `on_error`; where it is there and cannot be understood, the stricter of the two.
    pub on_error: OnError,
}

impl BadSidecar {
    /// One that could not be read; `text` says why in a line.
    pub fn unreadable(file: &Path, text: impl Into<String>) -> Self {
        Self::whole(file, ErrorClass::Read, Finding::of_file(text))
    }

    fn whole(file: &Path, class: ErrorClass, finding: Finding) -> Self {
        Self { errors: ConfigErrors::one(file, class, finding), on_error: OnError::default() }
    }
}

/// Checks `bytes` as the content of the sidecar `file`, which names it in messages.
///
/// # Errors
/// Every mistake in it. A file without anything in it is one: it is what a file looks like that is being written.
pub fn sidecar(bytes: &[u8], file: &Path) -> Result<Sidecar, BadSidecar> {
    if bytes.len() as u64 > SIDECAR_MAX {
        return Err(BadSidecar::unreadable(file, format!("is larger than {SIDECAR_MAX} bytes")));
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(BadSidecar::unreadable(file, "is not UTF-8"));
    };
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Err(BadSidecar::unreadable(file, "is empty; write {} for a sidecar that changes nothing"));
    }
    let tree = tree::parse(text).map_err(|finding| BadSidecar::whole(file, ErrorClass::Syntax, finding))?;
    let no_environment = |_: &str| None;
    let cx = Cx::new(Path::new(""), &no_environment, Secrets::Real, tree.findings);
    let sidecar = cx.root(&tree.root).map(read);
    let (findings, _) = cx.into_findings();
    if findings.is_empty() {
        return Ok(sidecar);
    }
    Err(BadSidecar {
        errors: ConfigErrors::new(file, ErrorClass::Invalid, findings),
        on_error: sidecar.on_error,
    })
}

fn read(m: &Map<'_>) -> Sidecar {
    let on_error = m.get("on_error");
    let words = [("bundled", OnError::Bundled), ("deny", OnError::Deny)];
    // Whoever wrote anything there may have meant the stricter word.
    let unread = if on_error.is_set() { OnError::Deny } else { OnError::Bundled };
    let on_error = on_error.choice(&words).unwrap_or(unread);
    let instances = m.get("instances");
    let own = instances.choice(&[("warm", Instances::Warm), ("fresh", Instances::Fresh)]);
    if (on_error, own) == (OnError::Deny, Some(Instances::Warm)) {
        instances
            .error("a plugin with \"on_error: deny\" has a fresh instance for each call; leave this out");
    }
    let fresh = if on_error == OnError::Deny { Instances::Fresh } else { Instances::Warm };
    Sidecar {
        enabled: m.get("enabled").flag().unwrap_or(true),
        settings_json: settings(&m.get("settings")),
        weight: m.get("weight").decimal(0.0..=1_000_000.0).unwrap_or(1.0),
        on_error,
        sha256: m.get("sha256").digest(),
        instances: own.unwrap_or(fresh),
        limits: m.get("limits").map(|m| SidecarLimits {
            deadline: m.get("deadline").duration(SOME),
            memory: m.get("memory").plugin_memory(),
            concurrency: m.get("concurrency").plugin_concurrency(),
            file: m.get("file").plugin_file(),
            calls: m.get("calls").count(1..=1_000_000_000),
            age: m.get("age").duration(SOME),
        }),
    }
}

impl Field<'_> {
    pub(super) fn plugin_memory(&self) -> Option<u64> {
        self.size(64 << 10..=PLUGIN_MEMORY_MAX)
    }

    pub(super) fn plugin_concurrency(&self) -> Option<u32> {
        self.count(1..=10_000)
    }

    pub(super) fn plugin_file(&self) -> Option<u64> {
        self.size(1 << 10..=1 << 30)
    }

    /// SHA-256 in hex. Of digits alone it need not be in quotes: it is told by its length.
    fn digest(&self) -> Option<String> {
        let node = self.node()?;
        let text = self.maybe_text().unwrap_or_default();
        let digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !digest {
            let more = if node.kind() == "text" { String::new() } else { format!(", found {}", node.kind()) };
            self.error(format!("expected a SHA-256 as 64 hexadecimal digits{more}"));
        }
        digest.then(|| text.to_ascii_lowercase())
    }
}

/// `settings` as the JSON text that `configure` is given.
fn settings(field: &Field<'_>) -> String {
    let nothing = "{}".to_owned();
    let Some(node) = field.node().filter(|node| !node.is_null()) else { return nothing };
    if !matches!(node.value, Value::Map(_)) {
        field.error(format!("expected a map, found {}", node.kind()));
        return nothing;
    }
    let mut left = usize::try_from(SIDECAR_MAX).unwrap_or(usize::MAX);
    match json(field, node, &mut left) {
        Some(json) => json.to_string(),
        None => {
            if left == 0 {
                field.error(format!("comes to more than {SIDECAR_MAX} bytes, aliases followed"));
            }
            nothing
        }
    }
}

/// None: something was noted, or `left`, the bytes that there is room for, is down to nothing.
fn json(field: &Field<'_>, node: &Node, left: &mut usize) -> Option<Json> {
    *left = left.saturating_sub(4);
    match &node.value {
        Value::Quoted(text) => take(left, text.len()).map(|()| Json::String(text.clone())),
        Value::Plain(text) => {
            take(left, text.len())?;
            scalar(node, text).or_else(|| {
                field.error_at(node.at, "this is a number or a word that JSON cannot hold; write it as JSON would, or in quotes for text");
                None
            })
        }
        Value::List(items) => {
            // Each item is looked at, so that one run finds everything.
            let items: Vec<_> = items.iter().map(|item| json(field, item, left)).collect();
            items.into_iter().collect::<Option<Vec<_>>>().map(Json::Array)
        }
        Value::Map(entries) => {
            let mut map = JsonMap::new();
            let mut whole = true;
            for entry in entries {
                let value = take(left, entry.key.len()).and_then(|()| json(field, &entry.node, left));
                whole &= value.is_some();
                if map.insert(entry.key.clone(), value.unwrap_or_default()).is_some() {
                    field.error_at(entry.at, "duplicate key");
                    whole = false;
                }
            }
            whole.then_some(Json::Object(map))
        }
    }
}

fn take(left: &mut usize, bytes: usize) -> Option<()> {
    *left = left.saturating_sub(bytes);
    (*left > 0).then_some(())
}

/// A scalar without quotes, as YAML and JSON agree about it. None: they do not, and to guess would change
/// what the operator meant.
fn scalar(node: &Node, text: &str) -> Option<Json> {
    if node.is_null() {
        return Some(Json::Null);
    }
    if let Ok(value @ (Json::Bool(_) | Json::Number(_))) = serde_json::from_str::<Json>(text) {
        return Some(value);
    }
    let bare = text.trim_start_matches(['-', '+']);
    let number = bare.starts_with(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok()
        || bare.strip_prefix('.').is_some_and(|rest| {
            rest.starts_with(|c: char| c.is_ascii_digit())
                || ["inf", "nan"].contains(&rest.to_ascii_lowercase().as_str())
        })
        || ["0x", "0o"].iter().any(|prefix| {
            bare.strip_prefix(prefix)
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_hexdigit()))
        });
    let word = matches!(text, "True" | "TRUE" | "False" | "FALSE");
    (!number && !word).then(|| Json::String(text.to_owned()))
}
