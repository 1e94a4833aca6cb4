#![allow(clippy::unwrap_used, reason = "a test may stop where it fails")]

use std::path::PathBuf;

use super::*;

fn times(p50: u64) -> Option<Times> {
    let ms = Duration::from_millis;
    Some(Times { p50: ms(p50), p95: ms(p50 * 2), p99: ms(p50 * 500) })
}

fn row(scenario: Scenario) -> Row {
    Row {
        scenario,
        first_choice: "a/m".into(),
        expect: Expect::Served,
        requests: 100,
        errors: 0,
        interrupted: 0,
        fallbacks: 0,
        codes: BTreeMap::new(),
        budget_denied: 0,
        times: times(20),
        first: times(3),
        p99_ratio: Some(1.0 / 3.0),
        breakers: Vec::new(),
        broken: Vec::new(),
    }
}

fn found() -> (Vec<Section>, Order) {
    let broken = Broken {
        promise: "served",
        text: "2 of 100 calls: an error\u{1b}[31m".to_owned(),
        request_id: Some("drill-call-7".to_owned()),
    };
    let codes = BTreeMap::from([("upstream_interrupted".to_owned(), 3)]);
    let why = "after the first content nothing can replace an answer".to_owned();
    let rows = vec![
        row(Scenario::Healthy),
        Row {
            errors: 2,
            fallbacks: 98,
            breakers: vec![("a/m".into(), "open", 1)],
            broken: vec![broken],
            ..row(Scenario::Unavailable)
        },
        Row {
            requests: 20,
            errors: 3,
            interrupted: 3,
            codes,
            expect: Expect::Clean(why),
            ..row(Scenario::Cut)
        },
    ];
    let section =
        Section { route: "chat\n".into(), form: Form::Stream, direct: times(19), direct_first: None, rows };
    let order = Order {
        config: PathBuf::from("sluice.yaml"),
        routes: Vec::new(),
        headers: Vec::new(),
        scenarios: Scenario::ALL.to_vec(),
        forms: vec![Form::Stream],
        requests: 100,
        concurrency: 10,
        max_p99_ratio: None,
        timeout: Duration::from_secs(60),
        json: false,
    };
    (vec![section], order)
}

#[test]
fn the_table_is_aligned_and_says_what_is_broken() {
    let (sections, order) = found();
    let mut out = Vec::new();
    section(&sections[0], &order, &mut out).unwrap();
    summary(&sections, Duration::from_secs(12), &mut out).unwrap();
    let want = "\
route chat\u{fffd}, streaming: 100 calls, 10 at a time
  scenario  errors  fallbacks      P50      P95      P99  first P50  first P95  breaker
  direct         -          -  19.0 ms  38.0 ms  9500 ms          -          -  -
  healthy        0          0  20.0 ms  40.0 ms   10.0 s     3.0 ms     6.0 ms  -
  503            2         98  20.0 ms  40.0 ms   10.0 s     3.0 ms     6.0 ms  a/m open ×1
  cut            3          0  20.0 ms  40.0 ms   10.0 s     3.0 ms     6.0 ms  -
  BROKEN 503 served: 2 of 100 calls: an error\u{fffd}[31m (request drill-call-7)
  cut: 20 calls only: each waits, and no breaker spares the later ones
  cut: 3 clean errors (upstream_interrupted ×3): after the first content nothing can replace an answer

1 promise was broken in 3 scenarios; 12.0 s
";
    assert_eq!(String::from_utf8(out).unwrap(), want);
}

#[test]
fn the_document_has_the_fields_that_scripts_rely_on() {
    let (sections, order) = found();
    let document = document(&sections, &order, Duration::from_micros(1_234_567));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&document), "concurrency config duration_ms kept max_p99_ratio requests scenarios");
    assert_eq!((&document["kept"], &document["duration_ms"]), (&json!(false), &json!(1234.57)));
    let row = &document["scenarios"][1];
    assert_eq!(
        keys(row),
        "breaker broken codes direct_first_content_ms direct_ms errors errors_because fallbacks \
         first_choice first_content_ms form interrupted ms p99_ratio requests retry_budget_denied route \
         scenario served_expected"
    );
    assert_eq!(row["ms"], json!({"p50": 20.0, "p95": 40.0, "p99": 10000.0}));
    assert_eq!((&row["direct_first_content_ms"], &row["p99_ratio"]), (&Value::Null, &json!(0.33)));
    assert_eq!(row["breaker"], json!([{"target": "a/m", "to": "open", "count": 1}]));
    assert_eq!(row["broken"][0]["request_id"], "drill-call-7");
    let cut = &document["scenarios"][2];
    assert_eq!((&cut["served_expected"], &cut["codes"]["upstream_interrupted"]), (&json!(false), &json!(3)));
}
