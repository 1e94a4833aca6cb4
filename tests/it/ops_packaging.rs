//! What `examples/` says about running the gateway as a service, held against the gateway: an image without a
//! shell in which it really runs, manifests whose times and paths fit together.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use harness::gateway::binary;
use harness::prelude::*;
use tokio::process::Command;

async fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).kill_on_drop(true);
    tokio::time::timeout(Duration::from_secs(120), command.output())
        .await
        .expect("it ends")
        .expect("it starts")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn the_gateway_runs_in_its_container_without_a_shell_and_without_root() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let mut assemble = Command::new("../examples/container/rootfs");
    let made = run(assemble.arg(binary()).arg(&root)).await;
    assert!(made.status.success(), "{}", said(&made));
    assert!(!root.join("bin/sh").exists() && !root.join("usr/bin/env").exists());
    // Only root may change the root; everybody else may in a namespace of their own.
    let mut demo = if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        let mut chroot = Command::new("chroot");
        chroot.arg("--userspec=65532:65532");
        chroot
    } else {
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", "chroot"]);
        unshare
    };
    demo.arg(&root).args(["/usr/bin/sluice", "demo", "--once"]).env_clear();
    let output = run(demo.env("PATH", std::env::var("PATH").unwrap_or_default())).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("rows came out right"), "{}", said(&output));
}

fn documents(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(Path::new("../examples").join(path)).unwrap();
    text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

fn of_kind<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    documents.iter().find(|document| document["kind"] == kind).expect("the manifest is there")
}

fn seconds(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.strip_suffix('s')).expect("seconds").parse().unwrap()
}

#[tokio::test]
async fn the_manifests_fit_the_gateway_and_each_other() {
    let all = documents("kubernetes/sluice.yaml");
    let inner = of_kind(&all, "ConfigMap")["data"]["sluice.yaml"].as_str().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sluice.yaml");
    std::fs::write(&file, inner).unwrap();
    let mut check = Command::new(binary());
    check.args(["check", "-c"]).arg(&file).env("OPENAI_API_KEY", "k").env("SLUICE_CALLER_KEY", "c");
    let output = run(&mut check).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));

    let config: Value = serde_saphyr::from_str(inner).unwrap();
    let pod = &of_kind(&all, "Deployment")["spec"]["template"]["spec"];
    let drain = seconds(&config["drain"]["window"]) + seconds(&config["drain"]["limit"]);
    let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(
        grace >= drain + 5,
        "the pod is killed {grace} s after the signal, in the middle of a drain of {drain} s"
    );
    let container = &pod["containers"][0];
    let mounts: Vec<&str> = container["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|m| m["mountPath"].as_str())
        .collect();
    let config_file = Path::new(container["args"][2].as_str().unwrap());
    assert!(mounts.contains(&config_file.parent().unwrap().to_str().unwrap()), "{mounts:?}");
    assert!(mounts.contains(&config["plugins"]["dir"].as_str().unwrap()), "{mounts:?}");
    assert!(mounts.contains(&config["state_dir"].as_str().unwrap()), "{mounts:?}");
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    for (name, path) in
        [("livenessProbe", "/livez"), ("readinessProbe", "/readyz"), ("startupProbe", "/livez")]
    {
        assert_eq!(container[name]["httpGet"], json!({"path": path, "port": "admin"}), "{name}");
    }
    let port = |name: &str| {
        let ports = container["ports"].as_array().unwrap();
        ports.iter().find(|p| p["name"] == name).map(|p| p["containerPort"].to_string()).unwrap()
    };
    for (key, name) in [("listen", "http"), ("admin", "admin")] {
        assert_eq!(config[key].as_str().unwrap().rsplit(':').next().unwrap(), port(name), "{key}");
    }
}

#[test]
fn the_unit_waits_for_a_drain_by_the_defaults() {
    let unit = std::fs::read_to_string("../examples/systemd/sluice.service").unwrap();
    let value =
        |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{key}"));
    let stop: u64 = value("TimeoutStopSec=").trim_end_matches('s').parse().unwrap();
    assert!(stop >= 5 + 60 + 5, "killed after {stop} s");
    assert_eq!(value("KillSignal="), "SIGTERM");
    assert!(
        !unit.lines().any(|line| line.starts_with("MemoryDenyWriteExecute=yes")),
        "plugins could not run"
    );
}
