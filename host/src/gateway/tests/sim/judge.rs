//! What holds, whatever happened.

use std::collections::HashMap;

use super::net::Exchange;
use super::reading::{self, Seen};
use super::*;

/// Between a moment and what follows it at once: the resolution of timers, a few turns in a row.
pub(super) const AT_ONCE: Duration = Duration::from_millis(20);
/// A leave has reached the upstream.
const CANCELLED: Duration = Duration::from_millis(500);

/// Everything that is wrong with a run.
pub(super) fn all(run: &Run) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut by_id: HashMap<&str, Vec<&Exchange>> = HashMap::new();
    for exchange in &run.exchanges {
        by_id.entry(&exchange.request_id).or_default().push(exchange);
    }
    for answer in &run.answers {
        let exchanges = by_id.get(answer.id.as_str()).map_or(&[][..], Vec::as_slice);
        let mut own = Vec::new();
        shown(answer, run, &mut own);
        times(answer, exchanges, &run.setting, &mut own);
        match run.records.get(&answer.id).map(Vec::as_slice) {
            Some([record]) => told(answer, record, exchanges, &run.setting, &mut own),
            // A request of which not everything was sent is none.
            None if answer.left == Some(answer.sent) => {}
            records => own.push(format!("{} records", records.map_or(0, <[_]>::len))),
        }
        wrong.extend(own.into_iter().map(|what| format!("{}: {what}", answer.id)));
    }
    crowding(run, &mut wrong);
    breakers::all(run, &mut wrong);
    totals(run, &mut wrong);
    wrong
}

/// How often each outcome, for whoever reads how a run went.
pub(super) fn outcomes(run: &Run) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for record in run.records.values().flatten() {
        let kind = record["failure_kind"].as_str().unwrap_or("none");
        *all.entry(format!("{} {kind}", record["outcome"].as_str().unwrap())).or_default() += 1;
    }
    all
}

/// What the client got.
fn shown(answer: &Answer, run: &Run, wrong: &mut Vec<String>) {
    let reply = &answer.reply;
    let all =
        reading::wrong_with(reply, answer.stream, answer.left.is_some(), |mark| run.exchanges[mark].pieces);
    let mine = reply.status < 400 || !reply.whole || reply.json()["error"]["request_id"] == *answer.id;
    let of_another = (!mine).then_some("an error of another request");
    let told = |what| format!("{what}: {} {}", reply.head, String::from_utf8_lossy(&reply.body));
    wrong.extend(all.into_iter().chain(of_another).map(told));
}

/// When things happened.
fn times(answer: &Answer, exchanges: &[&Exchange], setting: &Setting, wrong: &mut Vec<String>) {
    let deadline = answer.sent + setting.budget - setting.reserve.min(setting.budget / 4);
    if let Some(shown) = answer.shown
        && shown > answer.sent + setting.budget + AT_ONCE
    {
        wrong.push(format!("shown {:?} over budget", shown - answer.sent - setting.budget));
    }
    for exchange in exchanges {
        if exchange.begun > deadline + AT_ONCE {
            wrong.push(format!("an attempt {:?} past the deadline", exchange.begun - deadline));
        }
        if let Some(left) = answer.left {
            if exchange.begun > left + AT_ONCE {
                wrong.push(format!("an attempt {:?} after the client left", exchange.begun - left));
            }
            if exchange.ended.is_none_or(|ended| ended > left + CANCELLED) {
                wrong.push(format!("an exchange goes on after the client left: {exchange:?}"));
            }
        }
        if answer.reply.status == 200 && answer.shown.is_some_and(|shown| exchange.begun > shown) {
            wrong.push("an attempt after commit".to_owned());
        }
        if exchange.ended.is_none() {
            wrong.push(format!("an exchange never ends: {exchange:?}"));
        }
    }
}

/// What the record says, against what was seen.
fn told(
    answer: &Answer,
    record: &Value,
    exchanges: &[&Exchange],
    setting: &Setting,
    wrong: &mut Vec<String>,
) {
    let outcome = record["outcome"].as_str().unwrap();
    let attempts = record["attempts"].as_array().unwrap();
    let seen = Seen::read(&answer.reply.body);
    let error = if answer.stream && answer.reply.status == 200 { &seen.error } else { &None };
    let good = ["success", "fallback_success"];
    let fits = match (answer.reply.status, answer.left) {
        // Bytes may have been on their way when it left.
        (0, Some(_)) => true,
        (200, Some(_)) => ["client_cancelled", "interrupted"].contains(&outcome) || good.contains(&outcome),
        (200, None) if error.is_some() => outcome == "interrupted",
        (200, None) => good.contains(&outcome),
        (503, _) => ["refused", "exhausted"].contains(&outcome),
        (504, _) => ["budget_exhausted", "exhausted"].contains(&outcome),
        (429 | 502, _) => ["exhausted", "rejected_upstream"].contains(&outcome),
        (400..500, _) => outcome == "rejected_upstream",
        _ => false,
    };
    let mut hold = |what: &str, holds: bool| {
        if !holds {
            wrong.push(format!("{what}: status {}, {record}", answer.reply.status));
        }
    };
    hold("the record says another outcome", fits);
    hold("a leave is 499", (outcome == "client_cancelled") == (record["status_code"] == 499));
    hold("too many retries", retries(attempts, setting));
    let said = answer.reply.header("x-sluice-attempts");
    hold("the answer tells of other attempts", said.is_none_or(|n| n == attempts.len().to_string()));
    let arrived = exchanges.iter().filter(|exchange| !exchange.redialled).count();
    hold("more exchanges than attempts", arrived <= attempts.len());
    let mut targets: Vec<&Value> = attempts.iter().map(|attempt| &attempt["target"]).collect();
    targets.dedup();
    hold("too many switches", targets.len() <= 1 + setting.max_switches as usize);
    targets.sort_by_key(|target| target.to_string());
    let visited = targets.len();
    targets.dedup();
    hold("a target that was left is tried again", targets.len() == visited);
}

/// At each target no more retries than its route allows: so many after failures of the target, and, after those of
/// a credential, one for the other credential and those that sat a wait out.
fn retries(attempts: &[Value], setting: &Setting) -> bool {
    attempts.chunk_by(|one, next| one["target"] == next["target"]).all(|stay| {
        let failed = stay[..stay.len() - 1].iter().map(|attempt| attempt["kind"].as_str().unwrap_or("none"));
        let (by_credential, others): (Vec<_>, Vec<_>) = failed
            .partition(|kind| ["retryable_rate_limit", "quota_exhausted", "auth_denied"].contains(kind));
        others.len() <= setting.retries.0 as usize && by_credential.len() <= 1 + setting.retries.1 as usize
    })
}

/// At no moment has an upstream more exchanges than places.
fn crowding(run: &Run, wrong: &mut Vec<String>) {
    for upstream in 0..3 {
        let mut turns: Vec<(Instant, i32)> = Vec::new();
        for exchange in run.exchanges.iter().filter(|exchange| exchange.upstream == upstream) {
            let ended = exchange.ended.unwrap_or(exchange.begun);
            turns.extend([(exchange.begun, 1), (ended, -1)]);
        }
        // What ends at a moment ends before what begins at it.
        turns.sort_unstable();
        let (mut now, mut most) = (0, 0);
        for (_, change) in turns {
            now += change;
            most = most.max(now);
        }
        if most > i32::try_from(run.setting.places).unwrap() {
            wrong.push(format!(
                "upstream {upstream} had {most} exchanges at once in {} places",
                run.setting.places
            ));
        }
    }
}

/// The series of one name, at the end.
pub(super) fn series<'a>(run: &'a Run, name: &str) -> Vec<(&'a str, f64)> {
    let lines = run.metrics.lines().filter_map(|line| line.rsplit_once(' '));
    let of_name = lines.filter(|(series, _)| series.split('{').next() == Some(name));
    of_name.map(|(series, value)| (series, value.parse().unwrap())).collect()
}

/// The gauges and counters at the end.
fn totals(run: &Run, wrong: &mut Vec<String>) {
    let series = |name: &str| series(run, name);
    for gauge in ["sluice_gate_in_flight", "sluice_gate_queue_depth"] {
        let all = series(gauge);
        wrong.extend(
            all.iter()
                .filter(|(_, value)| *value != 0.0)
                .map(|(series, value)| format!("{series} is {value}")),
        );
        if all.len() < 4 {
            wrong.push(format!("{gauge} has {} series", all.len()));
        }
    }
    let sum = |name: &str| series(name).iter().map(|(_, value)| value).sum::<f64>();
    let records = run.records.values().map(Vec::len).sum::<usize>();
    let attempts: usize =
        run.records.values().flatten().map(|record| record["attempts"].as_array().unwrap().len()).sum();
    for (name, expected) in [("sluice_requests_total", records), ("sluice_attempts_total", attempts)] {
        if sum(name) != expected as f64 {
            wrong.push(format!("{name} adds up to {}, not {expected}", sum(name)));
        }
    }
    let ill = |(series, value): &(&str, f64)| {
        *value > 0.0 && ["\"ok\"", "\"none\""].iter().all(|good| !series.contains(good))
    };
    wrong.extend(series("sluice_plugin_calls_total").iter().filter(|s| ill(s)).map(|s| format!("{s:?}")));
    let served = |status: u16| run.answers.iter().filter(|answer| answer.reply.status == status).count();
    if served(200) < run.answers.len() / 10 || served(200) == run.answers.len() {
        wrong.push(format!(
            "{} of {} calls had an answer: the run shows nothing",
            served(200),
            run.answers.len()
        ));
    }
}
