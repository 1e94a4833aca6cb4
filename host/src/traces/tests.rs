//! What does not depend on how fast a machine is. Spans and collectors have their tests among the scenarios.

use std::net::TcpListener;

use super::*;
use crate::clock;
use crate::config::{Log, LogFormat};
use crate::telemetry::log::tests::capturing;
use crate::telemetry::metrics::Names;
use crate::telemetry::record::tests::sample;
use crate::telemetry::traces::Trace;

fn traced() -> Traced {
    let trace = Trace { trace_id: 1, span_id: 2, parent: None, attempts: Vec::new() };
    Traced { record: Arc::new(sample()), trace: Box::new(trace) }
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_says_nothing_is_waited_for_no_longer_than_was_said() {
    // It takes connections, and that is all.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!(
        "{{upstreams: {{a: {{base_url: 'http://h/v1', models: {{m: {{}}}}}}}}, routes: {{r: {{targets: [a/m]}}}}, \
         traces: {{otlp: 'http://{}'}}}}",
        silent.local_addr().unwrap()
    );
    let config = crate::config::parse(&text, std::path::Path::new("test.yaml"), &|_| None).unwrap().config;
    // While a batch is on its way, and while one waits for another try.
    for begun in [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(11)] {
        let log = Log { level: "off".into(), format: LogFormat::Json, records: false };
        let telemetry = Telemetry::new(&Names::default(), &log, 0, capturing(LogFormat::Json).0).unwrap();
        let courier = Courier::new(&telemetry);
        courier.take(config.traces.as_ref()).unwrap();
        for _ in 0..3 * BATCH {
            telemetry.traces().push(traced());
        }
        tokio::time::sleep(begun).await;
        let told = clock::now();
        courier.close().await;
        let took = clock::now() - told;
        assert!(took <= LAST + Duration::from_millis(10), "begun {begun:?} before, it took {took:?}");
    }
}
