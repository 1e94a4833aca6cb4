//! `sluice drill` as its users run it: the built binary, a configuration whose secrets are not there, and nobody at
//! the addresses of its upstreams.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use harness::gateway::binary;
use harness::prelude::*;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::author_support::{Said, root};

/// No drill of these tests takes as long on a machine that does other things too.
const MOST: Duration = Duration::from_secs(120);

/// A folder with a configuration, and a provider that nobody may call.
struct Room {
    dir: tempfile::TempDir,
    temp: tempfile::TempDir,
    provider: TcpListener,
}

impl Room {
    fn new(route: &str, top: &str) -> Self {
        let (dir, temp) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let provider = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = provider.local_addr().unwrap();
        let text = format!(
            "upstreams:
  openai:
    base_url: http://{at}/v1?key=secret
    credentials: [ 'env:SLUICE_TEST_NO_SUCH_KEY', 'file:./no-such-key' ]
    headers: {{ x-org: 'env:SLUICE_TEST_NO_SUCH_ORG' }}
    probe: {{ mode: active, interval: 10ms }}
    models: {{ gpt-4o: {{ region: far }} }}
  local: {{ base_url: 'http://{at}', models: {{ mock-cut-1: {{ region: near }} }} }}
callers: [ {{ name: web, key: 'env:SLUICE_TEST_NO_SUCH_CALLER', requests_per_minute: 1 }} ]
records: {{ postgres: 'env:SLUICE_TEST_NO_SUCH_URL' }}
traces: {{ otlp: 'http://{at}' }}
tls: {{ cert_file: ./no-cert.pem, key_file: ./no-key.pem }}
routes: {{ chat: {{ targets: [ openai/gpt-4o, local/mock-cut-1 ], {route} }} }}
{top}
"
        );
        fs::write(dir.path().join("sluice.yaml"), text).unwrap();
        fs::create_dir(dir.path().join("plugins.d")).unwrap();
        Self { dir, temp, provider }
    }

    /// Puts an example plugin into the folder, with this sidecar.
    fn plugin(&self, name: &str, sidecar: &str) {
        let built = root().join(format!("examples/plugins/{name}/{name}.wasm"));
        fs::copy(built, self.dir.path().join(format!("plugins.d/{name}.wasm"))).unwrap();
        fs::write(self.dir.path().join(format!("plugins.d/{name}.yaml")), sidecar).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(["drill", "-c", "sluice.yaml"]).args(args);
        command
            .current_dir(&self.dir)
            .env("TMPDIR", self.temp.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn drill(&self, args: &[&str]) -> Said {
        let output = tokio::time::timeout(MOST, self.command(args).output()).await;
        let output = output.expect("the drill ends").expect("the binary runs");
        Said {
            code: output.status.code().expect("an exit code"),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// Nobody called the provider, and nothing is left behind.
    fn is_clean(&self) {
        self.provider.set_nonblocking(true).unwrap();
        let nobody = self.provider.accept().map_err(|error| error.kind());
        assert_eq!(nobody.map(|(_, from)| from), Err(ErrorKind::WouldBlock), "the provider was called");
        let left =
            |dir: &Path| fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
        assert_eq!(left(self.temp.path()), Vec::<std::ffi::OsString>::new());
        assert_eq!(left(self.dir.path()).len(), 2, "{:?}", left(self.dir.path()));
    }
}

fn document(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.all()))
}

fn row<'a>(document: &'a Value, form: &str, scenario: &str) -> &'a Value {
    let rows = document["scenarios"].as_array().expect("scenarios");
    let found = rows.iter().find(|row| row["form"] == form && row["scenario"] == scenario);
    found.unwrap_or_else(|| panic!("no {form} {scenario}: {document:#}"))
}

#[tokio::test]
async fn a_primary_that_always_says_503_costs_no_call_and_every_call_is_a_fallback() {
    let room = Room::new("", "");
    let args = ["--requests", "100", "--concurrency", "10", "--scenario", "503", "--form", "plain"];
    let said = room.drill(&args).await;
    assert_eq!(said.code, 0, "{}", said.all());
    let cells = |name: &str| -> Vec<String> {
        let line = said.out.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    let (direct, healthy, failing) = (cells("direct"), cells("healthy"), cells("503"));
    assert_eq!(
        (&healthy[1..3], &failing[1..3]),
        (&["0".into(), "0".into()][..], &["0".into(), "100".into()][..])
    );
    for row in [direct, healthy, failing] {
        assert!(row[3..6].iter().all(|time| time.ends_with(" ms")), "{row:?} {}", said.all());
    }
    assert!(said.out.contains("openai/gpt-4o open ×1"), "{}", said.all());
    assert!(
        said.out
            .lines()
            .last()
            .is_some_and(|line| line.starts_with("every promise was kept in 2 scenarios; ")),
        "{}",
        said.all()
    );
    assert!(said.err.contains("2 scenarios, at most ") && !said.err.contains('\x1b'), "{}", said.all());
    room.is_clean();
}

#[tokio::test]
async fn every_scenario_in_both_forms_comes_out_as_the_configuration_says() {
    let room = Room::new("budget: 3s, attempt: 700ms, keep_alive: 5ms", "");
    let said = room.drill(&["--json", "--requests", "40", "--concurrency", "8"]).await;
    assert_eq!(said.code, 0, "{}", said.all());
    let document = document(&said);
    assert_eq!((&document["kept"], &document["requests"]), (&json!(true), &json!(40)));
    for form in ["stream", "plain"] {
        for (scenario, fallbacks) in [("healthy", 0), ("503", 40), ("429", 40), ("slow", 40), ("cut", 40)] {
            let row = row(&document, form, scenario);
            assert_eq!(row["first_choice"], "openai/gpt-4o");
            let broke = row["interrupted"].as_u64().expect("a number");
            let expected =
                if (form, scenario) == ("stream", "cut") { (3..=10).contains(&broke) } else { broke == 0 };
            assert!(expected, "{row:#}");
            assert_eq!(
                (row["errors"].as_u64(), row["fallbacks"].as_u64()),
                (Some(broke), Some(fallbacks - broke)),
                "{row:#}"
            );
            assert!(row["ms"]["p99"].as_f64() > Some(0.0) && row["direct_ms"]["p50"].as_f64() > Some(0.0));
            assert_eq!(row["first_content_ms"].is_null(), form == "plain", "{row:#}");
        }
        let slow = row(&document, form, "slow");
        assert!(slow["ms"]["p99"].as_f64() >= Some(700.0), "{slow:#}");
        let opened = json!({"target": "openai/gpt-4o", "to": "open", "count": 1});
        assert!(slow["breaker"].as_array().expect("a list").contains(&opened), "{slow:#}");
    }
    room.is_clean();
}

#[tokio::test]
async fn a_held_stream_that_is_cut_is_served_whole_by_another() {
    let room = Room::new("commit: complete", "");
    let said = room.drill(&["--json", "--requests", "20", "--scenario", "cut", "--form", "stream"]).await;
    assert_eq!(said.code, 0, "{}", said.all());
    let document = document(&said);
    let cut = row(&document, "stream", "cut");
    assert_eq!(
        (&cut["errors"], &cut["fallbacks"], &cut["served_expected"]),
        (&json!(0), &json!(20), &json!(true))
    );
}

#[tokio::test]
async fn a_route_with_one_target_is_judged_by_its_clean_errors() {
    let room = Room::new("max_switches: 0", "");
    let said = room.drill(&["--requests", "20", "--scenario", "503", "--form", "stream"]).await;
    assert_eq!(said.code, 0, "{}", said.all());
    assert!(said.out.contains("clean errors (") && said.out.contains("max_switches is 0"), "{}", said.all());
}

#[tokio::test]
async fn a_classifier_that_gives_up_on_a_503_breaks_the_promise_and_is_found() {
    let room = Room::new("", "");
    let rule = "settings: { rules: [ { status: 503, kind: retryable_upstream, action: give_up } ] }\n";
    room.plugin("provider-quirks", rule);
    let said = room.drill(&["--requests", "30", "--scenario", "503,429", "--form", "plain"]).await;
    assert_eq!(said.code, 1, "{}", said.all());
    let broken: Vec<&str> = said.out.lines().filter(|line| line.contains("BROKEN")).collect();
    assert_eq!(broken.len(), 1, "{}", said.all());
    assert!(broken[0].contains("503 served: ") && broken[0].contains("retryable_upstream"), "{}", broken[0]);
    assert!(broken[0].contains("(request drill-call-plain-503-"), "{}", broken[0]);
    room.is_clean();
}

#[tokio::test]
async fn a_router_that_only_ever_gives_the_failing_target_is_found() {
    let room = Room::new("", "plugins: { headers: [ x-stay ] }");
    let stay = "settings: { header: x-stay, residencies: { there: [ far ] } }\n";
    room.plugin("data-residency", stay);
    let args =
        ["--json", "--requests", "20", "--scenario", "503", "--form", "stream", "--header", "x-stay: there"];
    let said = room.drill(&args).await;
    assert_eq!(said.code, 1, "{}", said.all());
    let document = document(&said);
    assert_eq!(row(&document, "stream", "healthy")["broken"], json!([]));
    let failing = row(&document, "stream", "503");
    assert_eq!(failing["broken"][0]["promise"], "served", "{failing:#}");
    assert_eq!(document["kept"], false);
}

#[tokio::test]
async fn a_tail_that_is_longer_than_asked_for_is_a_broken_promise() {
    let room = Room::new("budget: 3s, attempt: 600ms", "");
    let args = ["--requests", "20", "--scenario", "slow", "--form", "plain", "--max-p99-ratio"];
    let said = room.drill(&[&args[..], &["1.5"]].concat()).await;
    assert_eq!(said.code, 1, "{}", said.all());
    assert!(said.out.contains("BROKEN slow tail: P99 "), "{}", said.all());
    let said = room.drill(&[&args[..], &["100000"]].concat()).await;
    assert_eq!(said.code, 0, "{}", said.all());
}

#[tokio::test]
async fn wrong_usage_and_a_wrong_configuration_are_told_apart_from_a_broken_promise() {
    let room = Room::new("", "");
    for (args, words) in [
        (&["--route", "chta"][..], "there is no such route; there are chat"),
        (&["--max-p99-ratio", "0.5"], "a number of at least 1"),
        (&["--scenario", "504"], "expected one of healthy, 503, 429, slow, cut"),
        (&["--header", "host: x"], "host cannot be given"),
        (&["--concurrency", "0"], "0 is not in 1..=1000"),
    ] {
        let said = room.drill(args).await;
        assert_eq!(said.code, 2, "{args:?} {}", said.all());
        assert!(said.err.contains(words), "{args:?} {}", said.all());
    }
    let bad = Room::new("budgt: 3s", "");
    let said = bad.drill(&[]).await;
    assert_eq!(said.code, 2, "{}", said.all());
    assert!(said.err.contains("sluice.yaml:") && said.err.contains("1 error in"), "{}", said.all());
    assert!(said.out.is_empty(), "{}", said.all());
}

#[tokio::test]
async fn a_drill_that_waits_is_ended_by_a_signal_at_once_and_by_its_timeout() {
    let room = Room::new("", "");
    let args = ["--scenario", "slow", "--form", "plain", "--requests", "10"];
    let mut command = room.command(&args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let first = tokio::time::timeout(MOST, lines.next_line()).await.expect("it says what it does").unwrap();
    assert!(first.as_deref().unwrap_or_default().starts_with("drilling "), "{first:?}");
    let pid = child.id().expect("it runs").to_string();
    Command::new("kill").args(["-INT", &pid]).status().await.expect("kill runs");
    let ended = tokio::time::timeout(Duration::from_secs(10), child.wait()).await;
    assert_eq!(ended.expect("at once").unwrap().code(), Some(1));
    let said = room.drill(&[&args[..], &["--timeout", "1s"]].concat()).await;
    assert_eq!(said.code, 1, "{}", said.all());
    assert!(said.err.contains("the drill was not over within 1s"), "{}", said.all());
    room.is_clean();
}
