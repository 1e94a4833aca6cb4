//! A headless Chromium that the tests tell what to do, by way of `tests/sdk/browser.mjs`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use harness::prelude::*;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::sdks::sdk_dir;

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// A browser may take long to start on a busy machine; each step of it waits at most as long.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// One page of one browser.
pub struct Browser {
    _child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).flat_map(|dir| NAMES.map(|name| dir.join(name)));
    places.find(|place| place.is_file()).expect("Debian's chromium is installed (tests/run does it)")
}

impl Browser {
    /// Starts one.
    pub fn start() -> Self {
        let sdk = sdk_dir();
        assert!(
            sdk.join("node_modules/puppeteer-core").exists(),
            "tests/run installs what tests/sdk/package.json names"
        );
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk/browser.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .arg("--sdk-dir")
            .arg(sdk)
            .arg("--browser")
            .arg(program())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("Node.js can be executed");
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { commands: child.stdin.take().unwrap(), answers, _child: child }
    }

    async fn tell(&mut self, command: &Value) -> Result<Value, String> {
        self.commands.write_all(format!("{command}\n").as_bytes()).await.expect("the browser's driver reads");
        let answer = tokio::time::timeout(PATIENCE, self.answers.next_line()).await;
        let line = answer.expect("the browser answers").expect("a pipe").expect("the driver runs");
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["ok"].take()),
        }
    }

    /// Opens a page of the gateway's admin listener.
    pub async fn open(&mut self, x: &Case, path: &str) -> Value {
        let url = format!("http://{}{path}", x.gateway.admin_addr());
        self.tell(&json!({"open": url})).await.expect("the page loads")
    }

    /// Waits until a JavaScript expression is true; what is to be seen meanwhile fails the test.
    pub async fn until(&mut self, expression: &str) {
        if let Err(error) = self.tell(&json!({"until": expression})).await {
            let text = self.get("document.body.innerText").await;
            panic!("never so: {expression}: {error}; the page says:\n{}", text.as_str().unwrap_or_default());
        }
    }

    /// The value of a JavaScript expression.
    pub async fn get(&mut self, expression: &str) -> Value {
        self.tell(&json!({"get": expression})).await.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// The window's size.
    pub async fn size(&mut self, width: u32, height: u32) {
        self.tell(&json!({"size": [width, height]})).await.expect("a window can be resized");
    }

    /// Light or dark.
    pub async fn scheme(&mut self, scheme: &str) {
        self.tell(&json!({"scheme": scheme})).await.expect("a preference can be set");
    }

    /// Nothing was asked for beyond the listener that the page came from, and nothing complained.
    pub async fn kept_to(&mut self, x: &Case) {
        let seen = self.tell(&json!({"seen": true})).await.unwrap();
        assert_eq!(seen["complaints"], json!([]), "errors and warnings of the page");
        let origin = format!("http://{}/", x.gateway.admin_addr());
        let requests: Vec<_> =
            seen["requests"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(
            requests.iter().any(|url| url.contains("/debug/upstreams")),
            "it has asked at all: {requests:?}"
        );
        for url in requests {
            assert!(url.starts_with(&origin) || url.starts_with("data:"), "asked for {url}");
        }
    }
}
