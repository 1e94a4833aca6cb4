//! The tagger that runs when an operator brings none: tells the caller which target answered, whether that
//! was the first choice, and what it took.
//!
//! It writes response headers only; the record of a request has these facts already.

mod settings;

use sluice_sdk::{AnswerFacts, Phase, Plugin, RequestFacts, Tag, Tagger, TargetFacts};

use settings::{FACTS, Fact, Names, Settings};

/// The configured tagger.
#[derive(Debug)]
struct StandardTagger {
    names: Names,
    /// Upstream and model of each target, by index. Empty where callers must not see them.
    targets: Vec<(String, String)>,
}

impl Plugin for StandardTagger {
    type Settings = Settings;

    fn configure(settings: Settings, targets: Vec<TargetFacts>) -> Result<Self, String> {
        let shown = if settings.expose_upstream { targets } else { Vec::new() };
        Ok(Self {
            names: settings.names()?,
            targets: shown.into_iter().map(|target| (target.upstream, target.model)).collect(),
        })
    }
}

impl Tagger for StandardTagger {
    fn tag(&self, request: &RequestFacts, answer: &AnswerFacts) -> Vec<Tag> {
        match answer.phase {
            Phase::Head => self.head(request, answer),
            Phase::Record => Vec::new(),
        }
    }
}

impl StandardTagger {
    fn head(&self, request: &RequestFacts, answer: &AnswerFacts) -> Vec<Tag> {
        let served = answer.served.and_then(|index| self.targets.get(index as usize));
        let (route, degraded) = if answer.degraded { ("fallback", "true") } else { ("primary", "false") };
        // Written one after the other into one list: this runs for every answer.
        let mut tags = Vec::with_capacity(FACTS.len());
        let mut add = |fact: Fact, value: String| {
            if let Some(name) = self.names.of(fact) {
                tags.push(Tag::header(name, value));
            }
        };
        add(Fact::Model, request.model.clone());
        add(Fact::Route, route.to_owned());
        add(Fact::Degraded, degraded.to_owned());
        if let Some((upstream, model)) = served {
            add(Fact::Upstream, upstream.clone());
            add(Fact::ServedModel, model.clone());
        }
        if let Some(kind) = answer.failure_kind {
            add(Fact::FailureKind, kind.as_str().to_owned());
        }
        add(Fact::Attempts, answer.attempts.len().to_string());
        add(Fact::LatencyMs, answer.latency_ms.to_string());
        if !answer.policy.is_empty() {
            add(Fact::Policy, answer.policy.clone());
        }
        tags
    }
}

sluice_sdk::plugin!(StandardTagger: Tagger);

#[cfg(test)]
mod tests;
