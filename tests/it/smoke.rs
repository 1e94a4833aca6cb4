//! The built binary as an operator drives it: checked, started, called, told to stop.

use std::path::Path;
use std::process::{Output, Stdio};

use harness::gateway::binary;
use harness::prelude::*;
use tokio::net::TcpListener;
use tokio::process::Command;

async fn sluice(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(args).current_dir(dir).stdin(Stdio::null()).kill_on_drop(true);
    command.env_remove("SLUICE_LOG").env_remove("RUST_LOG");
    let output = tokio::time::timeout(harness::PATIENCE, command.output()).await;
    output.expect("a command that does not serve ends").expect("the gateway can be executed")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn commands_say_with_their_exit_code_how_it_went() {
    let dir = tempfile::tempdir().unwrap();
    let good = "upstreams: {a: {base_url: 'http://127.0.0.1:9/v1', models: {m: {}}}}\nroutes: {chat: {targets: [a/m]}}\n";
    std::fs::write(dir.path().join("good.yaml"), good).unwrap();
    std::fs::write(dir.path().join("bad.yaml"), good.replace("targets: [a/m]", "targets: [a/n], budgit: 3s"))
        .unwrap();
    let table: [(&[&str], i32, &[&str]); 12] = [
        (&["check", "-c", "good.yaml"], 0, &[]),
        (
            &["check", "-c", "bad.yaml"],
            2,
            &["bad.yaml:2:", "routes.chat.targets[0]", "budgit", "budget", "2 errors"],
        ),
        (&["check", "-c", "none.yaml"], 2, &["none.yaml"]),
        (&["run", "-c", "bad.yaml"], 2, &["bad.yaml:2:"]),
        (&["check"], 2, &[]),
        (&["no-such-command"], 2, &["no-such-command"]),
        (&[], 2, &[]),
        (&["--version"], 0, &["sluice ", env!("CARGO_PKG_VERSION"), "commit ", "sluice:policy@0.1.0"]),
        (&["completions", "bash"], 0, &["complete -F _sluice", "--config"]),
        (&["completions", "zsh"], 0, &["#compdef sluice"]),
        (&["completions", "tcsh"], 2, &["tcsh", "bash"]),
        (&["--help"], 0, &["run", "check"]),
    ];
    for (args, code, words) in table {
        let output = sluice(dir.path(), args).await;
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        for word in words {
            assert!(said(&output).contains(word), "{args:?} does not say {word:?}: {}", said(&output));
        }
    }
}

#[tokio::test]
async fn a_start_that_fails_says_so_with_1() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for key in ["/listen", "/admin"] {
        let refused = Setup::new().set(key, address.as_str()).try_start().await.err().unwrap();
        assert_eq!(refused.code, Some(1), "{}", refused.log);
        assert!(refused.log.contains(&address) && refused.log.contains(&key[1..]), "{}", refused.log);
    }
}

#[tokio::test]
async fn a_gateway_serves_fails_over_and_goes_down_in_order() {
    let mut x = Setup::new()
        .set("/drain", json!({"window": "1500ms", "limit": "20s"}))
        .set("/defaults/idle", "off")
        .start()
        .await;
    for page in ["/livez", "/readyz"] {
        assert_eq!((x.get(page).await.status, x.gateway.admin_page(page).await.status), (200, 200), "{page}");
    }
    let models = x.get("/v1/models").await.json();
    let names: Vec<_> =
        models["data"].as_array().unwrap().iter().filter_map(|model| model["id"].as_str()).collect();
    assert_eq!(names, ["chat", "chat3", "other", "solo"]);
    x.call("chat").await.answered().tags("A/a1", false);
    x.plain("chat").await.answered().tags("A/a1", false);
    x.a.queue(STATUS(503));
    x.call("chat").await.answered().tags("B/b1", true);
    let latch = Latch::new();
    x.a.play([ROLE, TXT("one "), HOLD(&latch), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let mut running = x.call("chat").begin().await;
    running.contents(1).await;
    x.a.healthy();
    let signalled = now();
    x.gateway.terminate().await;
    x.drains().await;
    let admin = x.gateway.admin_json("/readyz").await;
    assert_eq!((admin["ready"].clone(), admin["reason"].clone()), (json!(false), json!("draining")));
    assert_eq!(x.gateway.admin_page("/livez").await.status, 200);
    // Within the window, whoever still comes is served.
    let late = x.plain("chat").await;
    if now() - signalled < ms(1000) {
        late.answered().tags("A/a1", false);
    }
    let closed =
        x.poll(harness::PATIENCE, async || tokio::net::TcpStream::connect(x.gateway.addr()).await.is_err());
    assert!(closed.await, "the listener still accepts after the window");
    assert_eq!(running.response().end, End::Open, "the stream was cut by the drain");
    latch.open();
    running.finish().await.answered().tags("A/a1", false);
    assert_eq!(x.gateway.exit_code(harness::PATIENCE).await, 0);
    let records = x.gateway.events("request");
    assert_eq!(records.len(), x.ledger.lock().unwrap().len(), "a record for each call, also at the end");
    assert!(!x.gateway.log().contains("panicked"), "{}", x.gateway.log());
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once_and_still_in_order() {
    let mut x = Setup::new()
        .set("/drain", json!({"window": "60s", "limit": "60s"}))
        .set("/defaults/idle", "off")
        .start()
        .await;
    x.a.play([ROLE, TXT("one "), SILENT]);
    let mut running = x.call("chat").begin().await;
    running.contents(1).await;
    x.gateway.terminate().await;
    x.drains().await;
    x.gateway.terminate().await;
    assert_eq!(x.gateway.exit_code(harness::PATIENCE).await, 0);
    // Whoever was still reading is not told that the answer is whole.
    let r = running.finish().await;
    assert_eq!((r.dones(), r.text().as_str()), (0, "one "), "{r:?}");
}
