#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

fn plugin(name: &str, kind: PluginKind) -> PluginRef {
    PluginRef { name: name.into(), kind, digest: "0123456789abcdef".into() }
}

#[test]
fn the_policy_line_names_each_plugin_that_was_asked_once_and_by_kind() {
    use PluginKind::{Classifier, Router, Tagger};
    assert_eq!(policy_line(3, [].into_iter()), "g3");
    let asked = [
        plugin("b", Classifier),
        plugin("r1", Router),
        plugin("b", Classifier),
        plugin("r2", Router),
        plugin("b", Tagger),
    ];
    assert_eq!(
        policy_line(7, asked.iter().map(Named::from)),
        "g7 router=r1@01234567 router=r2@01234567 classifier=b@01234567 tagger=b@01234567"
    );
}

#[test]
fn scores_are_added_by_weight_and_an_exclusion_is_final() {
    let votes = |scores: &[Option<f64>]| {
        scores.iter().map(|score| Vote { score: *score, reason: None }).collect::<Vec<_>>()
    };
    let mut ranking = Ranking { scores: vec![Some(0.0); 3], votes: Vec::new() };
    add(&mut ranking, 1.0, "a".into(), votes(&[Some(0.5), None, Some(1.0)]));
    add(&mut ranking, 2.0, "b".into(), votes(&[Some(0.25), Some(1.0), None]));
    assert_eq!(ranking.scores, [Some(1.0), None, None]);
    assert_eq!(ranking.votes.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["a", "b"]);
}
