//! The files of `examples/` load, say what their comments say, and show every key.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a broken example should stop the test"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sluice::cli::{Exit, check};
use sluice::config::{self, Config};

/// The examples in a folder where the files they refer to are.
fn examples() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("secrets")).expect("a folder");
    for name in ["cloud-key-2", "openai-second-key", "page-caller-key"] {
        fs::write(folder.path().join("secrets").join(name), "key-of-an-example\n").expect("a key");
    }
    let mut files = Vec::new();
    for entry in fs::read_dir("../examples").expect("the examples") {
        let from = entry.expect("an entry").path();
        if from.extension().is_some_and(|extension| extension == "yaml") {
            let to = folder.path().join(from.file_name().expect("a name"));
            fs::copy(&from, &to).expect("a copy");
            files.push(to);
        }
    }
    files.sort();
    (folder, files)
}

fn env(name: &str) -> Option<String> {
    if name == "RECORDS_URL" {
        return Some("postgres://sluice:key@db.internal/records".to_owned());
    }
    let known = ["_API_KEY", "_CALLER_KEY", "_ORGANIZATION"].iter().any(|end| name.ends_with(end));
    known.then(|| format!("key-of-an-example-{name}"))
}

fn load(path: &Path) -> Config {
    let loaded = config::load_with(path, &env);
    let loaded = loaded.unwrap_or_else(|errors| unreachable!("{errors}"));
    assert_eq!(loaded.warnings, [], "{}", path.display());
    loaded.config
}

#[tokio::test]
async fn each_loads_without_a_warning() {
    let (folder, files) = examples();
    fs::create_dir(folder.path().join("plugins.d")).expect("the folder that one of them names");
    assert!(files.len() >= 4);
    for file in files {
        load(&file);
        let mut out = Vec::new();
        assert_eq!(check::check_with(&file, &env, &mut out).await.expect("written"), Exit::Done);
        assert!(String::from_utf8_lossy(&out).starts_with("ok: "));
    }
}

#[tokio::test]
async fn check_warns_of_a_plugins_folder_that_is_named_and_not_there() {
    let (_folder, files) = examples();
    for (name, warns) in [("full.yaml", true), ("minimal.yaml", false)] {
        let file = files.iter().find(|file| file.ends_with(name)).expect("an example");
        let mut out = Vec::new();
        assert_eq!(check::check_with(file, &env, &mut out).await.expect("written"), Exit::Done);
        let out = String::from_utf8(out).expect("text");
        let said = out.contains("plugins.d is not there or is no folder");
        assert_eq!(said, warns, "{name}: {out}");
    }
}

#[tokio::test]
async fn check_prints_the_lines_and_asks_for_a_correction() {
    let (folder, _) = examples();
    let file = folder.path().join("bad.yaml");
    fs::write(&file, "listen: 1\nrouts: {}\n").expect("written");
    let mut out = Vec::new();
    let exit = check::check_with(&file, &env, &mut out).await.expect("written");
    assert_eq!(exit.code(), 2);
    let out = String::from_utf8(out).expect("text");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 5, "{out}");
    assert!(
        lines[3].ends_with("bad.yaml:2:1: (file): unknown key \"routs\"; did you mean \"routes\"?"),
        "{out}"
    );
    assert!(lines[4].starts_with("4 errors in "), "{out}");
}

#[tokio::test]
async fn check_says_which_plugins_would_be_rejected_and_that_the_rest_would_start() {
    let (folder, files) = examples();
    let dir = folder.path().join("plugins.d");
    fs::create_dir(&dir).expect("a folder");
    fs::write(dir.join("a.wasm"), b"\0asm\x01\0\0\0").expect("written");
    fs::copy("../plugins/weighted-router/weighted-router.wasm", dir.join("b.wasm")).expect("a copy");
    fs::write(dir.join("c.wasm"), b"junk").expect("written");
    fs::write(dir.join("c.yaml"), "on_error: deny\nweight: heavy\n").expect("written");
    let mut out = Vec::new();
    let minimal = files.iter().find(|file| file.ends_with("minimal.yaml")).expect("the smallest");
    let exit = check::check_with(minimal, &env, &mut out).await.expect("written");
    let out = String::from_utf8(out).expect("text");
    assert_eq!(exit, Exit::Done);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(
        lines[0].starts_with("warning: ") && lines[0].contains("a.wasm would be rejected (magic)"),
        "{out}"
    );
    assert!(lines[1].ends_with("c.yaml:2:9: weight: warning: expected a number"), "{out}");
    assert!(
        lines[2].contains("c.wasm would be rejected (sidecar), and calls be refused (on_error: deny)"),
        "{out}"
    );
    assert!(lines[3].starts_with("ok: "), "{out}");
    let there: Vec<_> = fs::read_dir(folder.path()).expect("the folder").filter_map(Result::ok).collect();
    assert!(there.iter().all(|entry| entry.file_name() != "sluice-state"), "a check keeps nothing");
}

#[tokio::test]
async fn check_says_where_a_route_names_a_plugin_of_another_kind() {
    let (folder, _) = examples();
    let dir = folder.path().join("plugins.d");
    fs::create_dir(&dir).expect("a folder");
    for name in ["mine", "off"] {
        fs::copy("../plugins/weighted-router/weighted-router.wasm", dir.join(format!("{name}.wasm")))
            .expect("a copy");
    }
    fs::write(dir.join("off.yaml"), "enabled: false\n").expect("written");
    let minimal = fs::read_to_string(folder.path().join("minimal.yaml")).expect("the smallest");
    let file = folder.path().join("lists.yaml");
    let lists = "defaults: { plugins: { routers: [ mine, off ], taggers: [ mine, standard-tagger ] } }";
    fs::write(&file, format!("{minimal}\n{lists}\n")).expect("written");
    let mut out = Vec::new();
    assert_eq!(check::check_with(&file, &env, &mut out).await.expect("written"), Exit::Done);
    let out = String::from_utf8(out).expect("text");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 3, "{out}");
    assert!(lines[0].contains("the router \"off\"") && lines[1].contains("the tagger \"mine\""), "{out}");
}

#[tokio::test]
async fn check_refuses_what_a_start_refuses() {
    let (folder, _) = examples();
    let minimal = fs::read_to_string(folder.path().join("minimal.yaml")).expect("the smallest");
    let file = folder.path().join("small.yaml");
    // No bundled plugin starts in so little memory.
    fs::write(&file, format!("{minimal}\nplugins: {{ memory: 64KiB }}\n")).expect("written");
    let mut out = Vec::new();
    let exit = check::check_with(&file, &env, &mut out).await.expect("written");
    let out = String::from_utf8(out).expect("text");
    assert_eq!(exit, Exit::No, "{out}");
    assert!(out.starts_with("error: it would not start: plugins: the bundled plugin"), "{out}");
}

#[test]
fn the_primary_of_two_upstreams_leaves_time_for_the_fallback() {
    let (folder, _) = examples();
    let config = load(&folder.path().join("two-upstreams.yaml"));
    let chat = &config.routes["chat"];
    let left = chat.budget - chat.reserve - chat.targets[0].attempt;
    assert_eq!(left, Duration::from_millis(900));
    assert_eq!(chat.min_budget, config::MinBudget::Fixed(Duration::from_millis(600)));
    assert_eq!(chat.targets[0].first_content, Duration::from_millis(1800));
    assert_eq!(chat.targets[1].first_content, Duration::from_secs(30));
}

#[test]
fn callers_have_the_routes_and_limits_that_their_comments_say() {
    let (folder, _) = examples();
    let config = load(&folder.path().join("callers.yaml"));
    let [web, batch, page] = &config.callers[..] else { panic!("three callers") };
    assert!(config.listen.ip().is_unspecified() && config.account_usage);
    let may = |caller: &config::Caller| ["chat", "quick"].map(|route| caller.may_call(route));
    assert_eq!([may(web), may(batch), may(page)], [[true, true], [true, true], [false, true]]);
    assert!(web.key.is(&config::KeyHash::of(b"key-of-an-example-WEB_CALLER_KEY")));
    assert!(page.key.is(&config::KeyHash::of(b"key-of-an-example")));
    let gate =
        |max_in_flight, queue| config::Gate { max_in_flight, queue, queue_wait: Duration::from_secs(5) };
    assert_eq!([web.gate, batch.gate], [gate(32, 256), gate(4, 0)]);
    assert_eq!((web.limits.requests, web.limits.tokens, web.limits.day), (Some(600), None, None));
    assert_eq!((batch.limits.requests, batch.limits.tokens), (None, Some(200_000)));
    assert_eq!(batch.limits.day, Some(sluice_core::allowance::Money::units(25.0)));
    let cors = config.cors.as_ref().expect("pages");
    assert!(cors.origins.allow(b"https://app.example") && !cors.origins.allow(b"https://other.example"));
}

/// `full.yaml` promises to show defaults; a file that says only what must be said has them.
#[test]
fn full_shows_the_defaults_that_are_in_force() {
    let (folder, _) = examples();
    let full = load(&folder.path().join("full.yaml"));
    let minimal = load(&folder.path().join("minimal.yaml"));
    let shown = |config: &Config| {
        let route = config.routes["chat"].as_ref().clone();
        let upstream = config.upstreams["openai"].as_ref();
        let mut plugins = config.plugins.clone();
        plugins.concurrency = 0;
        plugins.headers = Vec::new();
        let mut tags = config.tags.clone();
        tags.names.clear();
        let route = (
            (route.budget, route.reserve, route.connect, route.min_budget, route.idle, route.stream_max),
            (
                route.client_write,
                route.keep_alive,
                route.commit,
                route.max_switches,
                route.retry,
                route.on_malformed,
            ),
        );
        let whole =
            (config.listen, config.admin, plugins, config.state_dir.clone(), config.breaker, config.gates);
        let more =
            (config.retry_budget, config.limits, config.drain, config.readiness, config.account_usage, tags);
        let last = (
            config.log.clone(),
            config.decisions,
            upstream.gate,
            upstream.pool_idle,
            upstream.auth_header.clone(),
        );
        format!("{route:#?}\n{whole:#?}\n{more:#?}\n{last:#?}\n{:#?}", upstream.probe)
    };
    assert_eq!(shown(&full), shown(&minimal));
    let file = folder.path().join("records-by-default.yaml");
    let text = fs::read_to_string(folder.path().join("minimal.yaml")).expect("the smallest");
    fs::write(&file, text + "\nrecords: {}\n").expect("written");
    assert_eq!(format!("{:?}", full.records), format!("{:?}", load(&file).records));
    let plain = &full.routes["chat"].targets[1];
    assert_eq!((plain.attempt, plain.first_content), (Duration::from_secs(60), Duration::from_secs(30)));
}
