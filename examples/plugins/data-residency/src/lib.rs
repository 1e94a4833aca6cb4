//! Lets a request go only to targets in the regions it may go to.
//!
//! A request header says where the data must stay (`x-data-residency: eu`); the settings say which regions that is. All
//! other targets are excluded, whatever other routers say. When nothing is left the request is refused: with a 403
//! `excluded_by_policy`, or a 503 while a target is down. A value that the settings do not know excludes everything.
//!
//! Run it with `on_error: deny`: then a request is refused when the plugin cannot answer, where any other plugin
//! would be replaced by the bundled policy. The header has to be on `plugins.headers` of the configuration: a plugin
//! sees no others, and one that is not sent is treated as `without_header` says.

use std::collections::BTreeMap;

use sluice_sdk::prelude::*;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// The request header, in lower case.
    #[serde(default = "header")]
    header: String,
    /// For each value of the header the regions that it allows.
    residencies: BTreeMap<String, Vec<String>>,
    /// What a request without the header may do.
    #[serde(default)]
    without_header: WithoutHeader,
}

fn header() -> String {
    "x-data-residency".to_owned()
}

#[derive(serde::Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum WithoutHeader {
    /// Nothing: it is refused.
    #[default]
    Deny,
    /// Go anywhere.
    Anywhere,
}

struct DataResidency {
    header: String,
    without_header: WithoutHeader,
    /// For each value of the header, by index of the target: allowed.
    allowed: BTreeMap<String, Vec<bool>>,
}

impl Plugin for DataResidency {
    type Settings = Settings;

    fn configure(settings: Settings, targets: Vec<TargetFacts>) -> Result<Self, String> {
        if settings.header.is_empty() || settings.header.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(format!("settings.header: expected a name in lower case, got `{}`", settings.header));
        }
        if settings.residencies.is_empty() {
            return Err("settings.residencies: expected at least one, got none".to_owned());
        }
        let mut allowed = BTreeMap::new();
        for (residency, regions) in settings.residencies {
            let of =
                |target: &TargetFacts| target.region.as_ref().is_some_and(|region| regions.contains(region));
            let targets: Vec<bool> = targets.iter().map(of).collect();
            if !targets.contains(&true) {
                // It may be meant, while a region is being built up, so it is said and not refused.
                log::warn(&format!("settings.residencies.{residency}: no target is in {regions:?}"));
            }
            allowed.insert(residency, targets);
        }
        Ok(Self { header: settings.header, without_header: settings.without_header, allowed })
    }
}

impl Router for DataResidency {
    fn score(&self, request: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        let wanted = request.header(&self.header);
        let anywhere = wanted.is_none() && self.without_header == WithoutHeader::Anywhere;
        let allowed = wanted.and_then(|value| self.allowed.get(value));
        let stays =
            |c: &Candidate| allowed.is_some_and(|targets| targets.get(c.target as usize) == Some(&true));
        // The same score for all that are left: which of them is best is for other routers to say.
        Vote::each(candidates, |c| match anywhere || stays(c) {
            true => Vote::score(1.0),
            false => Vote::exclude().because("not in a region this request may go to"),
        })
    }
}

sluice_sdk::plugin!(DataResidency: Router);

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: &str = r#"{"residencies":{"eu":["eu-west","eu-north"],"us":["us-east"]}}"#;

    fn targets() -> Vec<TargetFacts> {
        let region = |region: &str| Some(region.to_owned());
        let regions = [region("us-east"), region("eu-north"), None, region("eu-west")];
        let target = |(index, region)| TargetFacts { region, ..testing::target(index as u32, "up", "m") };
        regions.into_iter().enumerate().map(target).collect()
    }

    /// The targets that are left.
    fn left(settings: &str, header: Option<&str>) -> Vec<u32> {
        let router: DataResidency = testing::configure(settings, targets()).unwrap();
        let headers =
            header.map(|value| ("x-data-residency".to_owned(), value.to_owned())).into_iter().collect();
        let request = RequestFacts { headers, ..testing::request() };
        let candidates: Vec<_> = (0..4).map(testing::candidate).collect();
        let votes = router.score(&request, &candidates);
        assert_eq!(votes.len(), 4);
        (0..4).zip(votes).filter(|(_, vote)| vote.score.is_some()).map(|(target, _)| target).collect()
    }

    #[test]
    fn only_the_regions_of_the_header_are_left() {
        let anywhere = SETTINGS.replace("}}", r#"},"without_header":"anywhere"}"#);
        for (settings, header, expected) in [
            (SETTINGS, Some("eu"), vec![1, 3]),
            (SETTINGS, Some("us"), vec![0]),
            (SETTINGS, Some("mars"), vec![]),
            (SETTINGS, Some(""), vec![]),
            (SETTINGS, Some("EU"), vec![]),
            (SETTINGS, None, vec![]),
            (&anywhere, None, vec![0, 1, 2, 3]),
            (&anywhere, Some("mars"), vec![]),
        ] {
            assert_eq!(left(settings, header), expected, "{settings} {header:?}");
        }
    }

    #[test]
    fn settings_that_allow_nothing_or_cannot_match_are_refused() {
        for (settings, expected) in [
            (r#"{"residencies":{}}"#, "settings.residencies: expected at least one, got none"),
            ("{}", "settings: missing field `residencies`"),
            (
                r#"{"header":"X-Region","residencies":{"eu":[]}}"#,
                "settings.header: expected a name in lower case, got `X-Region`",
            ),
        ] {
            let refused = testing::configure::<DataResidency>(settings, targets()).err();
            assert_eq!(refused.as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_residency_without_a_target_is_said() {
        testing::logged();
        let settings = r#"{"residencies":{"ap":["ap-south"]}}"#;
        assert!(testing::configure::<DataResidency>(settings, targets()).is_ok());
        let text = "settings.residencies.ap: no target is in [\"ap-south\"]".to_owned();
        assert_eq!(testing::logged(), [(log::Level::Warn, text)]);
    }
}
