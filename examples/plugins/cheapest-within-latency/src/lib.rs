//! Takes the cheapest target that is fast enough.
//!
//! Fast enough is a target whose slow calls (95th percentile; of the time to first content for a stream, to the whole
//! answer otherwise) stay within `within_ms`. One that was measured too little to know counts as fast enough: it
//! would never be measured otherwise. Among those, the price of this very call decides. A target without prices comes
//! after all that have some. The others follow, fastest first, so that there is always somewhere to go.

use sluice_sdk::prelude::*;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Longest time of a slow call, milliseconds.
    within_ms: f64,
    /// Attempts in the last minute before a slow target is believed to be slow.
    min_samples: u32,
    /// Output tokens of a call that sets no limit of its own.
    assumed_output: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { within_ms: 2000.0, min_samples: 5, assumed_output: 256 }
    }
}

struct CheapestWithinLatency {
    settings: Settings,
    targets: Vec<TargetFacts>,
}

impl Plugin for CheapestWithinLatency {
    type Settings = Settings;

    fn configure(settings: Settings, targets: Vec<TargetFacts>) -> Result<Self, String> {
        if settings.within_ms.is_nan() || settings.within_ms <= 0.0 {
            return Err(format!("settings.within_ms: expected more than 0, got {}", settings.within_ms));
        }
        Ok(Self { settings, targets })
    }
}

/// Where a candidate stands, best first.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Standing {
    Priced(f64),
    Unpriced,
    TooSlow(f64),
}

impl CheapestWithinLatency {
    fn standing(&self, request: &RequestFacts, candidate: &Candidate) -> Standing {
        if let Some(slow) = candidate.slow_ms(request.streaming)
            && candidate.samples >= self.settings.min_samples
            && slow > self.settings.within_ms
        {
            return Standing::TooSlow(slow);
        }
        let output = request.max_output_tokens.unwrap_or(self.settings.assumed_output);
        let target = self.targets.get(candidate.target as usize);
        target
            .and_then(|target| target.price(request.input_tokens.into(), output.into()))
            .map_or(Standing::Unpriced, Standing::Priced)
    }
}

impl Router for CheapestWithinLatency {
    fn score(&self, request: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        let standings: Vec<Standing> = candidates.iter().map(|c| self.standing(request, c)).collect();
        // The share of the others that are not better: equals get the same score, and keep the configured order.
        let score = |own: &Standing| {
            let better = standings.iter().filter(|other| *other < own).count();
            1.0 - better as f64 / standings.len().max(1) as f64
        };
        let vote = |own: &Standing| {
            Vote::score(score(own)).because(match own {
                Standing::Priced(price) => format!("costs {price:.6}"),
                Standing::Unpriced => "no price".to_owned(),
                Standing::TooSlow(ms) => format!("slow calls take {ms:.0} ms"),
            })
        };
        standings.iter().map(vote).collect()
    }
}

sluice_sdk::plugin!(CheapestWithinLatency: Router);

#[cfg(test)]
mod tests {
    use super::*;

    fn priced(index: u32, price: Option<f64>) -> TargetFacts {
        TargetFacts { price_input: price, price_output: price, ..testing::target(index, "up", "m") }
    }

    fn measured(target: u32, samples: u32, slow_ms: f64) -> Candidate {
        Candidate { samples, latency_p95_ms: Some(slow_ms), ..testing::candidate(target) }
    }

    fn order(settings: &str, targets: Vec<TargetFacts>, candidates: &[Candidate]) -> Vec<u32> {
        let router: CheapestWithinLatency = testing::configure(settings, targets).unwrap();
        let votes = router.score(&testing::request(), candidates);
        let mut order: Vec<_> =
            candidates.iter().zip(votes).map(|(c, v)| (v.score.unwrap(), c.target)).collect();
        order.sort_by(|one, next| next.0.total_cmp(&one.0));
        order.into_iter().map(|(_, target)| target).collect()
    }

    #[test]
    fn the_cheapest_of_those_that_are_fast_enough_comes_first() {
        let targets =
            || vec![priced(0, Some(9.0)), priced(1, Some(1.0)), priced(2, Some(3.0)), priced(3, None)];
        let fast = |target| measured(target, 20, 800.0);
        for (what, candidates, expected) in [
            ("all fast", [fast(0), fast(1), fast(2), fast(3)], [1, 2, 0, 3]),
            ("the cheapest is slow", [fast(0), measured(1, 20, 2500.0), fast(2), fast(3)], [2, 0, 3, 1]),
            ("too few samples to know", [fast(0), measured(1, 4, 2500.0), fast(2), fast(3)], [1, 2, 0, 3]),
            (
                "all slow, the fastest first",
                [
                    measured(0, 20, 4000.0),
                    measured(1, 20, 9000.0),
                    measured(2, 20, 2500.0),
                    measured(3, 20, 3000.0),
                ],
                [2, 3, 0, 1],
            ),
        ] {
            assert_eq!(order("{}", targets(), &candidates), expected, "{what}");
        }
    }

    #[test]
    fn equals_keep_the_configured_order_and_the_limit_is_a_setting() {
        let same = vec![priced(0, Some(1.0)), priced(1, Some(1.0))];
        assert_eq!(order("{}", same.clone(), &[testing::candidate(1), testing::candidate(0)]), [1, 0]);
        let candidates = [measured(0, 9, 500.0), measured(1, 9, 300.0)];
        assert_eq!(order(r#"{"within_ms":400}"#, same, &candidates), [1, 0]);
    }

    #[test]
    fn a_limit_that_nothing_meets_is_refused() {
        let refused = testing::configure::<CheapestWithinLatency>(r#"{"within_ms":0}"#, Vec::new()).err();
        assert_eq!(refused.as_deref(), Some("settings.within_ms: expected more than 0, got 0"));
    }
}
