//! `sluice top` in a real terminal, in a pipe, and against nobody.

use std::process::Stdio;
use std::time::Duration;

use crate::browser::Browser;
use crate::expect::able_again;
use harness::gateway::binary;
use harness::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// What a caller might write so that the operator's terminal obeys it.
const STEERING: &str = "\u{1b}]0;evil\u{7}\u{1b}[2J";
/// Begins every frame.
const FRAME: &str = "\u{1b}[?2026h";

/// A shell in a terminal of its own, in which the view runs; afterwards it tells how the terminal was left.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    seen: Vec<u8>,
}

impl Terminal {
    fn watching(x: &Case) -> Self {
        let view = format!(
            "stty rows 40 cols 150; '{}' top --admin http://{} --interval 100ms; echo ended=$?; stty -a",
            binary().display(),
            x.gateway.admin_addr()
        );
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--command", &view, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("util-linux has `script`");
        let (keys, screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, keys, screen, seen: Vec::new() }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// The frame before the one that may still be on its way.
    fn frame(&self) -> String {
        let text = self.text();
        text.rsplit(FRAME).nth(1).unwrap_or_default().to_owned()
    }

    async fn more(&mut self) -> bool {
        let mut space = vec![0; 64 << 10];
        let read = tokio::time::timeout(harness::PATIENCE, self.screen.read(&mut space));
        match read.await.expect("the view draws again and again") {
            Ok(0) | Err(_) => false,
            Ok(n) => {
                self.seen.extend_from_slice(&space[..n]);
                true
            }
        }
    }

    /// Reads until a whole frame is so.
    async fn until(&mut self, what: &str, fits: impl Fn(&str) -> bool) {
        let end = now() + 3 * harness::PATIENCE;
        while !fits(&self.frame()) {
            assert!(self.more().await && now() < end, "never {what}; last:\n{}", self.frame());
        }
    }

    async fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).await.expect("the terminal takes keys");
    }

    /// What comes after the view has ended.
    async fn rest(mut self) -> String {
        while self.more().await {}
        let _ = self.child.wait().await;
        let text = self.text();
        let (_, rest) = text.rsplit_once("\u{1b}[?1049l").expect("the usual screen is back");
        rest.to_owned()
    }
}

/// What `stty -a` says of a terminal that shows what is typed, a line at a time.
fn as_it_was(stty: &str) -> bool {
    ["icanon", "echo", "isig"].iter().all(|set| stty.contains(set) && !stty.contains(&format!("-{set} ")))
}

#[tokio::test]
async fn a_breaker_is_seen_opening_and_closing_in_a_terminal() {
    let x = Setup::new().start().await;
    x.call(STEERING).await.refused(404, "model_not_found");
    let mut terminal = Terminal::watching(&x);
    terminal.until("well", |frame| frame.contains("nothing is wrong") && frame.contains("A/a1")).await;
    x.open_a().await;
    terminal
        .until("open", |frame| {
            frame.contains("✕ open")
                && frame.contains("probe in ")
                && frame.contains("1 of 3 targets in trouble")
        })
        .await;
    terminal
        .until("a fallback", |frame| {
            frame.contains("A/a1 ✕ retryable_upstream") && frame.contains("→ B/b1 ✓")
        })
        .await;
    able_again(&x, "A/a1").await;
    x.call("chat").await.answered().tags("A/a1", false);
    terminal.until("closed", |frame| frame.contains("nothing is wrong") && !frame.contains("✕ open")).await;
    assert!(
        !terminal.text().contains("\u{1b}]0;evil") && terminal.text().contains("␛]0;evil␇"),
        "{}",
        terminal.frame()
    );
    terminal.press("q").await;
    let rest = terminal.rest().await;
    assert!(rest.contains("ended=0"), "{rest}");
    assert!(as_it_was(&rest), "{rest}");
    x.end().await;
}

#[tokio::test]
async fn the_terminal_is_given_back_however_the_view_ends() {
    let x = Setup::new().start().await;
    let mut terminal = Terminal::watching(&x);
    terminal.until("there", |frame| frame.contains("A/a1")).await;
    let mut gateway = x.end().await;
    gateway.stop().await;
    // A gateway that is gone is said so, and ends nothing.
    terminal.until("gone", |frame| frame.contains("✕ no answer, this is ") && frame.contains("A/a1")).await;
    terminal.press("\u{3}").await;
    let rest = terminal.rest().await;
    assert!(rest.contains("ended=0") && as_it_was(&rest), "{rest}");
}

#[tokio::test]
async fn without_a_terminal_it_is_plain_text() {
    let x = Setup::new().start().await;
    x.call(STEERING).await.refused(404, "model_not_found");
    x.call("chat").await.answered();
    let admin = x.gateway.admin_addr().to_string();
    let once = Command::new(binary()).args(["top", "--once", "--admin", &admin]).output().await.unwrap();
    let text = String::from_utf8(once.stdout).unwrap();
    assert!(once.status.success() && once.stderr.is_empty(), "{text}");
    for part in [
        "nothing is wrong",
        "requests since the start 2",
        "A/a1",
        "upstream:B",
        "standard-classifier",
        "␛]0;evil␇",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");

    // Again and again, until nobody reads.
    let mut child = Command::new(binary())
        .args(["top", "--interval", "100ms", "--admin", &admin])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut text = String::new();
    while text.matches("\nTARGETS\n").count() < 3 {
        let mut space = vec![0; 64 << 10];
        let read = tokio::time::timeout(harness::PATIENCE, stdout.read(&mut space)).await.unwrap().unwrap();
        assert!(read > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&space[..read]));
    }
    assert!(!text.contains('\u{1b}') && text.contains("requests/s"), "{text}");
    drop(stdout);
    let status = tokio::time::timeout(Duration::from_secs(20), child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
    x.end().await;
}

#[tokio::test]
async fn what_is_refused_and_what_is_away_is_said_here_and_on_the_status_page() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let router = std::fs::read("../plugins/weighted-router/weighted-router.wasm").unwrap();
    let mut x = Setup::new()
        .set("/records", json!({"postgres": "env:RECORDS_URL"}))
        .env("RECORDS_URL", &format!("postgres://u:secret@{gone}/d"))
        .file("plugins.d/mine.wasm", router)
        .file("plugins.d/bad.wasm", "no plugin")
        .start()
        .await;
    x.gateway.wait_for_event("records_away", |_| true).await;
    x.change("/breaker", json!({"consecutiv": 3}));
    x.gateway.wait_for_event("config_rejected", |_| true).await;
    let seen = once(&x).await;
    for part in [
        "▲ plugin bad rejected, configuration file refused: line ",
        ": breaker: unknown key",
        "requests since the start 0",
        ", store of records away since ",
        "  ▲ rejected  ",
        "replaced",
    ] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    assert!(!seen.contains("secret") && !seen.contains("nothing is wrong"), "{seen}");
    let replaced = |page: &Value| -> Vec<String> {
        let all = page["plugins"].as_array().unwrap().iter();
        all.filter(|one| one["replaced"] == true).map(|one| one["name"].to_string()).collect()
    };
    assert_eq!(replaced(&x.gateway.admin_json("/debug/plugins").await), [r#""weighted-router""#]);
    let mut page = Browser::start();
    page.open(&x, "/").await;
    for problem in
        ["plugin bad", "configuration file refused: line", "store of records its database takes nothing"]
    {
        page.until(&format!("document.querySelector('#problems').innerText.includes('{problem}')")).await;
    }
    page.until("/weighted-router\\s+• replaced/.test(document.querySelector('#plugins').innerText)").await;
    page.kept_to(&x).await;

    x.config["breaker"] = json!({});
    x.config["records"] = json!({"sqlite": "records.sqlite"});
    crate::guests::take_out(&x, "bad.wasm");
    x.gateway.rewrite(&x.config);
    x.reloaded(1).await;
    let mut last = String::new();
    let well = x.poll(harness::PATIENCE, async || {
        last = once(&x).await;
        last.contains("nothing is wrong")
    });
    assert!(well.await, "{last}");
    x.end().await;
}

/// What is to be seen now.
async fn once(x: &Case) -> String {
    let admin = x.gateway.admin_addr().to_string();
    let output = Command::new(binary()).args(["top", "--once", "--admin", &admin]).output().await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn nobody_there_is_said_in_a_line() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for args in [&["top", "--once"][..], &["top"]] {
        let output =
            Command::new(binary()).args(args).args(["--admin", &free.to_string()]).output().await.unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("no gateway answers at") && said.lines().count() == 1, "{said}");
        assert!(output.stdout.is_empty());
    }
}
