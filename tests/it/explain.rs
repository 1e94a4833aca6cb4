//! `sluice explain` as its users run it, with plugins of the operator's own, and beside a gateway that does for real
//! what was explained.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Stdio;

use harness::gateway::binary;
use harness::prelude::*;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::author_support::{Said, root, sluice};
use crate::guests::guest;

/// A folder with a configuration, and a provider that nobody may call.
struct Room {
    dir: tempfile::TempDir,
    provider: TcpListener,
}

impl Room {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let provider = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = provider.local_addr().unwrap();
        let text = format!(
            "plugins: {{ headers: [ x-stay ] }}
upstreams:
  big:
    base_url: http://{at}/v1
    credentials: [ 'env:SLUICE_TEST_NO_SUCH_KEY' ]
    probe: {{ mode: active, interval: 10ms }}
    models: {{ m: {{ supports: [ tools, images, json ], region: far }} }}
  small:
    base_url: http://{at}/v1
    models: {{ m: {{ context: 100, supports: [], region: near }}, t: {{ region: near }} }}
callers: [ {{ name: web, key: 'env:SLUICE_TEST_NO_SUCH_CALLER', routes: [ chat ] }} ]
routes:
  chat:
    targets:
      - {{ target: big/m, attempt: 2s }}
      - {{ target: small/m, fallback_max_tokens: 50 }}
      - {{ target: small/t, tasks: [ summary ] }}
    budget: 5s
    retry: {{ upstream: 1, backoff: 100ms }}
  other: {{ targets: [ small/m ] }}
"
        );
        fs::write(dir.path().join("sluice.yaml"), text).unwrap();
        fs::create_dir(dir.path().join("plugins.d")).unwrap();
        Self { dir, provider }
    }

    fn plugin(&self, name: &str, sidecar: &str) {
        let built = root().join(format!("examples/plugins/{name}/{name}.wasm"));
        fs::copy(built, self.dir.path().join(format!("plugins.d/{name}.wasm"))).unwrap();
        fs::write(self.dir.path().join(format!("plugins.d/{name}.yaml")), sidecar).unwrap();
    }

    async fn said(&self, args: &[&str]) -> Said {
        sluice(self.dir.path(), &[&["explain", "-c", "sluice.yaml"], args].concat()).await
    }

    async fn explain(&self, args: &[&str]) -> Value {
        let said = self.said(&[args, &["--json"]].concat()).await;
        assert_eq!(said.code, 0, "{args:?} {}", said.all());
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.all()))
    }

    fn nobody_called(&self) {
        self.provider.set_nonblocking(true).unwrap();
        let nobody = self.provider.accept().map_err(|error| error.kind());
        assert_eq!(nobody.map(|(_, from)| from), Err(ErrorKind::WouldBlock), "the provider was called");
    }
}

/// Target, role and what follows of each attempt.
fn course(explained: &Value) -> Vec<(&str, &str, &str)> {
    let attempts = explained["attempts"].as_array().expect("attempts");
    let mut course = Vec::new();
    for attempt in attempts {
        let part = |name: &str| attempt[name].as_str().unwrap_or_else(|| panic!("no {name}: {attempt:#}"));
        course.push((part("target"), part("role"), part("next")));
    }
    course
}

/// Of each target, for how many reasons it is left out.
fn left_out(explained: &Value) -> Vec<usize> {
    let targets = explained["targets"].as_array().expect("targets");
    targets.iter().map(|target| target["left_out"].as_array().expect("a list").len()).collect()
}

#[tokio::test]
async fn it_says_who_is_left_out_and_why() {
    let room = Room::new();
    let body = json!({"model": "chat", "stream": true, "max_tokens": 2000, "tools": [{"type": "function"}],
        "messages": [{"role": "user", "content": "hello"}]});
    fs::write(room.dir.path().join("body.json"), body.to_string()).unwrap();
    let explained = room.explain(&["--body", "body.json"]).await;
    assert_eq!(left_out(&explained), [0, 1, 1], "{explained:#}");
    let why = |at: usize| explained["targets"][at]["left_out"][0].as_str().unwrap_or_default();
    assert_eq!((why(1), why(2)), ("has no tools", "is for other tasks"));
    assert_eq!(explained["request"]["tools"], true);
    assert_eq!(explained["order"], json!(["big/m"]));
    let explained = room.explain(&["--model", "chat", "--header", "x-sluice-task: summary"]).await;
    assert_eq!(left_out(&explained), [0, 0, 0], "{explained:#}");
    let explained = room.explain(&["--model", "chat", "--down", "big/m", "--caller", "web"]).await;
    assert_eq!(explained["targets"][0]["left_out"], json!(["its breaker is open"]));
    assert_eq!(explained["targets"][0]["first_choice"], true);
    assert_eq!(course(&explained), [("small/m", "fallback", "served")]);
    assert_eq!(explained["answer"]["headers"]["x-sluice-degraded"], "true");
    assert_eq!(explained["request"]["caller"], "web");
    let all = ["--model", "chat", "--down", "big/m", "--down", "small/m"];
    let explained = room.explain(&all).await;
    assert_eq!(explained["answer"]["error"]["code"], "no_healthy_target", "{explained:#}");
    room.nobody_called();
}

#[tokio::test]
async fn it_says_what_follows_each_failure_and_what_time_is_left() {
    let room = Room::new();
    let explained = room.explain(&["--model", "chat", "--failure", "503", "--failure", "503"]).await;
    assert_eq!(
        course(&explained),
        [("big/m", "primary", "retry"), ("big/m", "primary", "switch"), ("small/m", "fallback", "served")]
    );
    assert_eq!(explained["attempts"][2]["max_tokens"], 50, "{explained:#}");
    let silent = room.explain(&["--model", "chat", "--failure", "timeout", "--failure", "timeout"]).await;
    assert_eq!(course(&silent), [("big/m", "primary", "switch"), ("small/m", "fallback", "deadline")]);
    let left = |at: usize| silent["attempts"][at]["left_ms"].as_u64().expect("a number");
    assert!((4600..=4700).contains(&left(0)) && (2600..=2700).contains(&left(1)), "{silent:#}");
    assert_eq!(silent["attempts"][0]["limit_ms"], 2000);
    let clock =
        json!({"plugin": null, "kind": "retryable_timeout", "action": "give_up", "breaker": "ignore"});
    assert_eq!((&silent["attempts"][1]["verdict"], &silent["failures_left"]), (&clock, &json!(0)));
    let told = room.said(&["--model", "chat", "--failure", "timeout", "--failure", "timeout"]).await;
    assert_eq!(told.out.lines().filter(|line| line.starts_with("  it fails: ")).count(), 2, "{}", told.all());
    assert!(told.out.contains("the clock says retryable_timeout, give up, breaker ignore"), "{}", told.all());
    assert_eq!(
        (&silent["answer"]["status"], &silent["answer"]["error"]["code"]),
        (&json!(504), &json!("budget_exhausted"))
    );
    let given_up = room.explain(&["--model", "chat", "--failure", "invalid_request"]).await;
    assert_eq!(course(&given_up), [("big/m", "primary", "end")]);
    assert_eq!(given_up["answer"]["status"], 400);
    // Failures for attempts that there are none of are not swallowed.
    let more =
        ["--model", "chat", "--failure", "invalid_request", "--failure", "503", "--failure", "timeout"];
    assert_eq!(room.explain(&more).await["failures_left"], 2);
    let told = room.said(&more).await;
    assert!(told.out.contains("the last 2 --failure were not needed"), "{}", told.all());
    assert!(!room.said(&more[..4]).await.out.contains("not needed"));
    let denied = room.explain(&["--model", "chat", "--failure", "401"]).await;
    assert_eq!(
        (course(&denied), &denied["answer"]["status"]),
        (vec![("big/m", "primary", "end")], &json!(502))
    );
    room.nobody_called();
}

#[tokio::test]
async fn the_plugins_of_the_folder_are_asked_and_named() {
    let room = Room::new();
    room.plugin("provider-quirks", "settings: { rules: [ { status: 503, kind: retryable_upstream, action: give_up, breaker: open } ] }\n");
    room.plugin(
        "data-residency",
        "settings: { header: x-stay, residencies: { here: [ near ], there: [ far ], nowhere: [ moon ] } }\n",
    );
    fs::write(room.dir.path().join("plugins.d/back.wasm"), guest("reverse-router")).unwrap();
    let stay = ["--model", "chat", "--header", "x-stay: here"];
    let explained = room.explain(&[&stay[..], &["--failure", "503"]].concat()).await;
    assert_eq!(course(&explained), [("small/m", "primary", "end")]);
    let verdict = json!({"plugin": "provider-quirks", "kind": "retryable_upstream", "action": "give_up", "breaker": "open"});
    assert_eq!(explained["attempts"][0]["verdict"], verdict);
    let rows = explained["scores"].as_array().expect("scores");
    let row = |router: &str, target: &str| {
        let found = rows.iter().find(|row| row["router"] == router && row["target"] == target);
        found.unwrap_or_else(|| panic!("{router} {target}: {explained:#}"))
    };
    assert!(
        row("data-residency", "big/m")["score"].is_null()
            && row("data-residency", "small/m")["score"].is_number()
    );
    assert_eq!(row("back", "small/m")["reason"], "place 1 from the end");
    assert_eq!(explained["targets"][0]["score"], Value::Null);
    let policy = explained["answer"]["headers"]["x-sluice-policy"].as_str().expect("a policy");
    assert!(policy.contains("router=back@") && policy.contains("classifier=provider-quirks@"), "{policy}");
    let nowhere = room.explain(&["--model", "chat", "--header", "x-stay: nowhere"]).await;
    assert_eq!(nowhere["answer"]["error"]["code"], "excluded_by_policy", "{nowhere:#}");
    // The one that may have it is merely open, and nobody has excluded that.
    let there = ["--model", "chat", "--header", "x-stay: there", "--header", "x-sluice-task: summary"];
    let later = room.explain(&[&there[..], &["--down", "big/m"]].concat()).await;
    let error = &later["answer"]["error"];
    assert_eq!((&later["answer"]["status"], &error["code"]), (&json!(503), &json!("no_healthy_target")));
    let text = room.said(&[&stay[..], &["--failure", "503"]].concat()).await;
    for line in [
        "  data-residency on big/m: excludes it",
        "order: small/m",
        "  it fails: provider-quirks says retryable_upstream, give up, breaker open",
        "  so: the end",
        "answer: 503 ",
    ] {
        assert!(text.out.lines().any(|said| said.starts_with(line)), "{line}: {}", text.all());
    }
    room.nobody_called();
}

#[tokio::test]
async fn what_is_explained_is_what_a_gateway_does() {
    let x = Setup::new().file("plugins.d/back.wasm", guest("reverse-router")).start().await;
    x.b.play(STATUS(503));
    let r = x.plain("chat").await;
    let file = x.gateway.file();
    let args = ["explain", "-c", file.to_str().unwrap(), "--model", "chat", "--failure", "503", "--json"];
    let said = sluice(x.gateway.dir(), &args).await;
    assert_eq!(said.code, 0, "{}", said.all());
    let explained: Value = serde_json::from_str(&said.out).expect("a document");
    assert_eq!(r.status, explained["answer"]["status"], "{explained:#}");
    for name in
        ["route", "degraded", "upstream", "served-model", "failure-kind", "attempts", "policy", "model"]
    {
        let header = format!("x-sluice-{name}");
        assert_eq!(
            r.header(&header),
            explained["answer"]["headers"][&header].as_str(),
            "{header} {explained:#}"
        );
    }
    let record = x.record(&r).await;
    for (at, target) in ["A/a1", "B/b1"].into_iter().enumerate() {
        let row =
            explained["targets"].as_array().unwrap().iter().find(|row| row["target"] == target).unwrap();
        assert_eq!(record["decision"][at]["score"], row["score"], "{target}");
    }
    x.end().await;
}

#[tokio::test]
async fn a_body_can_come_from_standard_input_and_a_bad_one_is_explained_as_one() {
    let room = Room::new();
    let mut command = Command::new(binary());
    command.args(["explain", "-c", "sluice.yaml", "--json", "--model", "other", "--body", "-"]);
    command.current_dir(&room.dir).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("it starts");
    let body = br#"{"model": "gpt", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}"#;
    child.stdin.take().expect("piped").write_all(body).await.expect("read");
    let output = child.wait_with_output().await.expect("it ends");
    let explained: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(
        (&explained["request"]["model"], &explained["request"]["max_output_tokens"]),
        (&json!("other"), &json!(5))
    );
    fs::write(room.dir.path().join("bad.json"), "{\"model\": \"chat\", \"model\": 1}").unwrap();
    let bad = room.explain(&["--body", "bad.json"]).await;
    assert_eq!((&bad["answer"]["status"], &bad["route"]), (&json!(400), &Value::Null));
    let forbidden = room.explain(&["--model", "other", "--caller", "web"]).await;
    assert_eq!(forbidden["answer"]["error"]["code"], "route_not_allowed", "{forbidden:#}");
}

#[tokio::test]
async fn wrong_usage_says_what_there_is() {
    let room = Room::new();
    for (args, words) in [
        (&[][..], "which route? --model NAME; there are chat, other"),
        (
            &["--model", "chat", "--down", "big/n"],
            "there is no such target; there are big/m, small/m, small/t",
        ),
        (
            &["--model", "other", "--down", "small/m", "--down", "big/m"],
            "--down big/m: no target of the route other; it has small/m",
        ),
        (&["--model", "chat", "--caller", "wbe"], "there is no such caller; there are web"),
        (&["--model", "chat", "--failure", "cut-3"], "expected a status from 300 to 599"),
        (&["--body", "gone.json"], "gone.json: "),
    ] {
        let said = room.said(args).await;
        assert_eq!(said.code, 2, "{args:?} {}", said.all());
        assert!(said.err.contains(words) && said.out.is_empty(), "{args:?} {}", said.all());
    }
    fs::write(room.dir.path().join("sluice.yaml"), "routes: {}\n").unwrap();
    let said = room.said(&["--model", "chat"]).await;
    assert_eq!(said.code, 2, "{}", said.all());
    assert!(said.err.contains("missing key \"upstreams\""), "{}", said.all());
}
