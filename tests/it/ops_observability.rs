//! The dashboard and the alerts of `examples/observability`, asked of a real Prometheus that scrapes a real
//! gateway: a query with a misspelt name gives no error, only an empty panel, and nobody notices.

use std::path::Path;
use std::process::Stdio;

use harness::client::{fetch, get};
use harness::prelude::*;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use crate::running::start;

const EXAMPLES: &str = "../examples/observability";

/// A Prometheus of our own.
struct Prometheus {
    _child: Child,
    _dir: tempfile::TempDir,
    _reader: JoinSet<()>,
    addr: std::net::SocketAddr,
}

impl Prometheus {
    async fn scraping(x: &Case) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "global: {{ scrape_interval: 200ms, scrape_timeout: 200ms }}\n\
             scrape_configs: [ {{ job_name: sluice, static_configs: [ {{ targets: [ '{}' ] }} ] }} ]\n",
            x.gateway.admin_addr()
        );
        std::fs::write(dir.path().join("prometheus.yaml"), config).unwrap();
        let mut child = Command::new("prometheus")
            .current_dir(dir.path())
            .args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--log.format=json"])
            .arg("--web.listen-address=127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("Debian's prometheus is installed (tests/run does it)");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let listening = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                let line: Value = serde_json::from_str(&line).unwrap_or_default();
                if line["msg"] == "Listening on" {
                    return line["address"].as_str().unwrap().parse().unwrap();
                }
            }
            panic!("Prometheus ended before it listened")
        };
        let addr = tokio::time::timeout(harness::PATIENCE, listening).await.expect("Prometheus starts");
        // It writes on; nobody must stop it for want of a reader.
        let mut reader = JoinSet::new();
        reader.spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let ready =
            x.poll(harness::PATIENCE, async || fetch(addr, &get("/-/ready")).await.status == 200).await;
        assert!(ready, "Prometheus does not become ready");
        Self { _child: child, _dir: dir, _reader: reader, addr }
    }

    /// Samples that a query gives now.
    async fn samples(&self, query: &str) -> usize {
        let query = utf8_percent_encode(query, NON_ALPHANUMERIC);
        let answer = fetch(self.addr, &get(&format!("/api/v1/query?query={query}"))).await.json();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().unwrap().len()
    }
}

/// Every panel's queries, with its variables filled in.
fn dashboard() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(Path::new(EXAMPLES).join("grafana-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            let query = query.replace("$__rate_interval", "30s").replace("$model", ".*");
            queries.push((panel["title"].as_str().unwrap().to_owned(), query));
        }
    }
    queries
}

/// A gateway in which every kind of trouble can be had with few calls.
fn narrow() -> Setup {
    Setup::new()
        .set("/upstreams/A/max_in_flight", 1)
        .set("/upstreams/A/queue", 1)
        .set("/upstreams/A/queue_wait", "10s")
        .set("/defaults/retry/upstream", 1)
        .set("/defaults/budget", "20s")
        .set("/defaults/idle", "off")
}

/// One of everything that a dashboard shows: answers, a retry, a fallback, a broken stream, a queue, a refusal.
async fn traffic(x: &Case) {
    x.call("chat").await.answered();
    x.plain("chat").await.answered();
    x.a.queue(STATUS(503));
    x.call("chat").await.answered().tags("A/a1", false);
    x.a.queue(STATUS(503));
    x.a.queue(STATUS(503));
    x.call("chat").await.answered().tags("B/b1", true);
    // A breaker that opens would end the day early.
    x.call("chat").await.answered().tags("A/a1", false);
    x.a.queue([ROLE, TXT("one "), CUT]);
    x.call("chat").await.broken_stream("one ");
    let latch = Latch::new();
    x.a.queue([ROLE, TXT("one "), HOLD(&latch), TXT("two "), TXT("three"), FIN("stop"), DONE]);
    let mut first = x.call("solo").begin().await;
    first.contents(1).await;
    let second = start(x.call("solo"));
    x.metric_becomes("sluice_gate_queue_depth", &[("gate", "upstream:A")], 1.0).await;
    x.call("solo").await.refused(503, "queue_full");
    latch.open();
    first.finish().await.answered();
    second.answer().await.answered();
}

#[tokio::test]
async fn every_query_of_the_dashboard_has_an_answer() {
    let router = std::fs::read("../plugins/weighted-router/weighted-router.wasm").unwrap();
    let x = narrow().file("plugins.d/own-router.wasm", router).start().await;
    traffic(&x).await;
    let prometheus = Prometheus::scraping(&x).await;
    let queries = dashboard();
    assert!(queries.len() >= 30, "a dashboard of {} queries", queries.len());
    for (panel, query) in queries {
        // A rate needs two scrapes.
        let found = x.poll(harness::PATIENCE, async || prometheus.samples(&query).await > 0).await;
        assert!(found, "panel {panel:?} stays empty: {query}");
    }
    assert_eq!(prometheus.samples("sluice_no_such_metric").await, 0, "the check can tell");
    x.end().await;
}

/// Metric names and label names of a query.
fn names(query: &str) -> (Vec<String>, Vec<String>) {
    let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let metrics = words.filter(|word| word.starts_with("sluice_")).map(str::to_owned).collect();
    let mut labels = Vec::new();
    for part in query.split('{').skip(1) {
        let matchers = part.split('}').next().unwrap_or_default();
        labels
            .extend(matchers.split(',').filter_map(|m| Some(m.split(['=', '!']).next()?.trim().to_owned())));
    }
    for part in query.split("by (").skip(1) {
        labels.extend(part.split(')').next().unwrap_or_default().split(',').map(|l| l.trim().to_owned()));
    }
    // Prometheus adds the instance when it scrapes.
    labels.retain(|label| label != "instance");
    (metrics, labels)
}

#[tokio::test]
async fn the_alerts_fire_on_what_they_name_and_name_what_is_there() {
    for args in [
        ["check", "rules", "../examples/observability/alerts.yaml"],
        ["test", "rules", "observability/alerts_test.yaml"],
    ] {
        let output = Command::new("promtool").args(args).output().await;
        let output = output.expect("Debian's prometheus is installed (tests/run does it)");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&said));
    }
    let x = narrow()
        .set("/retry_budget", json!({"ratio": 0, "min_per_second": 100, "window": "1s"}))
        .start()
        .await;
    traffic(&x).await;
    let page = String::from_utf8(x.gateway.admin_page("/metrics").await.body).unwrap();
    let alerts = std::fs::read_to_string(Path::new(EXAMPLES).join("alerts.yaml")).unwrap();
    let expressions: Vec<&str> =
        alerts.split("- alert: ").skip(1).map(|rule| rule.split("labels:").next().unwrap()).collect();
    assert!(expressions.len() >= 10);
    for rule in expressions {
        let (metrics, labels) = names(rule);
        assert!(!metrics.is_empty(), "{rule}");
        for label in &labels {
            let known = metrics.iter().any(|metric| {
                page.lines()
                    .any(|line| line.starts_with(metric.as_str()) && line.contains(&format!("{label}=\"")))
            });
            let told = page.contains(&format!("# HELP {} ", metrics[0]));
            assert!(known || (told && label == "le"), "no {metrics:?} has a label {label:?}: {rule}");
        }
        for metric in &metrics {
            assert!(
                page.lines().any(|line| line.starts_with(metric.as_str())),
                "{metric} is not there: {rule}"
            );
        }
    }
    x.end().await;
}
