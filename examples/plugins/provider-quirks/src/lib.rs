//! A table of what the failures of your providers mean, in the settings.
//!
//! The bundled classifier knows what providers document. What yours does in practice is a row here: the first row
//! whose conditions all hold gives the verdict. Where none holds this plugin has no opinion, and the next classifier
//! is asked, the bundled one last.

use sluice_sdk::prelude::*;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    rules: Vec<Rule>,
}

/// One row. All conditions that are given must hold, and at least one must be given.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// Name of the upstream.
    upstream: Option<String>,
    /// HTTP status of its answer.
    status: Option<u16>,
    /// `error.type` of its error object.
    error_type: Option<String>,
    /// `error.code` of its error object; numbers as text.
    error_code: Option<String>,
    /// Part of the first 4 KiB of the error body, whatever the case of its ASCII letters.
    body_contains: Option<String>,

    /// What it was: `retryable_timeout`, `quota_exhausted` and so on.
    kind: String,
    #[serde(default)]
    action: Next,
    /// With `action: retry_same`: how long to wait first. None: the host's own pause.
    retry_after_ms: Option<u32>,
    #[serde(default)]
    breaker: Breaker,
    /// Leave the target alone for so long.
    cool_down_ms: Option<u32>,
    /// Status for the caller if this ends the request, 400 to 599.
    client_status: Option<u16>,
}

#[derive(serde::Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Next {
    GiveUp,
    RetrySame,
    #[default]
    Switch,
}

#[derive(serde::Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Breaker {
    #[default]
    Count,
    Ignore,
    Open,
}

/// A row that was checked.
struct Row {
    rule: Rule,
    needle: Option<String>,
    kind: FailureKind,
}

struct ProviderQuirks {
    rows: Vec<Row>,
    upstreams: Vec<String>,
}

impl Plugin for ProviderQuirks {
    type Settings = Settings;

    fn configure(settings: Settings, targets: Vec<TargetFacts>) -> Result<Self, String> {
        let upstreams: Vec<String> = targets.into_iter().map(|target| target.upstream).collect();
        let mut rows = Vec::with_capacity(settings.rules.len());
        for (at, rule) in settings.rules.into_iter().enumerate() {
            let row = checked(rule, &upstreams)
                .map_err(|(key, wrong)| format!("settings.rules[{at}]{key}: {wrong}"))?;
            rows.push(row);
        }
        Ok(Self { rows, upstreams })
    }
}

fn checked(rule: Rule, upstreams: &[String]) -> Result<Row, (&'static str, String)> {
    let conditions = rule.upstream.is_some()
        || rule.status.is_some()
        || rule.error_type.is_some()
        || rule.error_code.is_some()
        || rule.body_contains.is_some();
    if !conditions {
        return Err((
            "",
            "expected at least one of upstream, status, error_type, error_code, body_contains".to_owned(),
        ));
    }
    if let Some(name) = rule.upstream.as_ref().filter(|name| !upstreams.contains(name)) {
        return Err((".upstream", format!("expected an upstream of a route, got `{name}`")));
    }
    let kind = FailureKind::from_name(&rule.kind).filter(|kind| *kind != FailureKind::GatewaySaturated);
    let Some(kind) = kind else {
        let all = FailureKind::ALL.map(FailureKind::as_str);
        let known =
            all.iter().filter(|name| **name != "gateway_saturated").copied().collect::<Vec<_>>().join(", ");
        return Err((".kind", format!("expected one of {known}; got `{}`", rule.kind)));
    };
    if let Some(status) = rule.client_status.filter(|status| !(400..=599).contains(status)) {
        return Err((".client_status", format!("expected 400 to 599, got {status}")));
    }
    if rule.retry_after_ms.is_some() && rule.action != Next::RetrySame {
        return Err((".retry_after_ms", "expected `action: retry_same` beside it".to_owned()));
    }
    let needle = rule.body_contains.as_ref().map(|text| text.to_ascii_lowercase());
    Ok(Row { rule, needle, kind })
}

impl Row {
    fn holds(&self, upstream: Option<&String>, failure: &FailureFacts, body: &str) -> bool {
        fn same<T: PartialEq>(wanted: Option<&T>, found: Option<&T>) -> bool {
            wanted.is_none() || wanted == found
        }
        let rule = &self.rule;
        same(rule.upstream.as_ref(), upstream)
            && same(rule.status.as_ref(), failure.status.as_ref())
            && same(rule.error_type.as_ref(), failure.error_type.as_ref())
            && same(rule.error_code.as_ref(), failure.error_code.as_ref())
            && self.needle.as_ref().is_none_or(|needle| body.contains(needle))
    }

    fn verdict(&self) -> Verdict {
        Verdict {
            kind: self.kind,
            action: match self.rule.action {
                Next::GiveUp => Action::GiveUp,
                Next::RetrySame => Action::RetrySame(self.rule.retry_after_ms),
                Next::Switch => Action::Switch,
            },
            breaker: match self.rule.breaker {
                Breaker::Count => BreakerEffect::Count,
                Breaker::Ignore => BreakerEffect::Ignore,
                Breaker::Open => BreakerEffect::Open,
            },
            cool_down_ms: self.rule.cool_down_ms,
            client_status: self.rule.client_status,
        }
    }
}

impl Classifier for ProviderQuirks {
    fn classify(&self, _: &RequestFacts, failure: &FailureFacts) -> Option<Verdict> {
        let upstream = self.upstreams.get(failure.target as usize);
        let looks_into_bodies = self.rows.iter().any(|row| row.needle.is_some());
        let body = if looks_into_bodies { failure.body.to_ascii_lowercase() } else { String::new() };
        self.rows.iter().find(|row| row.holds(upstream, failure, &body)).map(Row::verdict)
    }
}

sluice_sdk::plugin!(ProviderQuirks: Classifier);

#[cfg(test)]
mod tests;
