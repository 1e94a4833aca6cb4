//! The official OpenAI SDKs as clients: what they report is what their users see.

use std::path::{Path, PathBuf};

use harness::prelude::*;
use tokio::process::Command;

const SETUP_PYTHON: &str = "python3 -m venv target/sdk/venv && target/sdk/venv/bin/pip install --requirement tests/sdk/requirements.txt";
const SETUP_NODE: &str = "cp tests/sdk/package.json tests/sdk/package-lock.json target/sdk/ && npm ci --prefix target/sdk --ignore-scripts --no-audit --no-fund";

/// The two SDKs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sdk {
    Python,
    Node,
}

pub(crate) const BOTH: [Sdk; 2] = [Sdk::Python, Sdk::Node];
const MODES: [&str; 2] = ["plain", "stream"];

impl Sdk {
    /// The interpreter with its script. What is missing fails the test and says how to get it.
    fn command(self) -> Command {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in the workspace");
        let (sdk, scripts) = (sdk_dir(), root.join("tests/sdk"));
        let need = |path: PathBuf, setup: &str| {
            assert!(
                path.exists(),
                "{} is not there; in the root of the repository run: mkdir -p target/sdk && {setup}",
                path.display()
            );
            path
        };
        match self {
            Self::Python => {
                need(sdk.join("venv"), SETUP_PYTHON);
                let mut command = Command::new(need(sdk.join("venv/bin/python"), SETUP_PYTHON));
                command.arg(scripts.join("openai_python.py"));
                command
            }
            Self::Node => {
                need(sdk.join("node_modules/openai"), SETUP_NODE);
                let mut command = Command::new("node");
                command.arg(scripts.join("openai_node.mjs")).arg("--sdk-dir").arg(sdk);
                command
            }
        }
    }

    /// One call: whether the SDK saw what was expected, and what the script said.
    async fn run(self, base_url: &str, route: &str, mode: &str, expected: &[&str]) -> (bool, String) {
        Self::said(self.command(), base_url, route, mode, expected).await
    }

    async fn said(
        mut command: Command,
        base_url: &str,
        route: &str,
        mode: &str,
        expected: &[&str],
    ) -> (bool, String) {
        // A proxy in the environment is no business of a call on loopback.
        for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
            command.env_remove(proxy);
        }
        command.args(["--base-url", base_url, "--model", route, "--mode", mode]).args(expected);
        let output = command.kill_on_drop(true).output().await.expect("the interpreter can be executed");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// One call to the gateway; what the SDK did not see as expected fails the test.
    pub(crate) async fn sees(self, case: &Case, route: &str, mode: &str, expected: &[&str]) {
        let (ok, said) = self.run(&case.gateway.base_url(), route, mode, expected).await;
        assert!(ok, "{self:?} {route} {mode} {expected:?}: {said}\n{}", case.gateway.log());
    }

    /// The same over TLS, with a certificate that the SDK is told to trust as its users do.
    pub(crate) async fn sees_over_tls(
        self,
        case: &Case,
        trusted: &Path,
        route: &str,
        mode: &str,
        expected: &[&str],
    ) {
        let mut command = self.command();
        command.env("SSL_CERT_FILE", trusted).env("NODE_EXTRA_CA_CERTS", trusted);
        let base_url = case.gateway.base_url().replace("http://", "https://");
        let (ok, said) = Self::said(command, &base_url, route, mode, expected).await;
        assert!(ok, "{self:?} {route} {mode} {expected:?}: {said}\n{}", case.gateway.log());
    }
}

/// `target/sdk`, found from where this test was built.
pub(crate) fn sdk_dir() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    // target/PROFILE/deps/NAME
    test.ancestors().nth(3).expect("a test lies in a target directory").join("sdk")
}

const ANSWER: [&str; 4] = ["--expect", "answer", "--text", HEALTHY_TEXT];

#[tokio::test]
async fn a_healthy_answer_is_whole_for_both_sdks() {
    let x = Setup::new().start().await;
    for (sdk, mode) in product() {
        let tags = ["--header", "x-sluice-degraded=false", "--header", "x-sluice-upstream=A"];
        sdk.sees(&x, "chat", mode, &[&ANSWER[..], &tags].concat()).await;
    }
    x.calls([4, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_fallback_is_an_ordinary_answer_for_both_sdks() {
    // The breaker is kept out of the way: each of the calls has to meet the failing target.
    let x = Setup::new().set("/breaker/consecutive", 1000).start().await;
    for (script, streams_only) in [(STATUS(503), false), (Script::from([ROLE, CUT]), true)] {
        x.a.play(script);
        for (sdk, mode) in product() {
            if streams_only && mode == "plain" {
                continue;
            }
            let tags = ["--header", "x-sluice-degraded=true", "--header", "x-sluice-upstream=B"];
            sdk.sees(&x, "chat", mode, &[&ANSWER[..], &tags].concat()).await;
        }
    }
    x.calls([6, 6, 0]);
    x.end().await;
}

#[tokio::test]
async fn half_an_answer_is_an_exception_for_both_sdks() {
    let x = Setup::new().set("/breaker/consecutive", 1000).start().await;
    let half = [ROLE, TXT("one "), TXT("two ")];
    let scripts = [
        (CUT, "upstream_interrupted"),
        (RST, "upstream_interrupted"),
        (SILENT, "stream_stalled"),
        (ERR("server_error"), "server_error"),
    ];
    for (end, code) in scripts {
        x.a.play([&half[..], &[SLEEP(100), end]].concat());
        for sdk in BOTH {
            let expected = ["--expect", "interrupted", "--text", "one two ", "--code", code];
            sdk.sees(&x, "chat", "stream", &expected).await;
        }
    }
    x.calls([8, 0, 0]);
    x.end().await;
}

#[tokio::test]
async fn a_failure_is_the_typed_exception_of_both_sdks() {
    let x = Setup::new().set("/breaker/consecutive", 1000).start().await;
    let context = json!({"error": {"message": "too long", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}});
    let table = [
        (STATUS(503), "503", "retryable_upstream", "InternalServerError"),
        (STATUS(500), "502", "retryable_upstream", "InternalServerError"),
        (STATUS(504), "504", "retryable_timeout", "InternalServerError"),
        (LIMITED(&[]), "429", "retryable_rate_limit", "RateLimitError"),
        (JSON(400, &context), "400", "context_length_exceeded", "BadRequestError"),
    ];
    for (script, status, code, class) in table {
        x.a.play(script);
        for (sdk, mode) in product() {
            let expected = ["--expect", "refused", "--status", status, "--code", code, "--class", class];
            sdk.sees(&x, "solo", mode, &expected).await;
        }
    }
    x.end().await;
}

/// Without a gateway: a script that takes anything for good would make the tests above worthless.
#[tokio::test]
async fn the_checks_notice_what_is_wrong() {
    let up = Upstream::start("A", 1.0).await;
    let sse = HEAD(200, &[("content-type", "text/event-stream"), ("x-request-id", "r1")]);
    let half = [sse.clone(), ROLE, TXT("one ")];
    let whole = [sse, ROLE, TXT("one two three"), FIN("stop"), DONE];
    let interrupted = ["--expect", "interrupted", "--text", "one ", "--code", "x"];
    let refused = ["--expect", "refused", "--status", "503", "--class", "InternalServerError"];
    let failure = |status| {
        WITH(
            status,
            &[("content-type", "application/json"), ("x-request-id", "r1")],
            r#"{"error": {"message": "m"}}"#,
        )
    };
    let table: [(Script, &[&str], &str); 9] = [
        (whole.clone().into(), &ANSWER, "ok"),
        (half.clone().into(), &ANSWER, "text: got"),
        ([&half[..], &[TXT("two three")]].concat().into(), &ANSWER, "finish reason: got"),
        ([&half[..], &[ERR("x")]].concat().into(), &interrupted, "ok"),
        ([&half[..], &[ERR("y")]].concat().into(), &interrupted, "code: got"),
        (half.into(), &interrupted, "taken for a whole one"),
        (failure(503), &refused, "ok"),
        (failure(429), &refused, "status: got 429"),
        (whole.into(), &refused, "no exception"),
    ];
    for (script, expected, says) in table {
        up.play(script.clone());
        for sdk in BOTH {
            let (ok, said) = sdk.run(&up.base_url(), "m", "stream", expected).await;
            assert!(
                ok == (says == "ok") && said.contains(says),
                "{sdk:?} {script:?}: wanted {says}, got {said}"
            );
        }
    }
}

fn product() -> impl Iterator<Item = (Sdk, &'static str)> {
    BOTH.into_iter().flat_map(|sdk| MODES.map(|mode| (sdk, mode)))
}
