//! Writes what a request costs.
//!
//! On the head of the answer: an estimate, from the input tokens the gateway estimated and the output limit of the
//! call (or `assumed_output`), unless the answer's own numbers are known already. In the record, when the request has
//! ended: the price of the tokens the upstream reported, with a second field that says whether they are its own
//! numbers. Requests that no target served, and targets without prices, get neither.
//!
//! Where taggers of your own run, the bundled one does not: put `standard-tagger.wasm` beside this one to keep the
//! `x-sluice-*` headers of the bundled tagger.

use sluice_sdk::prelude::*;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Response header for the estimate; none: no header.
    header: Option<String>,
    /// Record field for the price.
    record: String,
    /// Written behind the number.
    currency: String,
    /// Output tokens of a call that sets no limit of its own.
    assumed_output: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            header: Some("x-estimated-cost".to_owned()),
            record: "cost".to_owned(),
            currency: "USD".to_owned(),
            assumed_output: 256,
        }
    }
}

struct CostTagger {
    settings: Settings,
    targets: Vec<TargetFacts>,
}

impl Plugin for CostTagger {
    type Settings = Settings;

    fn configure(settings: Settings, targets: Vec<TargetFacts>) -> Result<Self, String> {
        if settings.record.is_empty() {
            return Err("settings.record: expected the name of a record field, got none".to_owned());
        }
        Ok(Self { settings, targets })
    }
}

impl CostTagger {
    /// Six places: a hundredth of a cent is a hundred short calls to a small model.
    fn written(&self, price: f64) -> String {
        format!("{price:.6} {}", self.settings.currency).trim_end().to_owned()
    }

    fn tags(&self, request: &RequestFacts, answer: &AnswerFacts) -> Option<Vec<Tag>> {
        let target = self.targets.get(answer.served? as usize)?;
        let settings = &self.settings;
        if answer.phase == Phase::Record {
            let usage = answer.usage?;
            let price = self.written(target.price(usage.input, usage.output)?);
            let source = if usage.estimated { "estimated" } else { "upstream" };
            return Some(vec![
                Tag::record(settings.record.as_str(), price),
                Tag::record(format!("{}_source", settings.record), source),
            ]);
        }
        let limit =
            answer.max_tokens_lowered.or(request.max_output_tokens).unwrap_or(settings.assumed_output);
        let tokens =
            answer.usage.map_or((request.input_tokens.into(), limit.into()), |u| (u.input, u.output));
        let price = target.price(tokens.0, tokens.1)?;
        Some(vec![Tag::header(settings.header.as_deref()?, self.written(price))])
    }
}

impl Tagger for CostTagger {
    const RECORD: bool = true;

    fn tag(&self, request: &RequestFacts, answer: &AnswerFacts) -> Vec<Tag> {
        self.tags(request, answer).unwrap_or_default()
    }
}

sluice_sdk::plugin!(CostTagger: Tagger);

#[cfg(test)]
mod tests {
    use super::*;

    fn targets() -> Vec<TargetFacts> {
        let priced = TargetFacts {
            price_input: Some(2.5),
            price_output: Some(10.0),
            ..testing::target(0, "cloud", "m")
        };
        vec![priced, testing::target(1, "local", "m")]
    }

    fn tags(settings: &str, request: &RequestFacts, answer: &AnswerFacts) -> Vec<Tag> {
        testing::configure::<CostTagger>(settings, targets()).unwrap().tag(request, answer)
    }

    #[test]
    fn the_head_has_an_estimate_from_limits_until_the_numbers_are_known() {
        let unlimited = RequestFacts { input_tokens: 1000, ..testing::request() };
        let limited = RequestFacts { max_output_tokens: Some(100), ..unlimited.clone() };
        let lowered = AnswerFacts { max_tokens_lowered: Some(10), ..testing::answer() };
        let known = AnswerFacts {
            usage: Some(Usage { input: 2000, output: 1, estimated: false }),
            ..testing::answer()
        };
        for (request, answer, expected) in [
            (&unlimited, &testing::answer(), "0.005060 USD"),
            (&limited, &testing::answer(), "0.003500 USD"),
            (&limited, &lowered, "0.002600 USD"),
            (&limited, &known, "0.005010 USD"),
        ] {
            assert_eq!(tags("{}", request, answer), [Tag::header("x-estimated-cost", expected)]);
        }
    }

    #[test]
    fn the_record_has_the_price_of_what_was_used() {
        let ended = |usage| AnswerFacts { phase: Phase::Record, usage, ..testing::answer() };
        let usage = |estimated| Some(Usage { input: 1_000_000, output: 2, estimated });
        for (estimated, source) in [(false, "upstream"), (true, "estimated")] {
            assert_eq!(
                tags(r#"{"record":"price","currency":""}"#, &testing::request(), &ended(usage(estimated))),
                [Tag::record("price", "2.500020"), Tag::record("price_source", source)]
            );
        }
        assert_eq!(tags("{}", &testing::request(), &ended(None)), [], "nothing is known");
    }

    #[test]
    fn nothing_is_written_without_a_price_a_target_or_a_name() {
        let unpriced = AnswerFacts { served: Some(1), ..testing::answer() };
        let refused = AnswerFacts { served: None, status: 503, ..testing::answer() };
        for (settings, answer) in
            [("{}", unpriced), ("{}", refused), (r#"{"header":null}"#, testing::answer())]
        {
            assert_eq!(tags(settings, &testing::request(), &answer), [], "{settings} {answer:?}");
        }
    }
}
