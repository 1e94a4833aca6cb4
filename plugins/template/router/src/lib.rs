//! Prefers the cheapest target for short prompts; long ones keep the configured order.

use sluice_sdk::prelude::*;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Prompts of fewer estimated input tokens are short.
    short: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { short: 500 }
    }
}

struct Policy {
    short: u32,
    targets: Vec<TargetFacts>,
}

impl Plugin for Policy {
    type Settings = Settings;

    fn configure(settings: Settings, targets: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self { short: settings.short, targets })
    }
}

impl Router for Policy {
    fn score(&self, request: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        if request.input_tokens >= self.short {
            // The same score for all keeps the configured order.
            return Vote::each(candidates, |_| Vote::score(0.5));
        }
        let price = |c: &Candidate| self.targets.get(c.target as usize)?.price(1000, 1000);
        let dearest = candidates.iter().filter_map(price).fold(0.0, f64::max);
        Vote::each(candidates, |c| match price(c) {
            Some(price) if dearest > 0.0 => Vote::score(1.0 - price / dearest),
            Some(_) => Vote::score(1.0),
            None => Vote::score(0.0).because("no price"),
        })
    }
}

sluice_sdk::plugin!(Policy: Router);

#[cfg(test)]
mod tests {
    use super::*;

    fn order(input_tokens: u32) -> Vec<u32> {
        let priced = |index, price| TargetFacts {
            price_input: Some(price),
            price_output: Some(price),
            ..testing::target(index, "up", "m")
        };
        let policy: Policy = testing::configure("{}", vec![priced(0, 9.0), priced(1, 2.0)]).unwrap();
        let request = RequestFacts { input_tokens, ..testing::request() };
        testing::order(&policy, &request, &[testing::candidate(0), testing::candidate(1)])
    }

    #[test]
    fn only_short_prompts_go_to_the_cheapest() {
        assert_eq!(order(499), [1, 0]);
        assert_eq!(order(500), [0, 1]);
    }
}
