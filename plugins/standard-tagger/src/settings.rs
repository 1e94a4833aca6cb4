//! What an operator can set: the header of each fact, and whether callers see which upstream served.

use std::collections::BTreeMap;

/// A fact about an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fact {
    /// The name the caller asked for.
    Model,
    /// `primary` or `fallback`.
    Route,
    /// `true` or `false`.
    Degraded,
    /// Upstream that served.
    Upstream,
    /// Its model.
    #[serde(alias = "served_model")]
    ServedModel,
    /// Why the first choice was left.
    #[serde(alias = "failure_kind")]
    FailureKind,
    /// Number of attempts.
    Attempts,
    /// Milliseconds to commit.
    #[serde(alias = "latency_ms")]
    LatencyMs,
    /// Generation and plugins that decided.
    Policy,
}

/// Every fact with its short name, in the order of `Fact`.
const FACTS: [(Fact, &str); 9] = [
    (Fact::Model, "model"),
    (Fact::Route, "route"),
    (Fact::Degraded, "degraded"),
    (Fact::Upstream, "upstream"),
    (Fact::ServedModel, "served-model"),
    (Fact::FailureKind, "failure-kind"),
    (Fact::Attempts, "attempts"),
    (Fact::LatencyMs, "latency-ms"),
    (Fact::Policy, "policy"),
];

/// Longest header name the contract lets through.
const MAX_NAME: usize = 64;

/// Settings of the tagger.
#[derive(Debug, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Header for a fact in place of its default; null or `off`: do not write it.
    names: BTreeMap<Fact, Option<String>>,
    /// Callers may see which upstream and model served.
    pub expose_upstream: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            names: BTreeMap::new(),
            expose_upstream: true,
        }
    }
}

impl Settings {
    /// The header of each fact.
    ///
    /// # Errors
    /// A name that is no header name of the contract, or one that two facts share.
    pub fn names(&self) -> Result<Names, String> {
        let mut names: [Option<String>; FACTS.len()] = Default::default();
        for (slot, (fact, short)) in FACTS.into_iter().enumerate() {
            let name = match self.names.get(&fact) {
                None => Some(format!("x-sluice-{short}")),
                Some(None) => None,
                Some(Some(name)) if name == "off" => None,
                Some(Some(name)) => Some(header(short, name)?),
            };
            if name.is_some() && names.contains(&name) {
                let name = name.unwrap_or_default();
                return Err(format!(
                    "settings.names.{short}: expected a name of its own, got `{name}` again"
                ));
            }
            names[slot] = name;
        }
        Ok(Names(names))
    }
}

fn header(short: &str, name: &str) -> Result<String, String> {
    let fits = (1..=MAX_NAME).contains(&name.len())
        && name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
    if fits {
        Ok(name.to_owned())
    } else {
        let shown: String = name.chars().take(MAX_NAME).collect();
        Err(format!(
            "settings.names.{short}: expected 1 to {MAX_NAME} of a-z 0-9 - _, or off, got `{shown}`"
        ))
    }
}

/// The header of each fact; none: not written.
#[derive(Debug)]
pub struct Names([Option<String>; FACTS.len()]);

impl Names {
    /// The header of a fact.
    pub fn of(&self, fact: Fact) -> Option<&str> {
        self.0[fact as usize].as_deref()
    }
}
