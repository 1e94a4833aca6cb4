//! The weighted score: `health·h + latency·(1 − l/slowest) + cost·(1 − c/dearest) + quota·q`, with shares
//! that add up to 1, times the target's configured weight relative to the largest among the candidates.
//!
//! - Latency is the median time to commit; for a stream the median time to first content, once any
//!   candidate has one.
//! - Cost is that of this call: its input tokens and its output limit at the target's prices.
//! - What is not known about a candidate is neutral: the mean of those about which it is known, so that an
//!   unmeasured target is neither shunned nor flooded. Known of none, the part is the same for all.
//! - Numbers that make no sense (negative, not finite) count as not known. A score is always 0 to 1.

use sluice_sdk::{Candidate, RequestFacts, TargetFacts, Vote};

use crate::settings::{Settings, Weights};

/// Output tokens of a call whose caller set no limit.
const USUAL_OUTPUT_TOKENS: f64 = 256.0;

/// The part of every candidate when nothing is known of any.
const NOTHING_KNOWN: f64 = 0.5;

/// What of a target matters here.
#[derive(Debug)]
struct Target {
    /// Prices per token of input and output. The unit cancels out.
    price: Option<(f64, f64)>,
    /// Weights other than 1, by route.
    weights: Vec<(String, f64)>,
}

/// A configured weighted score.
#[derive(Debug)]
pub struct Weighing {
    shares: Weights,
    explain: bool,
    targets: Vec<Target>,
    /// Some target has a weight other than 1.
    weighted: bool,
}

impl Weighing {
    /// Takes what never changes.
    ///
    /// # Errors
    /// Weights that make no score.
    pub fn new(settings: &Settings, targets: &[TargetFacts]) -> Result<Self, String> {
        let targets: Vec<Target> = targets.iter().map(Target::new).collect();
        Ok(Self {
            shares: settings.weights.shares()?,
            explain: settings.explain,
            weighted: targets.iter().any(|target| !target.weights.is_empty()),
            targets,
        })
    }

    /// One vote for each candidate, in their order.
    pub fn votes(&self, request: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        let slowness = self.slowness(request, candidates);
        let bill = Bill::of(request);
        let latency = Scale::of(candidates.iter().map(&slowness));
        let cost = Scale::of(candidates.iter().map(|c| self.cost(&bill, c)));
        let health = mean(candidates.iter().map(|c| share(Some(c.health))));
        let quota = mean(candidates.iter().map(|c| share(c.quota_left)));
        let heaviest = self.heaviest(request, candidates);
        candidates
            .iter()
            .map(|candidate| {
                let parts = Parts {
                    health: share(Some(candidate.health)).unwrap_or(health),
                    latency: latency.advantage(slowness(candidate)),
                    cost: cost.advantage(self.cost(&bill, candidate)),
                    quota: share(candidate.quota_left).unwrap_or(quota),
                };
                let relative = heaviest.map_or(1.0, |most| self.weight(request, candidate) / most);
                self.vote(&parts, relative)
            })
            .collect()
    }

    fn vote(&self, parts: &Parts, relative: f64) -> Vote {
        let Weights { health, latency, cost, quota } = self.shares;
        let sum = health * parts.health + latency * parts.latency + cost * parts.cost + quota * parts.quota;
        let vote = Vote::score((sum * relative).clamp(0.0, 1.0));
        if self.explain { vote.because(parts.describe(relative)) } else { vote }
    }

    /// Which of the measured times tells how slow a candidate is for this call.
    fn slowness(
        &self,
        request: &RequestFacts,
        candidates: &[Candidate],
    ) -> impl Fn(&Candidate) -> Option<f64> + use<> {
        let first_content =
            request.streaming && candidates.iter().any(|c| known(c.first_content_p50_ms).is_some());
        move |c| known(if first_content { c.first_content_p50_ms } else { c.latency_p50_ms })
    }

    fn cost(&self, bill: &Bill, candidate: &Candidate) -> Option<f64> {
        let (input, output) = self.target(candidate)?.price?;
        known(Some(bill.input * input + bill.output * output))
    }

    /// The largest weight among the candidates; none where weights make no difference.
    fn heaviest(&self, request: &RequestFacts, candidates: &[Candidate]) -> Option<f64> {
        if !self.weighted {
            return None;
        }
        let most = candidates.iter().map(|c| self.weight(request, c)).fold(0.0, f64::max);
        (most > 0.0).then_some(most)
    }

    fn weight(&self, request: &RequestFacts, candidate: &Candidate) -> f64 {
        let weights = self.target(candidate).map_or(&[][..], |target| &target.weights);
        weights.iter().find(|(route, _)| *route == request.model).map_or(1.0, |(_, weight)| *weight)
    }

    fn target(&self, candidate: &Candidate) -> Option<&Target> {
        self.targets.get(candidate.target as usize)
    }
}

impl Target {
    fn new(facts: &TargetFacts) -> Self {
        let weights = facts.places.iter().filter_map(|place| {
            let weight = known(Some(place.weight))?;
            (weight != 1.0).then(|| (place.route.clone(), weight))
        });
        Self { price: known(facts.price_input).zip(known(facts.price_output)), weights: weights.collect() }
    }
}

/// Tokens of a call, as far as they can be told beforehand.
struct Bill {
    input: f64,
    output: f64,
}

impl Bill {
    fn of(request: &RequestFacts) -> Self {
        Self {
            input: f64::from(request.input_tokens),
            output: request.max_output_tokens.map_or(USUAL_OUTPUT_TOKENS, f64::from),
        }
    }
}

/// The parts of one score, each 0 to 1.
struct Parts {
    health: f64,
    latency: f64,
    cost: f64,
    quota: f64,
}

impl Parts {
    /// In whole percent, which is all a reader needs and much cheaper to print than fractions.
    fn describe(&self, relative: f64) -> String {
        let percent = |part: f64| (part * 100.0) as u32;
        format!(
            "health {}%, latency {}%, cost {}%, quota {}%, weight {}%",
            percent(self.health),
            percent(self.latency),
            percent(self.cost),
            percent(self.quota),
            percent(relative)
        )
    }
}

/// Where a number of which less is better stands among those of all candidates.
struct Scale {
    most: f64,
    neutral: f64,
}

impl Scale {
    fn of(values: impl Iterator<Item = Option<f64>>) -> Self {
        let (mut most, mut sum, mut count) = (0.0_f64, 0.0, 0_u32);
        for value in values.flatten() {
            (most, sum, count) = (most.max(value), sum + value, count + 1);
        }
        let mut scale = Self { most, neutral: NOTHING_KNOWN };
        if count > 0 {
            scale.neutral = scale.advantage_of(sum / f64::from(count));
        }
        scale
    }

    fn advantage(&self, value: Option<f64>) -> f64 {
        value.map_or(self.neutral, |value| self.advantage_of(value))
    }

    fn advantage_of(&self, value: f64) -> f64 {
        if self.most > 0.0 { 1.0 - value / self.most } else { 1.0 }
    }
}

/// A number that makes sense, or nothing.
fn known(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value >= 0.0)
}

/// A share of 0 to 1, or nothing.
fn share(value: Option<f64>) -> Option<f64> {
    known(value).map(|value| value.min(1.0))
}

/// The mean of what is known.
fn mean(values: impl Iterator<Item = Option<f64>>) -> f64 {
    let (sum, count) = values.flatten().fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { NOTHING_KNOWN } else { sum / f64::from(count) }
}
