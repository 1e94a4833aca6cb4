//! The benchmark runs from beginning to end against the gateway of this build. What it finds is not judged: a test is
//! no place for the clock.

use std::process::Stdio;

use harness::gateway::binary;
use harness::prelude::*;
use tokio::process::Command;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_run_answers_every_call_and_gives_its_figures() {
    let sluice = binary();
    let run = Command::new(sluice.with_file_name("bench"))
        .args([
            "--rounds",
            "1",
            "--secs",
            "1",
            "--streams",
            "20",
            "--only",
            "burst,failover,streams,start",
            "--json",
        ])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(ms(120_000), run).await.expect("it ends").expect("it was built");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report is JSON");
    let rows = report["rows"].as_array().expect("rows");
    let seen: Vec<String> = rows
        .iter()
        .map(|row| format!("{} {} {}", row["part"], row["case"], row["peer"]).replace('"', ""))
        .collect();
    assert_eq!(
        seen,
        [
            "burst c=1 proxy",
            "burst c=1 gathering",
            "burst c=1 sluice",
            "burst c=16 proxy",
            "burst c=16 gathering",
            "burst c=16 sluice",
            "failover healthy sluice",
            "failover first target down sluice",
            "streams 20 streams proxy",
            "streams 20 streams sluice",
            "start bundled plugins sluice",
        ]
    );
    for row in rows {
        let figures = row["figures"].as_object().expect("figures");
        assert!(figures.get("errors").is_none_or(|errors| *errors == json!(0.0)), "{row}");
        for name in ["events/s", "p50 ms", "idle MiB", "start ms"] {
            assert!(figures.get(name).is_none_or(|figure| figure.as_f64() > Some(0.0)), "{name}: {row}");
        }
    }
}
