//! A gateway that is told to end before it serves.

use std::fs;
use std::process::Stdio;

use harness::gateway::binary;
use harness::prelude::*;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

const CONFIG: &str = "listen: 127.0.0.1:0
admin: 127.0.0.1:0
upstreams: { a: { base_url: 'http://127.0.0.1:9/v1', models: { m: {} } } }
routes: { chat: { targets: [ a/m ] } }
";

#[tokio::test]
async fn a_signal_ends_a_start_that_takes_long_at_once_and_nothing_is_waited_for() {
    for signal in ["-TERM", "-INT"] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (plugins, kept) = (dir.path().join("plugins.d"), dir.path().join("sluice-state/plugins"));
        fs::create_dir_all(&plugins).expect("a directory in our own");
        fs::create_dir_all(&kept).expect("a directory in our own");
        fs::write(dir.path().join("sluice.yaml"), CONFIG).expect("a file in our own directory");
        fs::write(plugins.join("a.wasm"), "junk").expect("a file in our own directory");
        // What is kept of it is a pipe that nobody writes: a disk that does not answer.
        let made = Command::new("mkfifo").arg(kept.join("a.json")).status().await;
        assert!(made.is_ok_and(|status| status.success()));
        let mut child = Command::new(binary())
            .args(["run", "-c", "sluice.yaml"])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the binary can be executed");
        let pid = child.id().expect("it runs").to_string();
        // Opened once the gateway reads it, which is while it looks at its plugins; held, so that it reads on.
        let pipe = kept.join("a.json");
        let opening = tokio::task::spawn_blocking(move || fs::File::options().write(true).open(pipe));
        let opened = tokio::time::timeout(harness::PATIENCE, opening).await.expect("it does not read");
        let _held = opened.expect("no panic").expect("a pipe in our own directory");
        let sent = Command::new("kill").args([signal, &pid]).status().await;
        assert!(sent.is_ok_and(|status| status.success()));
        let ended = tokio::time::timeout(ms(5000), child.wait()).await;
        let status = ended.expect("it is still there").expect("a child can be waited for");
        assert_eq!(status.code(), Some(0), "{signal}");
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).await.expect("text");
        assert!(said.contains("before it served"), "{said}");
    }
}
