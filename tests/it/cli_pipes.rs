//! Commands whose reader goes away, as `| head` does: they end without a word, and not as if the answer had been given.

use std::fs;
use std::io::pipe;
use std::process::Stdio;

use harness::gateway::binary;
use harness::prelude::*;
use tokio::process::Command;

use crate::author_support::root;

/// What a shell shows of a command that was ended by SIGPIPE.
const NOBODY_READS: i32 = 141;

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_error() {
    let x = Setup::new().start().await;
    let (file, admin) = (x.gateway.file(), x.gateway.admin_addr().to_string());
    let component = root().join("plugins/weighted-router/weighted-router.wasm");
    let [file, component] = [&file, &component].map(|path| path.to_str().unwrap());
    fs::write(x.gateway.dir().join("bad.yaml"), "routes: {}\n").unwrap();
    for args in [
        &["plugin", "check", component][..],
        &["plugin", "check", component, "--json"],
        &["plugin", "new", "mine", "--kind", "router"],
        &["check", "-c", "bad.yaml"],
        &["explain", "-c", file, "--model", "chat"],
        &["plugins", "--admin", &admin],
        &["plugins", "--admin", &admin, "--json"],
        &["completions", "bash"],
    ] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut command = Command::new(binary());
        command.args(args).current_dir(x.gateway.dir()).kill_on_drop(true);
        let run = command.stdout(Stdio::from(writer)).stderr(Stdio::piped()).spawn().unwrap();
        let output = run.wait_with_output().await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("roken pipe") && !said.contains("panicked"), "{args:?}: {said}");
        assert_eq!(output.status.code(), Some(NOBODY_READS), "{args:?}: {said}");
    }
    x.end().await;
}
