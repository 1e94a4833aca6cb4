//! What the admin pages say, as far as the view shows it. Members that are not there are none: the view is of
//! use with a gateway of another release, too.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::cli::admin::{self, AdminArgs, PageError};

/// One look at a gateway.
#[derive(Debug, Clone, Default)]
pub(super) struct Look {
    pub(super) upstreams: Upstreams,
    pub(super) plugins: Plugins,
    pub(super) config: Config,
    /// Newest first.
    pub(super) requests: Vec<Request>,
    /// Requests since the gateway's start, by outcome.
    pub(super) outcomes: BTreeMap<String, f64>,
}

/// Requests per second between two looks, by outcome; those that there were.
pub(super) type Rates = BTreeMap<String, f64>;

/// `/debug/upstreams`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Upstreams {
    pub(super) now: String,
    pub(super) version: String,
    pub(super) readiness: Readiness,
    pub(super) targets: Vec<Target>,
    pub(super) upstreams: Vec<Upstream>,
    pub(super) gates: Vec<Gate>,
    pub(super) records: Option<Records>,
}

/// The store of records.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Records {
    pub(super) away_since: Option<String>,
    pub(super) spooled: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Readiness {
    pub(super) reason: Option<String>,
    pub(super) routes: BTreeMap<String, u64>,
    pub(super) blocked: Vec<Blocked>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Blocked {
    pub(super) target: String,
    pub(super) why: String,
    pub(super) until_ms: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Target {
    pub(super) target: String,
    pub(super) routes: Vec<String>,
    pub(super) able: bool,
    pub(super) breaker: Breaker,
    pub(super) cooldown_ms: u64,
    pub(super) cooldown_kind: Option<String>,
    pub(super) in_flight: u64,
    pub(super) success_rate_1m: Option<f64>,
    pub(super) latency_ms: Percentiles,
    pub(super) first_content_ms: Percentiles,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Breaker {
    pub(super) state: String,
    pub(super) failures: u64,
    pub(super) until_ms: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Percentiles {
    pub(super) p50: Option<f64>,
    pub(super) p95: Option<f64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Upstream {
    pub(super) upstream: String,
    pub(super) credentials: Vec<Credential>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Credential {
    pub(super) state: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Gate {
    pub(super) gate: String,
    pub(super) in_flight: u64,
    pub(super) limit: u64,
    pub(super) queue: u64,
}

/// `/debug/plugins`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Plugins {
    pub(super) generation: u64,
    pub(super) plugins: Vec<Plugin>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Plugin {
    pub(super) name: String,
    pub(super) kinds: Vec<String>,
    pub(super) state: String,
    pub(super) version: Option<String>,
    pub(super) digest: Option<String>,
    pub(super) calls: u64,
    pub(super) p50_us: Option<u64>,
    pub(super) p99_us: Option<u64>,
    pub(super) failures: BTreeMap<String, u64>,
    pub(super) rejection: Option<Rejection>,
    /// Bundled, and no route asks it.
    pub(super) replaced: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Rejection {
    pub(super) reason: String,
    pub(super) message: String,
}

/// `/debug/config`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Config {
    pub(super) last_rejection: Option<RejectedConfig>,
}

/// A file that was refused.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RejectedConfig {
    pub(super) message: String,
    pub(super) mistakes: Vec<Mistake>,
    pub(super) standing: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Mistake {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) text: String,
}

/// One of `/debug/decisions`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Request {
    pub(super) time: String,
    pub(super) model: Option<String>,
    pub(super) status_code: u16,
    pub(super) outcome: String,
    pub(super) latency_ms: Option<f64>,
    pub(super) duration_ms: f64,
    pub(super) attempts: Vec<Attempt>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attempt {
    pub(super) target: String,
    pub(super) kind: Option<String>,
    pub(super) ms: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Decisions {
    decisions: Vec<Request>,
}

/// Looks once.
pub(super) async fn look(of: &AdminArgs) -> Result<Look, PageError> {
    let upstreams = json(of, "/debug/upstreams").await?;
    let plugins = json(of, "/debug/plugins").await?;
    let config = json(of, "/debug/config").await?;
    let decisions: Decisions = json(of, "/debug/decisions?limit=60").await?;
    let metrics = admin::page(of, "/metrics").await?;
    let outcomes = outcomes(&String::from_utf8_lossy(&metrics));
    Ok(Look { upstreams, plugins, config, requests: decisions.decisions, outcomes })
}

async fn json<T: serde::de::DeserializeOwned>(of: &AdminArgs, path: &'static str) -> Result<T, PageError> {
    let page = admin::page(of, path).await?;
    serde_json::from_slice(&page)
        .map_err(|error| PageError::Broken { address: of.admin.clone(), what: format!("{path}: {error}") })
}

/// `sluice_requests_total` of a metrics page, added up by outcome.
fn outcomes(metrics: &str) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for line in metrics.lines() {
        let Some(rest) = line.strip_prefix("sluice_requests_total{") else { continue };
        let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
        if let (Some(outcome), Ok(count)) = (label(labels, "outcome"), value.trim().parse::<f64>()) {
            *found.entry(outcome.to_owned()).or_insert(0.0) += count;
        }
    }
    found
}

/// The value of a label. Values are quoted, and a quote or a backslash in one has a backslash before it.
fn label<'a>(labels: &'a str, wanted: &str) -> Option<&'a str> {
    let mut rest = labels;
    loop {
        let (name, quoted) = rest.split_once("=\"")?;
        let mut escaped = false;
        let end = quoted.find(|c: char| {
            let closes = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            closes
        })?;
        let (value, after) = quoted.split_at_checked(end)?;
        if name == wanted {
            return Some(value);
        }
        rest = after.strip_prefix('"')?.trim_start_matches(',');
    }
}

impl Look {
    /// Requests per second since an earlier look, which was so long ago. None when it was of another process, or of
    /// this very moment.
    pub(super) fn since(&self, before: &Self, time: Duration) -> Option<Rates> {
        let gone = before.outcomes.iter().any(|(name, n)| self.outcomes.get(name).is_none_or(|now| now < n));
        if gone || time.is_zero() {
            return None;
        }
        let new = |(name, n): (&String, &f64)| {
            let more = n - before.outcomes.get(name).copied().unwrap_or(0.0);
            (more > 0.0).then(|| (name.clone(), more / time.as_secs_f64()))
        };
        Some(self.outcomes.iter().filter_map(new).collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop where it fails")]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_added_up_whatever_a_route_is_called() {
        let page = r#"# HELP sluice_requests_total x
sluice_requests_total{fallback="false",model="chat",outcome="success",status="200"} 3
sluice_requests_total{fallback="true",model="a\\\",outcome=\"exhausted",outcome="success",status="200"} 4
sluice_requests_total{fallback="false",model="} 9",outcome="denied",status="401"} 1
sluice_requests_total_not{outcome="success"} 100
sluice_requests_total{nothing 5
"#;
        let want = BTreeMap::from([("success".to_owned(), 7.0), ("denied".to_owned(), 1.0)]);
        assert_eq!(outcomes(page), want);
    }

    #[test]
    fn rates_are_differences_over_time_and_a_restart_gives_none() {
        let of = |success: f64, denied: f64| Look {
            outcomes: BTreeMap::from([("success".to_owned(), success), ("denied".to_owned(), denied)]),
            ..Look::default()
        };
        let two = Duration::from_secs(2);
        assert_eq!(
            of(9.0, 1.0).since(&of(4.0, 1.0), two),
            Some(BTreeMap::from([("success".to_owned(), 2.5)]))
        );
        assert_eq!(of(9.0, 1.0).since(&Look::default(), two).unwrap().len(), 2);
        assert_eq!(of(1.0, 1.0).since(&of(4.0, 1.0), two), None);
        assert_eq!(Look::default().since(&of(4.0, 1.0), two), None);
        assert_eq!(of(9.0, 1.0).since(&of(4.0, 1.0), Duration::ZERO), None);
    }
}
