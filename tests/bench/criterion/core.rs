//! What the pure decisions cost: reading events, reading and rewriting bodies, planning, the breaker.
//!
//! `cargo bench --workspace --bench core`
#![allow(
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark that cannot be set up stops; criterion's macro makes the items"
)]

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use sluice_core::breaker::{Breaker, Lesson, RateRule, Settings};
use sluice_core::lens::chat::{read_answer, read_event};
use sluice_core::lens::request::RequestBody;
use sluice_core::lens::wire::Wire;
use sluice_core::plan::{Plan, Standing};
use sluice_core::sse::Scanner;

const EVENT: &str = r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" of them were open"},"finish_reason":null}]}"#;

/// Events in a row, and the same cut where a connection may cut them.
fn scanner(c: &mut Criterion) {
    let stream = Bytes::from(format!("{EVENT}\n\n").repeat(1000));
    let mut group = c.benchmark_group("scanner");
    group.throughput(Throughput::Bytes(stream.len() as u64));
    for (name, piece) in
        [("16 KiB reads", 16 << 10), ("1400 byte reads", 1400), ("an event a read", EVENT.len() + 2)]
    {
        group.bench_function(name, |b| {
            b.iter(|| {
                let (mut scanner, mut seen, mut at) = (Scanner::new(16 << 20), 0, 0);
                while at < stream.len() {
                    let end = stream.len().min(at + piece);
                    scanner.push(stream.slice(at..end));
                    at = end;
                    while let Some(event) = scanner.next_event().expect("no event is too large") {
                        black_box(event);
                        seen += 1;
                    }
                }
                assert_eq!(seen, 1000);
            });
        });
    }
    group.finish();
}

fn lens(c: &mut Criterion) {
    let event = EVENT.trim_start_matches("data: ").as_bytes();
    c.bench_function("lens/event", |b| b.iter(|| black_box(read_event(black_box(event)))));

    let text = "word ".repeat(150);
    let answer = format!(
        r#"{{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":9,"completion_tokens":20,"total_tokens":29}}}}"#
    );
    c.bench_function("lens/answer of 1 KB", |b| {
        b.iter(|| black_box(read_answer(black_box(answer.as_bytes()))))
    });

    let mut group = c.benchmark_group("lens/request");
    for (name, words) in [("1 KB", 150), ("100 KB", 20_000), ("10 MB", 2_000_000)] {
        let prompt = "word ".repeat(words);
        let body = format!(
            r#"{{"model":"chat","stream":true,"temperature":0.2,"messages":[{{"role":"system","content":"Be brief."}},{{"role":"user","content":"{prompt}"}}]}}"#
        );
        let body = Bytes::from(body);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |b| {
            b.iter(|| {
                let request = RequestBody::read(body.clone(), Wire::Chat).expect("a body");
                black_box(request.with_model("gpt-4o-mini", &[]))
            });
        });
    }
    group.finish();
}

fn plan(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan");
    for targets in [2_usize, 8, 32, 128] {
        let standings = vec![Standing::Able; targets];
        let scores: Vec<Option<f64>> = (0..targets).map(|n| Some((n * 37 % 101) as f64 / 101.0)).collect();
        group.bench_function(format!("{targets} targets"), |b| {
            b.iter(|| black_box(Plan::new(black_box(&standings), black_box(&scores))));
        });
    }
    group.finish();
}

fn breaker(c: &mut Criterion) {
    let now = harness::now();
    let rate = Some(RateRule { window: 20, min: 10, ratio: 0.5 });
    let settings =
        Settings { consecutive: 5, rate, open: Duration::from_secs(30), open_max: Duration::from_secs(300) };
    c.bench_function("breaker/admit and settle", |b| {
        b.iter_batched_ref(
            || Breaker::new(settings),
            |breaker| {
                for n in 0..100 {
                    let (ticket, _) = breaker.admit(now).expect("it is closed");
                    let lesson = if n % 3 == 0 { Lesson::Failure } else { Lesson::Success };
                    black_box(breaker.settle(ticket, lesson, now, 1.0));
                }
            },
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, scanner, lens, plan, breaker);
criterion_main!(benches);
