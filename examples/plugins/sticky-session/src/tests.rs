use super::*;

const SESSIONS: u64 = 6000;

fn targets(names: &[&str]) -> Vec<TargetFacts> {
    names.iter().enumerate().map(|(index, name)| testing::target(index as u32, name, "m")).collect()
}

fn router(targets: Vec<TargetFacts>) -> StickySession {
    testing::configure("{}", targets).unwrap()
}

/// The target that wins a session, as `upstream`.
fn home(router: &StickySession, session: u64, candidates: &[Candidate]) -> String {
    let request = RequestFacts { affinity: Some(mix(session)), ..testing::request() };
    let votes = router.score(&request, candidates);
    assert!(votes.iter().all(|vote| (0.0..=1.0).contains(&vote.score.unwrap())), "{votes:?}");
    let best = candidates
        .iter()
        .zip(votes)
        .max_by(|one, next| one.1.score.unwrap().total_cmp(&next.1.score.unwrap()));
    router.targets[best.unwrap().0.target as usize].upstream.clone()
}

fn all(count: u32) -> Vec<Candidate> {
    (0..count).map(testing::candidate).collect()
}

#[test]
fn a_session_stays_whatever_the_order_and_position_of_the_targets() {
    let (one, other) = (router(targets(&["a", "b", "c"])), router(targets(&["c", "a", "b"])));
    for session in 0..200 {
        let there = home(&one, session, &all(3));
        assert_eq!(there, home(&one, session, &all(3)));
        assert_eq!(there, home(&other, session, &all(3)), "another position of the same targets");
    }
}

#[test]
fn only_the_sessions_of_a_target_that_goes_move() {
    let router = router(targets(&["a", "b", "c"]));
    let without_b = [testing::candidate(0), testing::candidate(2)];
    for session in 0..200 {
        let before = home(&router, session, &all(3));
        let after = home(&router, session, &without_b);
        assert!(before == "b" || before == after, "session {session} moved from {before} to {after}");
    }
}

#[test]
fn sessions_are_shared_out_by_weight() {
    let mut weighted = targets(&["a", "b"]);
    weighted[1].places[0].weight = 2.0;
    let router = router(weighted);
    let at_b = (0..SESSIONS).filter(|session| home(&router, *session, &all(2)) == "b").count();
    let share = at_b as f64 / SESSIONS as f64;
    assert!((share - 2.0 / 3.0).abs() < 0.03, "{share} of the sessions at twice the weight");
}

#[test]
fn a_target_that_is_unwell_or_full_is_left_and_found_again() {
    let router = router(targets(&["a", "b", "c"]));
    let well = testing::candidate(1);
    for (what, b, leaves) in [
        ("answers too little", Candidate { health: 0.4, samples: 5, ..well }, true),
        ("full", Candidate { in_flight: well.capacity, ..well }, true),
        ("too few samples to know", Candidate { health: 0.0, samples: 4, ..well }, false),
        ("well enough", Candidate { health: 0.5, samples: 50, ..well }, false),
    ] {
        let now = [testing::candidate(0), b, testing::candidate(2)];
        let of_b: Vec<u64> = (0..200).filter(|session| home(&router, *session, &all(3)) == "b").collect();
        assert!(!of_b.is_empty());
        for session in of_b {
            assert_eq!(home(&router, session, &now) != "b", leaves, "{what}: session {session}");
        }
    }
}

#[test]
fn without_a_session_the_configured_order_stays_and_the_unwell_come_last() {
    let router = router(targets(&["a", "b"]));
    let votes = |candidates: &[Candidate]| {
        let votes = router.score(&testing::request(), candidates);
        votes.iter().map(|vote| vote.score.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(votes(&all(2)), [0.5, 0.5]);
    assert_eq!(
        votes(&[Candidate { health: 0.0, samples: 9, ..testing::candidate(0) }, testing::candidate(1)]),
        [0.0, 0.5]
    );
}

#[test]
fn a_share_that_is_none_is_refused() {
    let refused = testing::configure::<StickySession>(r#"{"min_health":1.5}"#, Vec::new()).err();
    assert_eq!(refused.as_deref(), Some("settings.min_health: expected 0 to 1, got 1.5"));
}
