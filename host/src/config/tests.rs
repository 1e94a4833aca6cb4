//! What a right file comes to: merging, lookups, secrets, the environment. What is said about wrong ones is
//! in the golden files of `tests/config`.
#![allow(clippy::indexing_slicing, reason = "a test that looks for what is not there should stop")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret;

use super::*;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn load(text: &str, env: &[(&str, &str)]) -> Loaded {
    let env = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    parse(text, Path::new("/etc/sluice/sluice.yaml"), &env).unwrap_or_else(|errors| unreachable!("{errors}"))
}

fn with_routes(routes: &str) -> Config {
    let upstreams = "upstreams:\n  a: { base_url: 'http://h/v1', models: { m: {}, n: {}, 'org/big': {} } }\n  b: { base_url: 'http://h/v1', models: { m: {} } }\n";
    load(&format!("{upstreams}{routes}"), &[]).config
}

#[test]
fn a_route_falls_back_to_the_defaults_key_by_key_and_a_target_to_its_route() {
    let config = with_routes(
        "defaults: { budget: 9s, idle: off, max_switches: 3, min_budget: p95, retry: { upstream: 2, backoff: 1s } }\n\
         routes:\n  \
         plain: { targets: [ a/m ] }\n  \
         own: { budget: 8s, idle: 7s, min_budget: 1s, retry: { rate_limit: 0 }, targets: [ a/m, { target: b/m, min_budget: p95 } ] }\n",
    );
    let (plain, own) = (&config.routes["plain"], &config.routes["own"]);
    assert_eq!((plain.budget, plain.idle, plain.max_switches), (ms(9000), None, 3));
    assert_eq!((own.budget, own.idle, own.max_switches), (ms(8000), Some(ms(7000)), 3));
    let retry =
        Retry { upstream: 2, rate_limit: 1, max_wait: ms(5000), backoff: ms(1000), backoff_max: ms(2000) };
    assert_eq!(plain.retry, retry);
    assert_eq!(own.retry, Retry { rate_limit: 0, ..retry });
    let p95 = MinBudget::P95 { floor: ms(450) };
    assert_eq!((plain.min_budget, plain.targets[0].min_budget), (p95, p95));
    assert_eq!(own.targets[0].min_budget, MinBudget::Fixed(ms(1000)));
    assert_eq!(own.targets[1].min_budget, p95);
}

#[test]
fn first_content_is_never_more_than_the_attempt() {
    let config = with_routes(
        "routes:\n  \
         plain: { targets: [ a/m ] }\n  \
         short: { attempt: 5s, targets: [ a/m, { target: b/m, attempt: 40s }, { target: a/n, first_content: 3s } ] }\n  \
         slow: { first_content: 2m, targets: [ a/m, { target: b/m, attempt: 5m } ] }\n",
    );
    let limits = |route: &str| -> Vec<(u64, u64)> {
        let targets = config.routes[route].targets.iter();
        targets.map(|target| (target.attempt.as_secs(), target.first_content.as_secs())).collect()
    };
    assert_eq!(limits("plain"), [(60, 30)]);
    assert_eq!(limits("short"), [(5, 5), (40, 30), (5, 3)]);
    assert_eq!(limits("slow"), [(60, 60), (300, 120)]);
}

#[test]
fn a_target_is_one_however_many_routes_name_it() {
    let config = with_routes(
        "routes:\n  r: { targets: [ b/m, a/org/big ] }\n  s: { targets: [ { target: a/org/big, weight: 2 }, a/n ] }\n",
    );
    let keys: Vec<&str> = config.targets.iter().map(|target| target.key.as_ref()).collect();
    assert_eq!(keys, ["b/m", "a/org/big", "a/n"]);
    assert_eq!(&*config.targets[1].model, "org/big");
    let (r, s) = (&config.routes["r"].targets[1], &config.routes["s"].targets[0]);
    assert_eq!((r.index, s.index), (1, 1));
    assert!(Arc::ptr_eq(&r.target, &s.target) && Arc::ptr_eq(&r.target, &config.targets[1]));
    assert_eq!((r.weight, s.weight), (1.0, 2.0));
}

#[test]
fn an_upstream_lends_its_queue_region_and_attributes() {
    let text = "
gates: { max_in_flight: 7, queue: 3, queue_wait: 1s }
upstreams:
  a:
    base_url: https://h/v1/?x=1
    region: eu
    attributes: { tier: gold, family: any }
    models: { m: {}, n: { region: us, attributes: { family: gpt } } }
  b: { base_url: 'http://h', queue: 0, max_in_flight: 1, models: { m: { supports: [], context: 5 } } }
routes: { r: { targets: [ a/m, a/n, b/m ] } }
";
    let config = load(text, &[]).config;
    let gate = |queue, max_in_flight| Gate { max_in_flight, queue, queue_wait: ms(1000) };
    assert_eq!(
        (config.gates, config.upstreams["a"].gate, config.upstreams["b"].gate),
        (gate(3, 7), gate(3, 256), gate(0, 1))
    );
    let facts = |i: usize| &config.targets[i].facts;
    let attributes =
        |i: usize| -> Vec<String> { facts(i).attributes.iter().map(|(k, v)| format!("{k}={v}")).collect() };
    assert_eq!((facts(0).region.as_deref(), facts(1).region.as_deref()), (Some("eu"), Some("us")));
    assert_eq!(
        (attributes(0), attributes(1)),
        (vec!["family=any".into(), "tier=gold".into()], vec!["family=gpt".into(), "tier=gold".into()])
    );
    assert_eq!(
        (facts(0).supports.as_ref(), facts(2).supports.as_deref(), facts(2).context),
        (None, Some(&[][..]), Some(5))
    );
}

#[test]
fn secrets_are_read_without_their_line_end_and_stay_out_of_debug() {
    let text = "
upstreams:
  a:
    base_url: http://h
    credentials: [ 'env:ONE', 'env:TWO' ]
    headers: { X-Team: 'a, b', x-key: 'env:ONE' }
    models: { m: {} }
routes: { r: { targets: [ a/m ] } }
";
    let config = load(text, &[("ONE", "hush-1\n"), ("TWO", "hush-2\r\n")]).config;
    let upstream = &config.upstreams["a"];
    let keys: Vec<(&str, &str)> =
        upstream.credentials.iter().map(|c| (c.reference.as_str(), c.key.expose_secret())).collect();
    assert_eq!(keys, [("env:ONE", "hush-1"), ("env:TWO", "hush-2")]);
    let headers: Vec<(&str, &str)> =
        upstream.headers.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
    assert_eq!(headers, [("x-team", "a, b"), ("x-key", "hush-1")]);
    assert!(!format!("{config:?}").contains("hush"));
}

#[test]
fn paths_start_at_the_folder_of_the_file() {
    let config = with_routes(
        "plugins: { dir: ./p/q }\nstate_dir: /var/lib/sluice\nroutes: { r: { targets: [ a/m ] } }\n",
    );
    assert_eq!(config.plugins.dir, Path::new("/etc/sluice/p/q"));
    assert_eq!(config.state_dir, Path::new("/var/lib/sluice"));
    let config = with_routes("routes: { r: { targets: [ a/m ] } }\n");
    assert_eq!(config.plugins.dir, Path::new("/etc/sluice/plugins.d"));
    assert_eq!(config.state_dir, Path::new("/etc/sluice/sluice-state"));
}

#[test]
fn the_environment_overrides_the_level_in_the_order_of_the_reference() {
    let text = "log: { level: 'warn,sluice=debug' }\nupstreams: { a: { base_url: 'http://h', models: { m: {} } } }\nroutes: { r: { targets: [ a/m ] } }\n";
    for (env, level) in [
        (&[][..], "warn,sluice=debug"),
        (&[("RUST_LOG", "error")], "error"),
        (&[("RUST_LOG", "error"), ("SLUICE_LOG", "trace")], "trace"),
        (&[("SLUICE_LOG", ""), ("RUST_LOG", "hyper=info")], "hyper=info"),
        (&[("SLUICE_LOG", "")], "warn,sluice=debug"),
    ] {
        assert_eq!(load(text, env).config.log.level, level, "{env:?}");
    }
}

#[test]
fn tag_names_may_change_places_and_be_switched_off() {
    let names = |names: &str| {
        with_routes(&format!("tags: {{ names: {names} }}\nroutes: {{ r: {{ targets: [ a/m ] }} }}\n"))
            .tags
            .names
    };
    let swapped =
        names("{ model: x-sluice-route, route: X-Sluice-Model, policy: off, attempts: x-sluice-attempts }");
    let shown: Vec<(&str, Option<&str>)> =
        swapped.iter().map(|(short, name)| (short.as_str(), name.as_deref())).collect();
    assert_eq!(
        shown,
        [("model", Some("x-sluice-route")), ("policy", None), ("route", Some("x-sluice-model"))]
    );
    assert!(names("{}").is_empty());
}

#[test]
fn a_switched_off_or_narrowed_breaker_rule_is_what_it_says() {
    let breaker = |breaker: &str| {
        with_routes(&format!("breaker: {breaker}\nroutes: {{ r: {{ targets: [ a/m ] }} }}\n")).breaker
    };
    assert_eq!(breaker("{ rate: { enabled: false } }").rate, None);
    assert_eq!(breaker("{ rate: { window: 5 } }").rate, Some(BreakerRate { window: 5, min: 5, ratio: 0.5 }));
    let long = breaker("{ open: 10m }");
    assert_eq!((long.open, long.open_max), (ms(600_000), ms(600_000)));
}

#[test]
fn listening_for_everyone_must_be_said_and_localhost_is_an_address() {
    let config = with_routes(
        "listen: '[::]:0'\nallow_anonymous: true\nadmin: localhost:0\nroutes: { r: { targets: [ a/m ] } }\n",
    );
    assert_eq!(
        (config.listen.to_string(), config.admin.to_string()),
        ("[::]:0".to_owned(), "127.0.0.1:0".to_owned())
    );
}

#[test]
fn a_file_is_read_without_its_secrets_and_not_one_of_them_is() {
    let dir = tempfile::tempdir().unwrap_or_else(|error| unreachable!("{error}"));
    let file = dir.path().join("sluice.yaml");
    let write = |path: &Path, text: &str| std::fs::write(path, text).unwrap_or_else(|e| unreachable!("{e}"));
    write(&dir.path().join("key"), "hush");
    let text = "upstreams:
  a: { base_url: 'http://h/v1', credentials: ['env:SLUICE_TEST_NOT_SET', 'file:./key', 'file:./gone'], headers: { x-k: 'env:ALSO_NOT_SET' }, models: { m: {} } }
routes: { r: { targets: [ a/m ] } }
callers: [ { name: one, key: 'env:ONE' }, { name: two, key: 'env:TWO' } ]
records: { postgres: 'env:RECORDS' }
tls: { cert_file: ./no-cert.pem, key_file: ./no-key.pem }
";
    write(&file, text);
    let loaded = load_without_secrets(&file).unwrap_or_else(|errors| unreachable!("{errors}"));
    let upstream = &loaded.config.upstreams["a"];
    let keys: Vec<&str> = upstream.credentials.iter().map(|key| key.key.expose_secret()).collect();
    assert!(keys.iter().all(|key| key.starts_with("stand-in-") && !key.contains("hush")), "{keys:?}");
    assert!(loaded.config.callers.len() == 2 && loaded.config.tls.is_none());
    // For the records the one secret is read that leads to them.
    let store = || load_for_records(&file).map(|loaded| loaded.config.records.map(|records| records.place));
    let missing = store().expect_err("a secret that is not there").to_string();
    assert!(missing.contains("records.postgres: environment variable RECORDS is not set"), "{missing}");
    assert_eq!(missing.lines().count(), 1, "{missing}");
    write(&dir.path().join("url"), "postgres://u:p@h/d\n");
    write(&file, &text.replace("env:RECORDS", "file:./url"));
    let Ok(Some(RecordPlace::Postgres(url))) = store() else { unreachable!("{:?}", store()) };
    assert_eq!(url.key.expose_secret(), "postgres://u:p@h/d");
    let with = |from: &str, to: &str| {
        write(&file, &text.replace(from, to));
        load_without_secrets(&file).expect_err("a mistake").to_string()
    };
    assert!(with("env:ONE", "hush").contains("expected a secret by reference"));
    assert!(with("env:ONE", "env:TWO").contains("another caller has this key"));
    assert!(with(", key_file: ./no-key.pem", "").contains("missing key \"key_file\""));
    assert!(with("env:ONE", "env:1").contains("the name of an environment variable"));
}
