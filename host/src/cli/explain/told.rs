//! How an explanation is told: to people, a step after the other, and to machines as one document.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Map, Value, json};
use sluice_core::facts::{Candidate, RequestFacts};
use sluice_core::verdict::Action;

use crate::config::MinBudget;
use crate::gateway::{Explained, Follows};

/// For people.
///
/// # Errors
/// What writing gives.
pub fn text(explained: &Explained, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    request(&explained.facts, &mut text);
    if let Some((route, budget)) = &explained.route {
        line(
            &mut text,
            &format!(
                "route {}: budget {}, of which {} are kept back; at most {} switches",
                route.name,
                time(*budget),
                time(route.reserve.min(*budget / 4)),
                route.max_switches
            ),
        );
        targets(explained, &mut text);
        scores(explained, &mut text);
        let order: Vec<&str> = explained.order.iter().map(|target| &**target).collect();
        line(
            &mut text,
            &format!("order: {}", if order.is_empty() { "nobody".to_owned() } else { order.join(", ") }),
        );
        steps(explained, &mut text);
    }
    answer(explained, &mut text);
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn request(facts: &RequestFacts, text: &mut String) {
    let mut parts = vec![
        if facts.streaming { "a stream".to_owned() } else { "no stream".to_owned() },
        format!("{} messages, about {} tokens", facts.messages, facts.input_tokens),
    ];
    parts.extend(facts.max_output_tokens.map(|most| format!("at most {most} tokens of answer")));
    let needs = [(facts.tools, "tools"), (facts.images, "images"), (facts.json_output, "json output")];
    parts.extend(needs.iter().filter(|(needed, _)| *needed).map(|(_, name)| (*name).to_owned()));
    parts.extend(facts.task.as_ref().map(|task| format!("task {task}")));
    parts.extend(facts.caller.as_ref().map(|caller| format!("caller {caller}")));
    parts.extend(facts.affinity.map(|affinity| format!("affinity {affinity:016x}")));
    parts.extend(facts.headers.iter().map(|(name, value)| format!("{name}: {value}")));
    line(text, &format!("request for {}: {}", facts.model, parts.join("; ")));
}

fn targets(explained: &Explained, text: &mut String) {
    line(text, "targets:");
    for target in &explained.targets {
        let first = if target.first_choice { ", the first choice" } else { "" };
        let stands = if target.left_out.is_empty() {
            "can take it".to_owned()
        } else {
            format!("left out: {}", target.left_out.join(", "))
        };
        line(text, &format!("  {}: {stands}{first}", target.target));
        if let Some(facts) = &target.facts {
            let score = target.score.map_or("excluded".to_owned(), |score| format!("{score:.3}"));
            line(text, &format!("    score {score}; {}", seen(facts)));
        }
    }
}

/// What a router sees of a candidate.
fn seen(facts: &Candidate) -> String {
    let mut text = format!(
        "health {:.2} of {} attempts, {} of {} in flight, breaker {}",
        facts.health,
        facts.samples,
        facts.in_flight,
        facts.capacity,
        facts.breaker.as_str()
    );
    if let Some(p50) = facts.latency_p50_ms {
        // Writing to a string cannot fail.
        let _ = write!(text, ", latency P50 {p50:.0} ms");
    }
    if let Some(quota) = facts.quota_left {
        let _ = write!(text, ", quota left {quota:.2}");
    }
    text
}

fn scores(explained: &Explained, text: &mut String) {
    if explained.scores.is_empty() {
        line(text, "routers: not asked, since there is nothing to choose");
        return;
    }
    line(text, "routers:");
    for row in &explained.scores {
        let score = row.score.map_or("excludes it".to_owned(), |score| format!("{score:.3}"));
        let reason = row.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        line(text, &format!("  {} on {}: {score}{reason}", row.router, row.target));
    }
}

fn steps(explained: &Explained, text: &mut String) {
    for (at, step) in explained.steps.iter().enumerate() {
        let first = step.first_content.map(|first| format!(" (first content within {})", time(first)));
        line(
            text,
            &format!(
                "attempt {}: {}, {}: left for another after {}{}; {} until the deadline",
                at + 1,
                step.target,
                step.role.as_str(),
                time(step.limit),
                first.unwrap_or_default(),
                time(step.left)
            ),
        );
        if let Some(most) = step.max_tokens {
            line(text, &format!("  its answer is limited to {most} tokens"));
        }
        if let Some(verdict) = &step.verdict {
            let ended_by_time = step.follows == Follows::Deadline && verdict.plugin.is_none();
            let otherwise = if ended_by_time { "the clock" } else { "last-resort" };
            let plugin = verdict.plugin.as_deref().unwrap_or(otherwise);
            line(
                text,
                &format!(
                    "  it fails: {plugin} says {}, {}, breaker {}",
                    verdict.kind,
                    action(&verdict.action),
                    verdict.breaker.as_str()
                ),
            );
        }
        line(text, &format!("  {}", follows(step.follows)));
    }
    match explained.mishaps_left {
        0 => {}
        1 => line(text, "the last --failure was not needed: there is no attempt for it"),
        more => {
            line(text, &format!("the last {more} --failure were not needed: there are no attempts for them"))
        }
    }
}

fn action(action: &Action) -> String {
    match action {
        Action::GiveUp => "give up".to_owned(),
        Action::RetrySame(Some(wait)) => format!("retry there after {}", time(*wait)),
        Action::RetrySame(None) => "retry there".to_owned(),
        Action::Switch => "switch".to_owned(),
    }
}

fn follows(follows: Follows) -> String {
    match follows {
        Follows::Served => "it serves".to_owned(),
        Follows::Retry { other_credential: true, .. } => "so: again with another credential".to_owned(),
        Follows::Retry { after, .. } => format!("so: again after {}", time(after)),
        Follows::Switch => "so: on to the next target".to_owned(),
        Follows::End { budget_denied: true } => "so: the end; the retry budget forbids more".to_owned(),
        Follows::End { budget_denied: false } => "so: the end".to_owned(),
        Follows::Deadline => "so: the end, the deadline is there".to_owned(),
    }
}

fn answer(explained: &Explained, text: &mut String) {
    let error = error(explained);
    match error
        .as_ref()
        .map(|error| (error["code"].to_string(), error["message"].as_str().unwrap_or_default()))
    {
        Some((code, message)) => {
            line(text, &format!("answer: {} {}: {message}", explained.status, code.trim_matches('"')));
        }
        None => line(text, &format!("answer: {}", explained.status)),
    }
    for (name, value) in headers(&explained.headers) {
        line(text, &format!("  {name}: {}", value.as_str().unwrap_or_default()));
    }
}

/// The error object; none: it would be served.
fn error(explained: &Explained) -> Option<Value> {
    let body: Value = serde_json::from_slice(explained.error.as_ref()?).unwrap_or_default();
    Some(body["error"].clone())
}

/// What of the headers says something here: not the times and lengths of an answer that is not there.
fn headers(headers: &HeaderMap) -> Map<String, Value> {
    let says_nothing = ["content-length", "content-type", "x-request-id", "x-sluice-latency-ms"];
    let said = headers.iter().filter(|(name, _)| !says_nothing.contains(&name.as_str()));
    said.map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned().into())
    })
    .collect()
}

/// For machines.
pub fn document(explained: &Explained) -> Value {
    let facts = &explained.facts;
    let error = error(explained)
        .map(|error| json!({"code": error["code"], "message": error["message"], "type": error["type"]}));
    json!({
        "request": {
            "model": &*facts.model,
            "stream": facts.streaming,
            "task": facts.task,
            "caller": facts.caller.as_deref(),
            "input_tokens": facts.input_tokens,
            "max_output_tokens": facts.max_output_tokens,
            "messages": facts.messages,
            "tools": facts.tools,
            "images": facts.images,
            "json_output": facts.json_output,
            "affinity": facts.affinity.map(|affinity| format!("{affinity:016x}")),
            "headers": facts.headers.iter().map(|(name, value)| json!([name, value])).collect::<Vec<_>>(),
        },
        "route": explained.route.as_ref().map(|(route, budget)| json!({
            "name": &*route.name,
            "budget_ms": ms(*budget),
            "reserve_ms": ms(route.reserve.min(*budget / 4)),
            "min_budget_ms": match route.min_budget { MinBudget::Fixed(time) | MinBudget::P95 { floor: time } => ms(time) },
            "max_switches": route.max_switches,
        })),
        "targets": explained.targets.iter().map(|target| json!({
            "target": &*target.target,
            "able": target.left_out.is_empty(),
            "left_out": target.left_out,
            "first_choice": target.first_choice,
            "score": target.score,
            "facts": target.facts.as_ref().map(candidate),
        })).collect::<Vec<_>>(),
        "scores": explained.scores.iter().map(|row| json!({
            "router": &*row.router, "target": &*row.target, "score": row.score, "reason": row.reason,
        })).collect::<Vec<_>>(),
        "order": explained.order.iter().map(|target| &**target).collect::<Vec<_>>(),
        "attempts": attempts(explained),
        "failures_left": explained.mishaps_left,
        "answer": {"status": explained.status, "headers": headers(&explained.headers), "error": error},
    })
}

fn candidate(facts: &Candidate) -> Value {
    json!({
        "health": facts.health,
        "samples": facts.samples,
        "latency_p50_ms": facts.latency_p50_ms,
        "latency_p95_ms": facts.latency_p95_ms,
        "first_content_p50_ms": facts.first_content_p50_ms,
        "first_content_p95_ms": facts.first_content_p95_ms,
        "in_flight": facts.in_flight,
        "capacity": facts.capacity,
        "quota_left": facts.quota_left,
        "cool_down_ms": facts.cool_down_ms,
        "breaker": facts.breaker.as_str(),
        "failures": facts.failures,
        "tried": facts.tried,
    })
}

fn attempts(explained: &Explained) -> Vec<Value> {
    let attempt = |(at, step): (usize, &crate::gateway::Step)| {
        let (next, after, denied) = match step.follows {
            Follows::Served => ("served", None, false),
            Follows::Retry { after, other_credential: false } => ("retry", Some(ms(after)), false),
            Follows::Retry { other_credential: true, .. } => ("other_credential", None, false),
            Follows::Switch => ("switch", None, false),
            Follows::End { budget_denied } => ("end", None, budget_denied),
            Follows::Deadline => ("deadline", None, false),
        };
        json!({
            "n": at + 1,
            "target": &*step.target,
            "role": step.role.as_str(),
            "limit_ms": ms(step.limit),
            "first_content_ms": step.first_content.map(ms),
            "left_ms": ms(step.left),
            "max_tokens": step.max_tokens,
            "verdict": step.verdict.as_ref().map(|row| json!({
                "plugin": row.plugin.as_deref(), "kind": row.kind.as_str(), "action": row.action.as_str(),
                "breaker": row.breaker.as_str(),
            })),
            "next": next,
            "after_ms": after,
            "retry_budget_denied": denied,
        })
    };
    explained.steps.iter().enumerate().map(attempt).collect()
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn time(time: Duration) -> String {
    humantime::format_duration(Duration::from_millis(ms(time))).to_string()
}

/// One line; what comes from a request or a plugin steers no terminal.
fn line(text: &mut String, line: &str) {
    text.extend(line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }));
    text.push('\n');
}
