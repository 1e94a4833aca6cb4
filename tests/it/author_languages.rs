//! The example plugins in JavaScript and Python: built from their sources by the tools of those languages, tried with the
//! author's commands under their own sidecars, and swapped into a gateway that serves calls.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use harness::prelude::*;
use sha2::{Digest as _, Sha256};
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::author_support::{root, sluice};
use crate::expect::has;
use crate::guests::{entry, put};
use crate::running::traffic;

/// Building fetches the tools if `tests/run` has not, and compiling one takes an unoptimised gateway on a busy machine a while.
const PATIENCE: Duration = Duration::from_secs(600);
const NAMES: [&str; 2] = ["preferred-upstreams", "service-levels"];

/// The components, built once for all tests here.
async fn built(name: &str) -> Vec<u8> {
    static BUILT: OnceCell<()> = OnceCell::const_new();
    let build = async || {
        let output =
            Command::new(examples().join("build")).stdin(Stdio::null()).kill_on_drop(true).output().await;
        let output = output.expect("bash runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "examples/languages/build:\n{said}");
    };
    tokio::time::timeout(PATIENCE, BUILT.get_or_init(build)).await.expect("a build ends");
    fs::read(root().join("target/languages").join(format!("{name}.wasm"))).expect("a built component")
}

fn examples() -> PathBuf {
    root().join("examples/languages")
}

fn sidecar(name: &str) -> String {
    fs::read_to_string(examples().join(name).join(format!("{name}.yaml"))).expect("a sidecar")
}

/// A component with the sidecar beside it, and a configuration with the targets that the sidecars name.
async fn folder(name: &str) -> tempfile::TempDir {
    let here = tempfile::tempdir().expect("a folder");
    fs::write(here.path().join(format!("{name}.wasm")), built(name).await).expect("written");
    fs::write(here.path().join(format!("{name}.yaml")), sidecar(name)).expect("written");
    let config = json!({
        "listen": "127.0.0.1:0",
        "upstreams": {
            "cloud": {"base_url": "http://127.0.0.1:9/v1", "models": {"large": {}, "small": {}}},
            "local": {"base_url": "http://127.0.0.1:9/v1", "models": {"small": {}}},
        },
        "routes": {"chat": {"targets": ["cloud/small", "cloud/large", "local/small"]}},
    });
    fs::write(here.path().join("sluice.yaml"), config.to_string()).expect("written");
    here
}

/// What an author tries a component with, under its sidecar; the folder it is in.
async fn tried(name: &str, kind: &str) -> tempfile::TempDir {
    let (here, file) = (folder(name).await, format!("{name}.wasm"));
    let said = sluice(here.path(), &["plugin", "check", &file, "-c", "sluice.yaml"]).await;
    assert_eq!(said.code, 0, "{}", said.all());
    assert!(said.out.starts_with(&format!("ok: {file} would run: {kind} ")), "{}", said.all());

    let cases = examples().join(name).join("cases");
    let said = sluice(here.path(), &["plugin", "test", &file, "--cases", text(&cases)]).await;
    assert_eq!(said.code, 0, "{}", said.all());
    assert!(said.out.ends_with(" cases, 0 failed\n") && !said.out.contains("\n0 cases"), "{}", said.all());
    here
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[tokio::test]
async fn a_plugin_in_javascript_passes_what_its_author_tries_it_with() {
    let here = tried("preferred-upstreams", "router").await;
    let case = examples().join("preferred-upstreams/cases/rules.json");
    let bench =
        ["plugin", "bench", "preferred-upstreams.wasm", "--calls", "10", "--json", "--case", text(&case)];
    let said = sluice(here.path(), &bench).await;
    assert_eq!(said.code, 0, "{}", said.all());
    let told: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(told["rows"].as_array().map(Vec::len), Some(4), "{told:#}");
}

#[tokio::test]
async fn a_plugin_in_python_passes_what_its_author_tries_it_with() {
    tried("service-levels", "tagger").await;
}

/// Waits until these bytes run under this name, with these settings.
async fn runs(x: &Case, name: &str, bytes: &[u8]) {
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let there = x
        .poll(PATIENCE, async || {
            let entry = entry(x, name).await;
            assert_ne!(entry["rejection"]["reason"], "compile", "{entry:#}");
            entry["state"] == "active" && entry["digest"] == digest.as_str()
        })
        .await;
    assert!(there, "{:#}\n{}", entry(x, name).await, x.gateway.log());
}

#[tokio::test]
async fn a_gateway_takes_them_while_it_serves_and_obeys_them() {
    let [router, tagger] = NAMES;
    let x = Setup::new()
        .wide_gates()
        .set("/plugins/headers", json!(["x-team"]))
        .file(format!("plugins.d/{router}.wasm").as_str(), example("prefer-last"))
        .start()
        .await;
    assert_eq!(x.plain("chat").await.answered().json()["model"], "b1", "as the plugin before it has it");
    let calls = traffic(x.call("chat"), ms(20));

    let names = [("[cloud/large]", "[B/b1]"), ("[local, cloud/small]", "[B, A]"), ("[local]", "[B]")];
    let rules = names.iter().fold(sidecar(router), |text, (theirs, ours)| text.replace(theirs, ours));
    let (in_javascript, in_python) = (built(router).await, built(tagger).await);
    put(&x, &format!("{router}.yaml"), rules.as_bytes());
    put(&x, &format!("{router}.wasm"), &in_javascript);
    runs(&x, router, &in_javascript).await;
    let (theirs, ours) = ("first_content_ms: 800,", "first_content_ms: 8000,");
    let levels = sidecar(tagger).replace(theirs, ours) + "    chat3: { first_content_ms: 20 }\n";
    assert!(levels.contains(ours), "{levels}");
    put(&x, &format!("{tagger}.yaml"), levels.as_bytes());
    put(&x, &format!("{tagger}.wasm"), &in_python);
    runs(&x, tagger, &in_python).await;

    let extraction = || {
        x.plain("chat")
            .header("x-sluice-task", "extraction")
            .set("response_format", json!({"type": "json_object"}))
    };
    assert_eq!(extraction().await.answered().json()["model"], "b1", "the first rule");
    assert_eq!(x.plain("chat").header("x-sluice-task", "extraction").await.answered().json()["model"], "a1");
    let long = json!([{"role": "user", "content": "word ".repeat(4000)}]);
    let of_team = x.plain("chat").header("x-team", "research").set("messages", long).await;
    assert_eq!(of_team.answered().json()["model"], "b1", "the second rule");

    // Another sidecar is another version: the engine has compiled these bytes already.
    put(&x, &format!("{router}.yaml"), rules.replace("[B/b1]", "[A/a1]").as_bytes());
    let obeyed = x.poll(PATIENCE, async || extraction().await.answered().json()["model"] == "a1").await;
    assert!(obeyed, "{:#}", entry(&x, router).await);

    let r = x.call("chat").await;
    assert_eq!(r.answered().header("x-service-level"), Some("kept"), "{r:?}");
    has(&x.record(&r).await["tags"], &json!({"service_level": "kept"}));
    x.a.play([SLEEP(100), ROLE, TXT("one "), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let r = x.call("chat3").await;
    assert_eq!(r.answered().header("x-service-level"), Some("missed"), "{r:?}");
    let record = x.record(&r).await;
    let over = record["tags"]["service_level_missed"].as_str().unwrap_or_default();
    assert!(over.starts_with("first_content_ms "), "{record:#}");

    let answers = calls.stop().await;
    assert!(answers.len() > 20, "only {} calls", answers.len());
    for answer in &answers {
        answer.answered();
    }
    for name in NAMES {
        has(&entry(&x, name).await, &json!({"state": "active", "failures": {}}));
    }
    x.end().await;
}

fn example(name: &str) -> Vec<u8> {
    fs::read(root().join(format!("examples/plugins/{name}/{name}.wasm"))).expect("a built example")
}
