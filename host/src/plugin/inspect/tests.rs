#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

fn exports(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn the_contract_is_chosen_by_the_names_of_exports() {
    let kinds = |list: &[&str]| contract(&exports(list)).map(|(_, kinds)| kinds);
    assert_eq!(
        kinds(&[
            "sluice:policy/plugin@0.1.0",
            "sluice:policy/tagger@0.1.0",
            "sluice:policy/router@0.1.0",
            "other"
        ]),
        Ok(vec![PluginKind::Router, PluginKind::Tagger])
    );
    assert!(matches!(kinds(&[]), Err(Rejection::NoContract { .. })));
    assert!(matches!(kinds(&["wasi:cli/run@0.2.6"]), Err(Rejection::NoContract { .. })));
    assert!(matches!(kinds(&["sluice:policy/plugin@0.1.0"]), Err(Rejection::Exports { .. })));
    assert!(matches!(kinds(&["sluice:policy/router@0.1.0"]), Err(Rejection::Exports { .. })));
    assert!(matches!(
        kinds(&["sluice:policy/plugin@0.1.0", "sluice:policy/router@0.2.0"]),
        Err(Rejection::Exports { .. })
    ));
    assert!(matches!(
        kinds(&["sluice:policy/plugin@2.0.0", "sluice:policy/router@2.0.0"]),
        Err(Rejection::Version { found, .. }) if found == "2.0.0"
    ));
}

#[test]
fn only_the_log_and_an_empty_wasi_can_be_imported() {
    for (import, fine) in [
        ("sluice:policy/log@0.1.0", true),
        ("sluice:policy/types@0.1.0", true),
        ("sluice:policy/log@0.2.0", false),
        ("sluice:policy/router@0.1.0", false),
        ("wasi:cli/stderr@0.2.0", true),
        ("wasi:cli/stderr@0.2.12", true),
        ("wasi:cli/stderr@0.3.0", false),
        ("wasi:cli/stderr@0.2.0-rc", false),
        ("wasi:cli/stderr", false),
        ("wasi:clocks/monotonic-clock@0.2.6", false),
        ("wasi:random/random@0.2.6", false),
        ("wasi:filesystem/types@0.2.6", false),
        ("wasi:sockets/tcp@0.2.6", false),
        ("wasi:http/outgoing-handler@0.2.6", false),
        ("env", false),
        ("", false),
    ] {
        assert_eq!(allowed(import), fine, "{import:?}");
    }
}

#[test]
fn needs_beyond_a_limit_name_the_limit() {
    let fine = Needs { memory: 1 << 20, memories: 1, elements: 100, tables: 2, instances: 64 };
    assert_eq!(fine.within(1 << 20), Ok(()));
    for (needs, words) in [
        (Needs { memory: (1 << 20) + 1, ..fine }, "initial memory"),
        (Needs { memories: 2, ..fine }, "memories"),
        (Needs { tables: 5, ..fine }, "tables"),
        (Needs { elements: 20_001, ..fine }, "elements"),
        (Needs { instances: 65, ..fine }, "core instances"),
    ] {
        let refused = needs.within(1 << 20).unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
    }
    assert!(
        Needs { memory: MEMORY_MAX + 1, ..fine }.within(u64::MAX).is_err(),
        "the engine has a limit of its own"
    );
}

#[test]
fn every_prefix_of_a_component_is_refused_and_none_panics() {
    let whole = super::super::bundled::source(PluginKind::Router).1;
    assert!(inspect(whole, u64::MAX).is_ok());
    for at in (0..whole.len()).step_by(whole.len() / 97) {
        if at != 8 {
            assert!(inspect(&whole[..at], u64::MAX).is_err(), "cut at {at}");
        }
    }
}
