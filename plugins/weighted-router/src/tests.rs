#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation ends the test")]

use sluice_sdk::{Candidate, Place, RequestFacts, Router, TargetFacts, testing};

use super::WeightedRouter;

fn router(settings: &str, targets: Vec<TargetFacts>) -> WeightedRouter {
    testing::configure(settings, targets).unwrap()
}

fn targets(count: u32) -> Vec<TargetFacts> {
    (0..count).map(|index| testing::target(index, "up", &format!("m{index}"))).collect()
}

fn priced(prices: &[Option<(f64, f64)>]) -> Vec<TargetFacts> {
    let with_price = |(mut target, price): (TargetFacts, &Option<(f64, f64)>)| {
        (target.price_input, target.price_output) = price.map_or((None, None), |(i, o)| (Some(i), Some(o)));
        target
    };
    targets(prices.len() as u32).into_iter().zip(prices).map(with_price).collect()
}

fn scores(router: &WeightedRouter, request: &RequestFacts, candidates: &[Candidate]) -> Vec<f64> {
    let votes = router.score(request, candidates);
    assert_eq!(votes.len(), candidates.len(), "one vote for each candidate");
    votes.into_iter().map(|vote| vote.score.unwrap()).collect()
}

fn assert_close(what: &str, got: &[f64], expected: &[f64]) {
    let close = got.len() == expected.len() && got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
    assert!(close, "{what}: got {got:?}, expected {expected:?}");
}

const WEIGHTED: &str = r#"{"mode":"weighted"}"#;

#[test]
fn priority_keeps_the_configured_order_whatever_is_known() {
    let bad_first = [
        Candidate { health: 0.0, latency_p50_ms: Some(9_000.0), ..testing::candidate(2) },
        testing::candidate(0),
        testing::candidate(1),
        Candidate { quota_left: Some(1.0), latency_p50_ms: Some(1.0), ..testing::candidate(3) },
    ];
    for settings in ["{}", r#"{"mode":"priority"}"#] {
        let got = scores(&router(settings, targets(4)), &testing::request(), &bad_first);
        assert_close(settings, &got, &[1.0, 0.75, 0.5, 0.25]);
    }
    assert_eq!(scores(&router("{}", targets(1)), &testing::request(), &[]), Vec::<f64>::new());
}

#[test]
fn the_weighted_score_is_the_documented_sum() {
    let router = router(WEIGHTED, priced(&[Some((2.0, 8.0)), Some((1.0, 4.0))]));
    let candidates = [
        Candidate {
            health: 0.9,
            latency_p50_ms: Some(100.0),
            quota_left: Some(0.2),
            ..testing::candidate(0)
        },
        Candidate {
            health: 0.5,
            latency_p50_ms: Some(400.0),
            quota_left: Some(1.0),
            ..testing::candidate(1)
        },
    ];
    let got = scores(&router, &testing::request(), &candidates);
    let first = 0.35 * 0.9 + 0.25 * 0.75 + 0.25 * 0.0 + 0.15 * 0.2;
    let second = 0.35 * 0.5 + 0.25 * 0.0 + 0.25 * 0.5 + 0.15 * 1.0;
    assert_close("sum", &got, &[first, second]);
}

#[test]
fn only_the_proportions_of_the_weights_matter() {
    let candidates = [Candidate { health: 0.25, ..testing::candidate(0) }, testing::candidate(1)];
    let only_health = r#"{"mode":"weighted","weights":{"health":8,"latency":0,"cost":0,"quota":0}}"#;
    let got = scores(&router(only_health, targets(2)), &testing::request(), &candidates);
    assert_close("only health", &got, &[0.25, 1.0]);
}

#[test]
fn what_is_unknown_is_the_mean_of_what_is_known() {
    let only_latency = r#"{"mode":"weighted","weights":{"health":0,"latency":1,"cost":0,"quota":0}}"#;
    let candidates = |known: [Option<f64>; 3]| {
        let with = |(i, p50): (usize, Option<f64>)| Candidate {
            latency_p50_ms: p50,
            ..testing::candidate(i as u32)
        };
        known.into_iter().enumerate().map(with).collect::<Vec<_>>()
    };
    let cases = [
        ("all known", [Some(100.0), Some(200.0), Some(400.0)], [0.75, 0.5, 0.0]),
        ("one unknown", [Some(100.0), None, Some(400.0)], [0.75, 0.375, 0.0]),
        ("one known", [None, Some(250.0), None], [0.0, 0.0, 0.0]),
        ("none known", [None, None, None], [0.5, 0.5, 0.5]),
        ("all at once", [Some(0.0), Some(0.0), None], [1.0, 1.0, 1.0]),
        ("nonsense is unknown", [Some(f64::NAN), Some(-5.0), Some(f64::INFINITY)], [0.5, 0.5, 0.5]),
    ];
    for (what, known, expected) in cases {
        let router = router(only_latency, targets(3));
        assert_close(what, &scores(&router, &testing::request(), &candidates(known)), &expected);
    }
}

#[test]
fn a_target_without_a_price_is_neither_cheap_nor_dear() {
    let only_cost = r#"{"mode":"weighted","weights":{"health":0,"latency":0,"cost":1,"quota":0}}"#;
    let router = router(only_cost, priced(&[Some((4.0, 4.0)), None, Some((1.0, 1.0))]));
    let candidates: Vec<_> = (0..3).map(testing::candidate).collect();
    assert_close("price", &scores(&router, &testing::request(), &candidates), &[0.0, 0.375, 0.75]);
}

#[test]
fn cost_is_that_of_this_call() {
    let only_cost = r#"{"mode":"weighted","weights":{"health":0,"latency":0,"cost":1,"quota":0}}"#;
    let router = router(only_cost, priced(&[Some((10.0, 1.0)), Some((1.0, 10.0))]));
    let candidates: Vec<_> = (0..2).map(testing::candidate).collect();
    let reads = RequestFacts { input_tokens: 10_000, max_output_tokens: Some(10), ..testing::request() };
    let writes = RequestFacts { input_tokens: 10, max_output_tokens: Some(10_000), ..testing::request() };
    let (read, written) = (scores(&router, &reads, &candidates), scores(&router, &writes, &candidates));
    assert!(read[1] > read[0], "a long prompt goes where input is cheap: {read:?}");
    assert!(written[0] > written[1], "a long answer goes where output is cheap: {written:?}");
}

#[test]
fn a_stream_is_judged_by_its_first_content() {
    let only_latency = r#"{"mode":"weighted","weights":{"health":0,"latency":1,"cost":0,"quota":0}}"#;
    let router = router(only_latency, targets(2));
    let measured = |first_content: [Option<f64>; 2]| {
        [(0, 100.0), (1, 400.0)].map(|(i, p50)| Candidate {
            latency_p50_ms: Some(p50),
            first_content_p50_ms: first_content[i],
            ..testing::candidate(i as u32)
        })
    };
    let (plain, stream) = (testing::request(), RequestFacts { streaming: true, ..testing::request() });
    let known = measured([Some(800.0), Some(200.0)]);
    assert_close("plain", &scores(&router, &plain, &known), &[0.75, 0.0]);
    assert_close("stream", &scores(&router, &stream, &known), &[0.0, 0.75]);
    assert_close("not measured", &scores(&router, &stream, &measured([None, None])), &[0.75, 0.0]);
}

#[test]
fn a_weight_of_the_route_scales_the_score_there_and_nowhere_else() {
    let mut targets = targets(2);
    targets[1].places = vec![
        Place { route: "chat".to_owned(), position: 1, weight: 0.5 },
        Place { route: "batch".to_owned(), position: 0, weight: 1.0 },
    ];
    let router = router(WEIGHTED, targets);
    let candidates = [testing::candidate(0), testing::candidate(1)];
    let chat = scores(&router, &testing::request(), &candidates);
    assert_close("chat", &[chat[1]], &[chat[0] / 2.0]);
    let batch = RequestFacts { model: "batch".to_owned(), ..testing::request() };
    let batch = scores(&router, &batch, &candidates);
    assert_close("batch", &[batch[1]], &[batch[0]]);
}

#[test]
fn no_facts_make_a_score_that_is_no_share() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e-300, 0.5, 7.0, f64::MAX];
    let prices: Vec<_> = odd.iter().map(|&price| Some((price, price))).collect();
    let mut targets = priced(&prices);
    for (target, weight) in targets.iter_mut().zip(odd) {
        target.places[0].weight = weight;
    }
    let router = router(WEIGHTED, targets);
    for streaming in [false, true] {
        let candidates: Vec<_> = (0..odd.len() as u32 + 3)
            .map(|index| {
                let value = odd[index as usize % odd.len()];
                Candidate {
                    health: value,
                    latency_p50_ms: Some(value),
                    first_content_p50_ms: Some(value),
                    quota_left: Some(value),
                    ..testing::candidate(index)
                }
            })
            .collect();
        let request = RequestFacts {
            streaming,
            input_tokens: u32::MAX,
            max_output_tokens: Some(u32::MAX),
            ..testing::request()
        };
        for score in scores(&router, &request, &candidates) {
            assert!((0.0..=1.0).contains(&score), "{score}");
        }
    }
}

#[test]
fn reasons_are_given_only_when_asked_for() {
    let candidates = [Candidate { health: 0.5, ..testing::candidate(0) }, testing::candidate(1)];
    let quiet = router(WEIGHTED, targets(2)).score(&testing::request(), &candidates);
    assert!(quiet.iter().all(|vote| vote.reason.is_none()), "{quiet:?}");
    let explained = router(r#"{"mode":"weighted","explain":true}"#, targets(2));
    let votes = explained.score(&testing::request(), &candidates);
    let reason = votes[0].reason.as_deref();
    assert_eq!(reason, Some("health 50%, latency 50%, cost 50%, quota 50%, weight 100%"));
}

#[test]
fn bad_settings_are_refused_with_what_was_expected() {
    let cases = [
        (
            r#"{"mode":"random"}"#,
            "settings.mode: unknown variant `random`, expected `priority` or `weighted`",
        ),
        (r#"{"weights":{"health":-1}}"#, "settings.weights.health: expected 0 to 1000000, got -1.0"),
        (r#"{"weights":{"quota":-0.25}}"#, "settings.weights.quota: expected 0 to 1000000, got -0.25"),
        (r#"{"weights":{"cost":1e9}}"#, "settings.weights.cost: expected 0 to 1000000, got 1000000000.0"),
        (r#"{"weights":{"latency":1e300}}"#, "settings.weights.latency: expected 0 to 1000000, got 1e+300"),
        (
            r#"{"weights":{"health":0,"latency":0,"cost":0,"quota":0}}"#,
            "settings.weights: expected at least one weight over 0, got only 0",
        ),
        (
            r#"{"weights":{"latency":"1"}}"#,
            "settings.weights.latency: invalid type: string \"1\", expected f64",
        ),
        (r#"{"wieghts":{}}"#, "settings.wieghts: unknown field `wieghts`, expected one of"),
    ];
    for (settings, expected) in cases {
        let error = testing::configure::<WeightedRouter>(settings, targets(1)).unwrap_err();
        assert!(error.starts_with(expected), "{settings}: {error}");
    }
}
