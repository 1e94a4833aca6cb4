//! What an operator can set: the header of each fact, and whether callers see which upstream served.

use std::collections::BTreeMap;

/// A fact about an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    ServedModel,
    /// Why the first choice was left.
    FailureKind,
    /// Number of attempts.
    Attempts,
    /// Milliseconds to commit.
    LatencyMs,
    /// Generation and plugins that decided.
    Policy,
}

/// The short name of every fact, in the order of `Fact`.
pub const FACTS: [&str; 9] = [
    "model",
    "route",
    "degraded",
    "upstream",
    "served-model",
    "failure-kind",
    "attempts",
    "latency-ms",
    "policy",
];

/// Longest header name the contract lets through.
const MAX_NAME: usize = 64;

/// Settings of the tagger.
#[derive(Debug, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Header for a fact, by its short name, in place of its default; null or `off`: do not write it.
    names: BTreeMap<String, Option<String>>,
    /// Callers may see which upstream and model served.
    pub expose_upstream: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { names: BTreeMap::new(), expose_upstream: true }
    }
}

impl Settings {
    /// The header of each fact.
    ///
    /// # Errors
    /// A fact that is none, a name that is no header name of the contract, or one that two facts share.
    pub fn names(self) -> Result<Names, String> {
        let mut names = FACTS.map(|short| Some(format!("x-sluice-{short}")));
        for (fact, name) in self.names {
            // The configuration writes these words with `_`, headers with `-`.
            let short = fact.replace('_', "-");
            let Some(slot) = FACTS.iter().position(|known| *known == short) else {
                let known = FACTS.join(", ");
                return Err(format!("settings.names.{fact}: no such fact, expected one of {known}"));
            };
            names[slot] = match name {
                None => None,
                Some(off) if off == "off" => None,
                Some(name) => Some(header(&short, name)?),
            };
        }
        for (slot, name) in names.iter().enumerate() {
            if let Some(name) = name
                && names[..slot].iter().flatten().any(|other| other == name)
            {
                let short = FACTS[slot];
                return Err(format!(
                    "settings.names.{short}: expected a name of its own, got `{name}` again"
                ));
            }
        }
        Ok(Names(names))
    }
}

fn header(short: &str, name: String) -> Result<String, String> {
    let fits = (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
    if fits {
        Ok(name)
    } else {
        let shown: String = name.chars().take(MAX_NAME).collect();
        Err(format!("settings.names.{short}: expected 1 to {MAX_NAME} of a-z 0-9 - _, or off, got `{shown}`"))
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
