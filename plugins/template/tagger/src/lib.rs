//! Says on the answer in which region it was made.

use sluice_sdk::prelude::*;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Name of the response header.
    header: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { header: "x-served-region".to_owned() }
    }
}

struct Policy {
    header: String,
    targets: Vec<TargetFacts>,
}

impl Plugin for Policy {
    type Settings = Settings;

    fn configure(settings: Settings, targets: Vec<TargetFacts>) -> Result<Self, String> {
        Ok(Self { header: settings.header, targets })
    }
}

impl Tagger for Policy {
    // Also set `RECORD` to be called once more when the request has ended.
    fn tag(&self, _: &RequestFacts, answer: &AnswerFacts) -> Vec<Tag> {
        let target = answer.served.and_then(|index| self.targets.get(index as usize));
        let region = target.and_then(|target| target.region.as_deref());
        region.map(|region| Tag::header(self.header.as_str(), region)).into_iter().collect()
    }
}

sluice_sdk::plugin!(Policy: Tagger);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_of_the_target_that_served_is_written() {
        let far = TargetFacts { region: Some("far".to_owned()), ..testing::target(0, "up", "m") };
        let policy: Policy = testing::configure("{}", vec![far]).unwrap();
        let tags = policy.tag(&testing::request(), &testing::answer());
        assert_eq!(tags, [Tag::header("x-served-region", "far")]);
        let refused = AnswerFacts { served: None, ..testing::answer() };
        assert_eq!(policy.tag(&testing::request(), &refused), []);
    }
}
