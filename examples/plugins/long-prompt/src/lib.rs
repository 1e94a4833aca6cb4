//! Sends long prompts to other targets than short ones: to the model with the large context, or to the one that reads
//! cheaply.
//!
//! A request of more than `over` estimated input tokens prefers the targets under `long`, any other those under
//! `short` (or all that are not under `long`). The order inside `long` and `short` is a preference too. Nothing is
//! excluded: when all preferred targets are away, the others still serve.

use sluice_sdk::prelude::*;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Estimated input tokens above which a prompt is long.
    over: u32,
    /// Targets for long prompts, `upstream/model`, best first.
    long: Vec<String>,
    /// Targets for short prompts, likewise; none: all others, as configured.
    #[serde(default)]
    short: Vec<String>,
}

struct LongPrompt {
    over: u32,
    /// By index of the target: its score for a long and for a short prompt.
    scores: Vec<[f64; 2]>,
}

impl Plugin for LongPrompt {
    type Settings = Settings;

    fn configure(settings: Settings, targets: Vec<TargetFacts>) -> Result<Self, String> {
        let names: Vec<String> = targets.iter().map(|t| format!("{}/{}", t.upstream, t.model)).collect();
        for (setting, list) in [("long", &settings.long), ("short", &settings.short)] {
            if let Some(unknown) = list.iter().find(|name| !names.contains(name)) {
                return Err(format!("settings.{setting}: expected targets of a route, got `{unknown}`"));
            }
        }
        if settings.long.is_empty() {
            return Err("settings.long: expected at least one target, got none".to_owned());
        }
        let others: Vec<String> =
            names.iter().filter(|name| !settings.long.contains(name)).cloned().collect();
        let short = if settings.short.is_empty() { None } else { Some(&settings.short) };
        let scores = |name: &String| {
            let for_short = match short {
                Some(list) => by_place(list, name),
                // As configured: the same for all of them.
                None => f64::from(u8::from(others.contains(name))),
            };
            [by_place(&settings.long, name), for_short]
        };
        Ok(Self { over: settings.over, scores: names.iter().map(scores).collect() })
    }
}

/// 1 for the first of the list, falling to more than 0 for the last; 0 for one that is not in it.
fn by_place(list: &[String], name: &String) -> f64 {
    let place = list.iter().position(|other| other == name);
    place.map_or(0.0, |place| 1.0 - place as f64 / list.len() as f64)
}

impl Router for LongPrompt {
    fn score(&self, request: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        let at = if request.input_tokens > self.over { 0 } else { 1 };
        Vote::each(candidates, |c| Vote::score(self.scores.get(c.target as usize).map_or(0.0, |of| of[at])))
    }
}

sluice_sdk::plugin!(LongPrompt: Router);

#[cfg(test)]
mod tests {
    use super::*;

    fn targets() -> Vec<TargetFacts> {
        ["small", "large", "other"]
            .into_iter()
            .zip(0..)
            .map(|(up, index)| testing::target(index, up, "m"))
            .collect()
    }

    fn scores(settings: &str, input_tokens: u32) -> Vec<f64> {
        let router: LongPrompt = testing::configure(settings, targets()).unwrap();
        let request = RequestFacts { input_tokens, ..testing::request() };
        let candidates: Vec<_> = (0..3).map(testing::candidate).collect();
        router.score(&request, &candidates).into_iter().map(|vote| vote.score.unwrap()).collect()
    }

    #[test]
    fn only_prompts_over_the_limit_are_long() {
        let one = r#"{"over":1000,"long":["large/m"]}"#;
        let both = r#"{"over":1000,"long":["large/m","other/m"],"short":["other/m"]}"#;
        for (settings, tokens, expected) in [
            (one, 1001, [0.0, 1.0, 0.0]),
            (one, 1000, [1.0, 0.0, 1.0]),
            (one, 0, [1.0, 0.0, 1.0]),
            (both, u32::MAX, [0.0, 1.0, 0.5]),
            (both, 1, [0.0, 0.0, 1.0]),
        ] {
            assert_eq!(scores(settings, tokens), expected, "{settings} with {tokens}");
        }
    }

    #[test]
    fn targets_that_are_not_there_are_refused() {
        for (settings, expected) in [
            (r#"{"over":1,"long":[]}"#, "settings.long: expected at least one target, got none"),
            (r#"{"over":1,"long":["large/x"]}"#, "settings.long: expected targets of a route, got `large/x`"),
            (
                r#"{"over":1,"long":["large/m"],"short":["m"]}"#,
                "settings.short: expected targets of a route, got `m`",
            ),
            (r#"{"over":-1,"long":["large/m"]}"#, "settings.over: invalid value: integer `-1`, expected u32"),
        ] {
            let refused = testing::configure::<LongPrompt>(settings, targets()).err();
            assert_eq!(refused.as_deref(), Some(expected));
        }
    }
}
