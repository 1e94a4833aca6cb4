use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::PATIENCE;
use crate::gateway::Refused;
use crate::prelude::*;

/// One at a time: a script that another thread's fork still holds open cannot be executed.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A shell script in the gateway's place: enough to see that start, log, signals and ends are read right.
async fn launch(script: &str) -> Result<Gateway, Refused> {
    let dir = TempDir::new().unwrap();
    let program = executable(&dir, script);
    Gateway::launch(&program, &json!({"listen": "x"}), dir, &[("KEY_A".to_owned(), "k".to_owned())]).await
}

fn executable(dir: &TempDir, script: &str) -> PathBuf {
    let program = dir.path().join("program");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

const LISTENING: &str = r#"echo not json
echo '{"event":"listening","listen":"127.0.0.1:4711","admin":"127.0.0.1:4712"}'
"#;

#[tokio::test]
async fn a_start_is_read_from_the_log_and_an_end_from_the_exit_code() {
    let _alone = ALONE.lock().await;
    let script = format!(
        "trap 'exit 7' TERM\n{LISTENING}echo \"{{\\\"event\\\":\\\"args\\\",\\\"is\\\":\\\"$1 $2 $KEY_A\\\"}}\"\necho oops >&2\nwhile :; do sleep 0.02; done"
    );
    let mut gateway = launch(&script).await.unwrap();
    assert_eq!((gateway.addr().port(), gateway.admin_addr().port()), (4711, 4712));
    assert_eq!(gateway.base_url(), "http://127.0.0.1:4711/v1");
    let args = gateway.wait_for_event("args", |line| line["is"] == "run -c k").await;
    assert_eq!(gateway.events("args"), [args]);
    let written = std::fs::read_to_string(gateway.dir().join("sluice.yaml")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), json!({"listen": "x"}));
    gateway.rewrite(&json!({"listen": "y"}));
    assert!(std::fs::read_to_string(gateway.dir().join("sluice.yaml")).unwrap().contains("\"y\""));
    assert_eq!(gateway.stop().await, 7);
    assert!(gateway.log().contains("not json"));
}

#[tokio::test]
async fn a_gateway_that_ends_instead_of_listening_says_why() {
    let _alone = ALONE.lock().await;
    let refused = launch("echo 'sluice.yaml:1:1: listen: no address' >&2\nexit 2").await.err().unwrap();
    assert_eq!(refused.code, Some(2));
    assert!(refused.log.contains("no address"), "{refused:?}");
}

#[tokio::test]
async fn a_dropped_gateway_does_not_run_on() {
    let _alone = ALONE.lock().await;
    let gateway = launch(&format!("trap '' TERM\n{LISTENING}while :; do sleep 0.02; done")).await.unwrap();
    let proc = PathBuf::from(format!("/proc/{}/cmdline", gateway.pid().unwrap()));
    assert!(!std::fs::read(&proc).unwrap().is_empty());
    drop(gateway);
    let end = now() + PATIENCE;
    while std::fs::read(&proc).is_ok_and(|line| !line.is_empty()) {
        assert!(now() < end, "it still runs");
        tokio::task::yield_now().await;
    }
}
