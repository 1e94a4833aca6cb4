//! The tagger that runs when an operator brings none: tells the caller which target answered, whether that
//! was the first choice, and what it took.
//!
//! It writes response headers only; the record of a request has these facts already.

mod settings;

use sluice_sdk::{AnswerFacts, Phase, Plugin, RequestFacts, Tag, Tagger, TargetFacts};

use settings::{Fact, Names, Settings};

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
        let route = if answer.degraded { "fallback" } else { "primary" };
        let policy = Some(&answer.policy).filter(|policy| !policy.is_empty());
        let facts = [
            (Fact::Model, Some(request.model.clone())),
            (Fact::Route, Some(route.to_owned())),
            (Fact::Degraded, Some(answer.degraded.to_string())),
            (Fact::Upstream, served.map(|(upstream, _)| upstream.clone())),
            (Fact::ServedModel, served.map(|(_, model)| model.clone())),
            (Fact::FailureKind, answer.failure_kind.map(|kind| kind.as_str().to_owned())),
            (Fact::Attempts, Some(answer.attempts.len().to_string())),
            (Fact::LatencyMs, Some(answer.latency_ms.to_string())),
            (Fact::Policy, policy.cloned()),
        ];
        let tags =
            facts.into_iter().filter_map(|(fact, value)| Some(Tag::header(self.names.of(fact)?, value?)));
        tags.collect()
    }
}

sluice_sdk::plugin!(StandardTagger: Tagger);

#[cfg(test)]
mod tests;
