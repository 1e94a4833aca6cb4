//! `sluice plugin check`, `test` and `bench`, and `sluice plugins`: they say what a gateway would do, in its words.

use std::fs;
use std::path::Path;

use harness::prelude::*;

use crate::author_support::sluice;
use crate::guests::{entry, guest, put};

fn folder(guests: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in guests {
        fs::write(folder.path().join(format!("{name}.wasm")), guest(name)).expect("written");
    }
    folder
}

fn cases(folder: &Path, text: &str) {
    fs::create_dir_all(folder.join("cases")).expect("a folder");
    fs::write(folder.join("cases/c.json"), text).expect("written");
}

#[tokio::test]
async fn check_says_of_a_file_what_a_gateway_says_of_it() {
    let bad = [
        "wrong-world",
        "wrong-shape",
        "extra-import",
        "trap-probe",
        "trap-configure",
        "loop-start",
        "error-configure",
    ];
    let here = folder(&bad);
    fs::write(here.path().join("noise.wasm"), b"not wasm at all").expect("written");
    let x = Setup::new().start().await;
    for name in bad.into_iter().chain(["noise"]) {
        let file = format!("{name}.wasm");
        put(&x, &file, &fs::read(here.path().join(&file)).expect("there"));
        let rejected =
            x.poll(harness::PATIENCE, async || !entry(&x, name).await["rejection"].is_null()).await;
        assert!(rejected, "{name}: {}", x.gateway.log());
        let page = &entry(&x, name).await["rejection"];
        let (reason, message) = (page["reason"].as_str().unwrap(), page["message"].as_str().unwrap());
        let said = sluice(here.path(), &["plugin", "check", &file]).await;
        assert_eq!(said.code, 1, "{name}: {}", said.all());
        assert!(
            said.out.starts_with(&format!("rejected: {file} ({reason}): {message}\n")),
            "{page} {}",
            said.all()
        );
        let told = sluice(here.path(), &["plugin", "check", "--json", &file]).await;
        let told: Value = serde_json::from_str(&told.out).expect("JSON");
        assert_eq!(
            (&told["admitted"], &told["reason"], &told["message"]),
            (&json!(false), &json!(reason), &json!(message))
        );
    }
    x.end().await;
}

#[tokio::test]
async fn check_admits_what_runs_and_knows_a_mistake_of_its_user() {
    let here = folder(&["all-kinds"]);
    let said = sluice(here.path(), &["plugin", "check", "all-kinds.wasm"]).await;
    assert_eq!(said.code, 0, "{}", said.all());
    let line = "ok: all-kinds.wasm would run: router, classifier, tagger ";
    assert!(said.out.starts_with(line) && said.out.contains(", contract 0.1.0"), "{}", said.all());
    fs::copy(here.path().join("all-kinds.wasm"), here.path().join("all-kinds.bin")).expect("a copy");
    fs::write(here.path().join("bad.yaml"), "routs: {}\n").expect("written");
    for (args, words) in [
        (&["gone.wasm"][..], "gone.wasm: no such file"),
        (&["all-kinds.bin"], "expected a name that ends in .wasm"),
        (&["all-kinds.wasm", "-c", "bad.yaml"], "unknown key \"routs\""),
    ] {
        let said = sluice(here.path(), &[&["plugin", "check"], args].concat()).await;
        assert_eq!(said.code, 2, "{args:?}: {}", said.all());
        assert!(said.err.contains(words), "{args:?}: {}", said.all());
    }
}

#[tokio::test]
async fn test_shows_where_an_answer_differs_and_ends_with_one() {
    let here = folder(&["all-kinds"]);
    let case = |order: &str, status: u32, header: &str| {
        format!(
            r#"{{"cases":[
            {{"name":"order","candidates":[{{"target":0}},{{"target":1}}],"expect":{{"order":{order}}}}},
            {{"name":"conflict","failure":{{"status":{status}}},"expect":{{"verdict":{{"kind":"invalid_request","action":"give_up"}}}}}},
            {{"name":"note","answer":{{}},"expect":{{"headers":{{"x-all-kinds":{header}}},"only":true}}}}]}}"#
        )
    };
    cases(here.path(), &case("[1,0]", 409, "\"yes\""));
    let said = sluice(here.path(), &["plugin", "test", "all-kinds.wasm"]).await;
    assert_eq!(said.code, 0, "{}", said.all());
    assert!(said.out.ends_with("\n3 cases, 0 failed\n"), "{}", said.all());
    cases(here.path(), &case("[0,1]", 500, "null"));
    let said = sluice(here.path(), &["plugin", "test", "all-kinds.wasm", "--cases", "cases"]).await;
    assert_eq!(said.code, 1, "{}", said.all());
    for line in [
        "FAIL cases/c.json: order",
        "       order: expected [0,1], got [1,0]",
        "FAIL cases/c.json: conflict",
        "       verdict: expected an opinion, got null",
        "FAIL cases/c.json: note",
        "       headers.x-all-kinds: expected null, got \"yes\"",
        "3 cases, 3 failed",
    ] {
        assert!(said.out.lines().any(|found| found == line), "no `{line}` in {}", said.all());
    }
}

#[tokio::test]
async fn test_points_at_a_mistake_in_a_case_before_it_asks_anything() {
    let here = folder(&["all-kinds"]);
    cases(
        here.path(),
        "{\n  \"cases\": [\n    { \"name\": \"n\", \"candidates\": [{ \"taget\": 0 }], \"expect\": {} }\n  ]\n}",
    );
    let said = sluice(here.path(), &["plugin", "test", "all-kinds.wasm"]).await;
    assert_eq!((said.code, &*said.out), (2, ""), "{}", said.all());
    assert!(
        said.err.starts_with("sluice: cases/c.json:3:43: unknown field `taget`, expected one of `target`"),
        "{}",
        said.all()
    );
    for empty in ["none", "."] {
        fs::create_dir_all(here.path().join("none")).expect("a folder");
        let said = sluice(here.path(), &["plugin", "test", "all-kinds.wasm", "--cases", empty]).await;
        assert_eq!(said.code, 2, "{}", said.all());
        assert!(said.err.contains("expected at least one file that ends in .json"), "{}", said.all());
    }
}

#[tokio::test]
async fn test_finds_a_plugin_that_keeps_something_between_calls() {
    let here = folder(&["counting-router"]);
    let case = r#"{"name":"NAME","candidates":[{"target":0},{"target":1}],"expect":{"votes":[{"score":1},{"score":1}]}}"#;
    let two = [case.replace("NAME", "first"), case.replace("NAME", "second")].join(",");
    cases(here.path(), &format!(r#"{{"cases":[{two}]}}"#));
    let said = sluice(here.path(), &["plugin", "test", "counting-router.wasm"]).await;
    assert_eq!(said.code, 1, "{}", said.all());
    assert!(said.out.contains("ok   cases/c.json: first\nFAIL cases/c.json: second\n"), "{}", said.all());
    assert!(
        said.out.contains("an instance that had answered other cases said something else"),
        "{}",
        said.all()
    );
}

#[tokio::test]
async fn bench_counts_the_same_every_time_and_more_for_more_candidates() {
    let here = folder(&["all-kinds", "trap-probe"]);
    let run = async || {
        let said =
            sluice(here.path(), &["plugin", "bench", "all-kinds.wasm", "--calls", "20", "--json"]).await;
        assert_eq!(said.code, 0, "{}", said.all());
        let told: Value = serde_json::from_str(&said.out).expect("JSON");
        told["rows"].as_array().expect("rows").clone()
    };
    let (one, other) = (run().await, run().await);
    let counts = |rows: &[Value]| rows.iter().map(|row| row["instructions"].clone()).collect::<Vec<_>>();
    assert_eq!(counts(&one), counts(&other));
    let of = |kind: &str| one.iter().filter(|row| row["kind"] == kind).collect::<Vec<_>>();
    let routers = of("router");
    let samples: Vec<_> = routers.iter().map(|row| row["sample"].as_str().unwrap()).collect();
    assert_eq!(samples, ["2 candidates", "8 candidates", "32 candidates", "128 candidates"]);
    let warm: Vec<_> = routers.iter().map(|row| row["instructions"]["warm"].as_u64().unwrap()).collect();
    assert!(warm.is_sorted_by(|less, more| less < more) && warm[0] > 100, "{warm:?}");
    for row in &routers {
        let count = |call: &str| row["instructions"][call].as_u64().unwrap();
        assert!(count("warm") < 2 * count("first"), "a warm call is one call: {row}");
    }
    assert!(!of("classifier").is_empty() && !of("tagger").is_empty());
    for row in &one {
        for times in [&row["warm"], &row["fresh"]] {
            let (p50, p99) = (times["p50_us"].as_f64().unwrap(), times["p99_us"].as_f64().unwrap());
            assert!(p50 > 0.0 && p99 >= p50, "{row}");
        }
        assert!(row["instructions"]["start"].as_u64().unwrap() > 0, "{row}");
    }
    let said = sluice(here.path(), &["plugin", "bench", "trap-probe.wasm"]).await;
    assert_eq!(said.code, 1, "{}", said.all());
    assert!(said.out.starts_with("rejected: trap-probe.wasm (probe): "), "{}", said.all());
}

#[tokio::test]
async fn plugins_shows_what_runs_and_what_was_refused() {
    let x = Setup::new().file("plugins.d/last.wasm", guest("reverse-router")).start().await;
    x.plain("chat").await.answered();
    put(&x, "bad.wasm", b"nothing");
    assert!(x.poll(harness::PATIENCE, async || !entry(&x, "bad").await["rejection"].is_null()).await);
    let admin = x.gateway.admin_addr().to_string();
    let here = tempfile::tempdir().expect("a folder");
    let said = sluice(here.path(), &["plugins", "--admin", &admin]).await;
    assert_eq!(said.code, 0, "{}", said.all());
    let row = |name: &str| {
        said.out
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")))
            .unwrap_or_else(|| panic!("{name}: {}", said.all()))
    };
    let digest = entry(&x, "last").await["digest"].as_str().unwrap()[..8].to_owned();
    for word in ["router", "active", &digest, "0.1.0", "last.wasm", " 1 "] {
        assert!(row("last").contains(word), "{word}: {}", said.all());
    }
    assert!(
        row("bad").contains("rejected") && row("standard-tagger").contains("(bundled)"),
        "{}",
        said.all()
    );
    assert!(said.out.contains("\nbad: rejected at ") && said.out.contains("(magic, "), "{}", said.all());
    let page = sluice(here.path(), &["plugins", "--admin", &admin, "--json"]).await;
    let page: Value = serde_json::from_str(&page.out).expect("the page");
    assert_eq!(page["plugins"].as_array().expect("a list").len(), 5, "{page}");
    // The main listener has no such page; nobody listens on port 1.
    let main = x.gateway.addr().to_string();
    for (address, words) in
        [(main.as_str(), "is this the admin listener"), ("127.0.0.1:1", "no gateway answers at")]
    {
        let said = sluice(here.path(), &["plugins", "--admin", address]).await;
        assert_eq!(said.code, 1, "{}", said.all());
        assert!(said.err.contains(words), "{}", said.all());
    }
    x.end().await;
}
