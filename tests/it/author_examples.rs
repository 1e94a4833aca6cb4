//! The example plugins: every one against its cases, and in a gateway that serves calls.

use std::fs;

use harness::prelude::*;

use crate::author_support::{root, sluice};

/// Every folder of `examples/plugins`.
fn examples() -> Vec<String> {
    let entries = fs::read_dir(root().join("examples/plugins")).expect("the examples");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn component(name: &str) -> Vec<u8> {
    fs::read(root().join(format!("examples/plugins/{name}/{name}.wasm"))).expect("a built example")
}

#[tokio::test]
async fn every_example_answers_its_cases() {
    let names = examples();
    assert!(names.len() >= 7, "{names:?}");
    // Away from its sidecar: the cases have settings of their own.
    let here = tempfile::tempdir().expect("a folder");
    for name in names {
        let (file, cases) = (format!("{name}.wasm"), root().join(format!("examples/plugins/{name}/cases")));
        fs::write(here.path().join(&file), component(&name)).expect("written");
        let said =
            sluice(here.path(), &["plugin", "test", &file, "--cases", cases.to_str().expect("text")]).await;
        assert_eq!(said.code, 0, "{name}: {}", said.all());
        assert!(!said.out.contains("\n0 cases"), "{name}: {}", said.all());
        let bench = sluice(
            here.path(),
            ["plugin", "bench", &file, "--calls", "10", "--json", "--case"]
                .into_iter()
                .chain([first_case(&cases).to_str().expect("text")])
                .collect::<Vec<_>>()
                .as_slice(),
        )
        .await;
        assert_eq!(bench.code, 0, "{name}: {}", bench.all());
    }
}

/// The file whose settings are good ones.
fn first_case(dir: &std::path::Path) -> std::path::PathBuf {
    let files = fs::read_dir(dir).expect("cases").map(|entry| entry.expect("an entry").path());
    files.filter(|path| !path.ends_with("refused.json")).min().expect("a file of cases")
}

#[tokio::test]
async fn a_gateway_runs_them_together() {
    let prices = |input: f64| json!({"input": input, "output": input});
    let x = Setup::new()
        .set("/upstreams/A/models/a1/price", prices(9.0))
        .set("/upstreams/B/models/b1/price", prices(1.0))
        .file("plugins.d/cheapest-within-latency.wasm", component("cheapest-within-latency"))
        .file("plugins.d/sticky-session.wasm", component("sticky-session"))
        .file("plugins.d/cost-tagger.wasm", component("cost-tagger"))
        .start()
        .await;
    let r = x.plain("chat").await;
    r.answered();
    assert_eq!(r.json()["model"], "b1", "the cheaper target: {r:?}");
    let cost = r.header("x-estimated-cost").unwrap_or_else(|| panic!("no cost: {r:?}"));
    assert!(cost.ends_with(" USD"), "{cost}");
    let record = x.record(&r).await;
    let names: Vec<_> =
        record["plugins"].as_array().expect("plugins").iter().map(|p| p["name"].as_str().unwrap()).collect();
    for name in ["cheapest-within-latency", "sticky-session", "cost-tagger"] {
        assert!(names.contains(&name), "{name} was not asked: {record}");
    }
    assert!(record["tags"]["cost"].as_str().is_some_and(|cost| cost.ends_with(" USD")), "{record}");
    x.end().await;
}

/// The sidecar beside an example, with names of this gateway's in the place of its own.
fn sidecar(name: &str, names: &[(&str, &str)]) -> String {
    let path = root().join("examples/plugins").join(name).join(format!("{name}.yaml"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    names.iter().fold(text, |text, (theirs, ours)| {
        assert!(text.contains(theirs), "{name}.yaml does not name {theirs}");
        text.replace(theirs, ours)
    })
}

#[tokio::test]
async fn a_gateway_takes_the_sidecars_beside_them() {
    let x = Setup::new()
        .set("/plugins/headers", json!(["x-data-residency"]))
        .set("/upstreams/A/models/a1/region", "eu-west")
        .set("/upstreams/B/models/b1/region", "us-east")
        .file("plugins.d/data-residency.wasm", component("data-residency"))
        .file("plugins.d/data-residency.yaml", sidecar("data-residency", &[]))
        .file("plugins.d/long-prompt.wasm", component("long-prompt"))
        .file(
            "plugins.d/long-prompt.yaml",
            sidecar("long-prompt", &[("cloud/large-context", "B/b1"), ("8000", "2000")]),
        )
        .file("plugins.d/provider-quirks.wasm", component("provider-quirks"))
        .file(
            "plugins.d/provider-quirks.yaml",
            sidecar(
                "provider-quirks",
                &[("upstream: relay", "upstream: A"), ("upstream: local", "upstream: B")],
            ),
        )
        .start()
        .await;
    let page = x.gateway.admin_json("/debug/plugins").await;
    for name in ["data-residency", "long-prompt", "provider-quirks"] {
        let entry = page["plugins"].as_array().unwrap().iter().find(|entry| entry["name"] == name);
        assert!(entry.is_some_and(|entry| entry["state"] == "active"), "{name}: {page:#}");
    }
    let within = |region: &str| x.plain("chat").header("x-data-residency", region);
    assert_eq!(within("eu").await.answered().json()["model"], "a1");
    assert_eq!(within("us").await.answered().json()["model"], "b1");
    x.plain("chat").await.refused(403, "excluded_by_policy");
    // The table of quirks turns a 400 of A into a failure that another target can mend; where only A may serve, it is the end.
    let busy = json!({"error": {"message": "model is busy", "type": "invalid_request_error", "code": null}});
    x.a.queue(JSON(400, &busy));
    within("eu").await.refused(502, "retryable_upstream");
    // A long prompt prefers B, and does not get where it may not go.
    let long = json!([{"role": "user", "content": "word ".repeat(2000)}]);
    let r = within("eu").set("messages", long).await;
    assert_eq!(r.answered().json()["model"], "a1", "{r:?}");
    // With its own target down, there is one that could answer, and it still may not.
    let served = x.b.calls();
    for _ in 0..3 {
        x.a.queue(STATUS(503));
        within("eu").await.refused(503, "retryable_upstream");
    }
    x.breaker_is("A/a1", "open", 3).await;
    within("eu").await.refused(503, "no_healthy_target");
    assert_eq!(x.b.calls(), served, "the other region was called");
    // Taken away, it excludes nothing any more, whatever its sidecar said.
    for file in ["data-residency.wasm", "data-residency.yaml"] {
        fs::remove_file(x.gateway.dir().join("plugins.d").join(file)).expect("it is there");
    }
    assert!(
        x.poll(harness::PATIENCE, async || x.plain("chat").await.status == 200).await,
        "it still excludes"
    );
    x.end().await;
}
