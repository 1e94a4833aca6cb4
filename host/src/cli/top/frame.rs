//! What is to be seen: lines made of one look, within a window. Pure.
//!
//! The order is that of an operator's questions: is anything wrong, how much is going on, which target, which gate,
//! which plugin, and what happened to the last requests. Within each part trouble comes first, so that a small
//! window cuts off what is well.

use std::time::Duration;

use super::look::{Look, Plugin, Rates, Request, Target};
use super::text::{Column, Line, Piece, Tone, clip, left, length, piece, share, table};

/// Everything a frame is made of.
pub(super) struct Told<'a> {
    pub(super) look: &'a Look,
    pub(super) address: &'a str,
    /// None with the first look.
    pub(super) rates: Option<&'a Rates>,
    /// Why the last look failed.
    pub(super) trouble: Option<String>,
    /// How old the look is.
    pub(super) age: Duration,
    /// Columns and rows of the window; none: as much as there is.
    pub(super) size: Option<(usize, usize)>,
    /// Tell of the keys.
    pub(super) keys: bool,
}

const fn column(head: &'static str) -> Column {
    Column { head, number: false, least: None }
}

const fn flexible(head: &'static str, least: usize) -> Column {
    Column { head, number: false, least: Some(least) }
}

const fn number(head: &'static str) -> Column {
    Column { head, number: true, least: None }
}

const TARGETS: [Column; 9] = [
    flexible("TARGET", 16),
    column("STATE"),
    flexible("NEXT", 10),
    number("IN FLIGHT"),
    number("SUCCESS"),
    number("P50"),
    number("P95"),
    number("FIRST P95"),
    flexible("ROUTES", 6),
];
const GATES: [Column; 5] =
    [flexible("GATE", 16), number("IN FLIGHT"), number("LIMIT"), number("QUEUE"), column("CREDENTIALS")];
const PLUGINS: [Column; 8] = [
    flexible("PLUGIN", 12),
    column("STATE"),
    flexible("KINDS", 6),
    flexible("VERSION", 8),
    number("CALLS"),
    number("P50/P99 µs"),
    flexible("FAILURES", 8),
    flexible("LAST REFUSAL", 12),
];
const REQUESTS: [Column; 7] = [
    column("TIME"),
    flexible("ROUTE", 8),
    number("STATUS"),
    column("OUTCOME"),
    number("COMMIT"),
    number("TOTAL"),
    flexible("ATTEMPTS", 20),
];

/// A part of the frame.
struct Part {
    title: &'static str,
    columns: &'static [Column],
    rows: Vec<Vec<Piece>>,
}

/// The lines, from the top.
pub(super) fn frame(told: &Told<'_>) -> Vec<Line> {
    let mut lines = vec![header(told), verdict(told), traffic(told)];
    let look = told.look;
    let parts = [
        Part { title: "TARGETS", columns: &TARGETS, rows: targets(look) },
        Part { title: "GATES", columns: &GATES, rows: gates(look) },
        Part { title: "PLUGINS", columns: &PLUGINS, rows: plugins(look) },
        Part {
            title: "LAST REQUESTS",
            columns: &REQUESTS,
            rows: look.requests.iter().map(request).collect(),
        },
    ];
    let width = told.size.map(|(width, _)| width);
    let wants = parts.each_ref().map(|part| part.rows.len());
    // A part has an empty line before it, a title and a head.
    let room = told.size.map(|(_, height)| height.saturating_sub(lines.len() + 3 * parts.len()));
    let shown = room.map_or(wants, |room| divide(room, wants));
    for (part, shown) in parts.into_iter().zip(shown) {
        let all = part.rows.len();
        let mut title = vec![piece(part.title, Tone::Head)];
        if shown < all {
            title.push(piece(format!(" {shown} of {all}"), Tone::Quiet));
        }
        lines.extend([Line::default(), Line(title)]);
        lines.extend(table(part.columns, &part.rows[..shown.min(all)], width));
    }
    if let Some((width, height)) = told.size {
        lines.truncate(height);
        lines.iter_mut().for_each(|line| line.cut(width));
    }
    lines
}

/// Rows for each part: one after the other gets one more until the room, or what they want, is used up.
fn divide(mut room: usize, wants: [usize; 4]) -> [usize; 4] {
    let mut shown = [0; 4];
    while room > 0 && shown != wants {
        for (have, want) in shown.iter_mut().zip(wants) {
            if *have < want && room > 0 {
                *have += 1;
                room -= 1;
            }
        }
    }
    shown
}

fn header(told: &Told<'_>) -> Line {
    let Told { look, address, .. } = told;
    let ready = look.upstreams.readiness.reason.as_deref();
    let (word, tone) =
        ready.map_or(("ready".to_owned(), Tone::Good), |why| (format!("not ready: {why}"), Tone::Bad));
    let mut line = vec![
        piece("sluice ", Tone::Head),
        piece(&look.upstreams.version, Tone::Plain),
        piece(format!("  {address}  generation {}  ", look.plugins.generation), Tone::Quiet),
        piece(word, tone),
        piece(format!("  {}", look.upstreams.now.chars().take(19).collect::<String>()), Tone::Quiet),
    ];
    if told.keys {
        line.push(piece("  q ends", Tone::Quiet));
    }
    Line(line)
}

/// Whether anything is wrong, in one line.
fn verdict(told: &Told<'_>) -> Line {
    if let Some(trouble) = &told.trouble {
        let age = told.age.as_secs_f64() * 1000.0;
        return Line(vec![piece(
            format!("✕ no answer, this is {} old: {trouble}", length(Some(age))),
            Tone::Bad,
        )]);
    }
    let look = told.look;
    let mut bad: Vec<String> = Vec::new();
    let mut warn: Vec<String> = Vec::new();
    let routes = look.upstreams.readiness.routes.iter().filter(|(_, able)| **able == 0);
    bad.extend(routes.map(|(route, _)| format!("route {} cannot serve", clip(route, 40))));
    let all = look.upstreams.targets.len();
    let troubled =
        look.upstreams.targets.iter().filter(|target| standing(look, target).tone != Tone::Good).count();
    if troubled > 0 {
        warn.push(format!("{troubled} of {all} targets in trouble"));
    }
    let full =
        look.upstreams.gates.iter().filter(|gate| gate.queue > 0 && gate.in_flight >= gate.limit).count();
    if full > 0 {
        warn.push(if full == 1 { "a gate is full".to_owned() } else { format!("{full} gates are full") });
    }
    let faulty = look.plugins.plugins.iter().filter(|plugin| plugin_tone(plugin) == Tone::Warn);
    warn.extend(faulty.map(|plugin| format!("plugin {} {}", clip(&plugin.name, 40), plugin.state)));
    warn.extend(refused_configuration(look));
    warn.extend(away_records(look));
    let (sign, tone) = match (bad.is_empty(), warn.is_empty()) {
        (false, _) => ("✕", Tone::Bad),
        (true, false) => ("▲", Tone::Warn),
        (true, true) => return Line(vec![piece("✓ nothing is wrong", Tone::Good)]),
    };
    bad.append(&mut warn);
    Line(vec![piece(format!("{sign} {}", bad.join(", ")), tone)])
}

/// The file is not what runs.
fn refused_configuration(look: &Look) -> Option<String> {
    let refused = look.config.last_rejection.as_ref().filter(|refused| refused.standing)?;
    let what = match &*refused.mistakes {
        [] => refused.message.clone(),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
            format!("line {}: {}: {}{more}", first.line, first.key, first.text)
        }
    };
    Some(format!("configuration file refused: {}", clip(&what, 160)))
}

fn away_records(look: &Look) -> Option<String> {
    let records = look.upstreams.records.as_ref()?;
    let since: String = records.away_since.as_ref()?.chars().skip(11).take(8).collect();
    Some(format!("store of records away since {since} ({} in its spool)", records.spooled))
}

fn outcome_tone(outcome: &str) -> Tone {
    match outcome {
        "success" => Tone::Good,
        "fallback_success" | "rejected_upstream" | "invalid_request" | "denied" => Tone::Warn,
        "client_cancelled" => Tone::Quiet,
        _ => Tone::Bad,
    }
}

/// Requests a second by outcome; with a first look, how many there were.
fn traffic(told: &Told<'_>) -> Line {
    let mut line = Vec::new();
    let counts = match told.rates {
        Some(rates) => {
            line.push(piece(format!("requests/s {:.1}", rates.values().sum::<f64>()), Tone::Plain));
            rates
        }
        None => {
            // The sum of nothing is a negative zero.
            let all = told.look.outcomes.values().sum::<f64>() + 0.0;
            line.push(piece(format!("requests since the start {all:.0}"), Tone::Plain));
            &told.look.outcomes
        }
    };
    for (outcome, n) in counts.iter().filter(|(_, n)| **n > 0.0) {
        let n = if told.rates.is_some() { format!("{n:.1}") } else { format!("{n:.0}") };
        line.push(piece(format!("  {outcome} "), Tone::Quiet));
        line.push(piece(n, outcome_tone(outcome)));
    }
    Line(line)
}

/// How a target stands.
struct Standing {
    /// Trouble first.
    rank: u8,
    state: &'static str,
    next: String,
    tone: Tone,
}

fn standing(look: &Look, target: &Target) -> Standing {
    let breaker = &target.breaker;
    let stands = |rank, state, next: String, tone| Standing { rank, state, next, tone };
    let again = |until: Option<u64>| until.map_or(String::new(), |ms| format!("tried again in {}", left(ms)));
    match breaker.state.as_str() {
        "open" => {
            let due = breaker.until_ms.is_none_or(|ms| ms == 0);
            let next = if due {
                "next call probes".to_owned()
            } else {
                format!("probe in {}", left(breaker.until_ms.unwrap_or(0)))
            };
            stands(0, "✕ open", next, Tone::Bad)
        }
        "half_open" => stands(1, "◐ half-open", "one probe decides".to_owned(), Tone::Warn),
        _ if target.cooldown_ms > 0 => {
            let after = target.cooldown_kind.as_deref().map_or(String::new(), |kind| format!(", {kind}"));
            stands(3, "▲ cooling", format!("{}{after}", again(Some(target.cooldown_ms))), Tone::Warn)
        }
        _ if !target.able => {
            let blocked =
                look.upstreams.readiness.blocked.iter().find(|blocked| blocked.target == target.target);
            let denied = blocked.is_some_and(|blocked| blocked.why == "no_credential");
            let state = if denied { "✕ no credential" } else { "▲ credentials rest" };
            stands(2, state, again(blocked.and_then(|blocked| blocked.until_ms)), Tone::Warn)
        }
        _ if breaker.failures > 0 => {
            stands(5, "✓ able", format!("{} failed in a row", breaker.failures), Tone::Good)
        }
        _ => stands(
            if target.success_rate_1m.is_some_and(|rate| rate < 0.9) { 4 } else { 6 },
            "✓ able",
            String::new(),
            Tone::Good,
        ),
    }
}

fn targets(look: &Look) -> Vec<Vec<Piece>> {
    let mut all: Vec<_> =
        look.upstreams.targets.iter().map(|target| (standing(look, target), target)).collect();
    all.sort_by_key(|(stands, _)| stands.rank);
    let row = |(stands, target): (Standing, &Target)| {
        let low = target.success_rate_1m.is_some_and(|rate| rate < 0.9);
        vec![
            piece(&target.target, Tone::Plain),
            piece(stands.state, stands.tone),
            piece(stands.next, Tone::Plain),
            piece(target.in_flight.to_string(), Tone::Plain),
            piece(share(target.success_rate_1m), if low { Tone::Bad } else { Tone::Plain }),
            piece(length(target.latency_ms.p50), Tone::Plain),
            piece(length(target.latency_ms.p95), Tone::Plain),
            piece(length(target.first_content_ms.p95), Tone::Plain),
            piece(target.routes.join(","), Tone::Quiet),
        ]
    };
    all.into_iter().map(row).collect()
}

fn gates(look: &Look) -> Vec<Vec<Piece>> {
    let mut gates: Vec<_> = look.upstreams.gates.iter().collect();
    let full = |gate: &super::look::Gate| gate.in_flight >= gate.limit;
    // Those in which calls wait, those that are full, those in use; in each the order of the page.
    gates.sort_by_key(|gate| (std::cmp::Reverse(gate.queue), !full(gate), gate.in_flight == 0));
    let row = |gate: &super::look::Gate| {
        let name = gate.gate.strip_prefix("upstream:");
        let upstream =
            look.upstreams.upstreams.iter().find(|upstream| Some(upstream.upstream.as_str()) == name);
        let keys = upstream.map(|upstream| upstream.credentials.as_slice()).unwrap_or_default();
        let usable = keys.iter().filter(|key| key.state == "ok").count();
        let (words, tone) = match keys.len() {
            0 => (String::new(), Tone::Quiet),
            all if all == usable => (format!("{usable} ok"), Tone::Quiet),
            all => (format!("▲ {usable} of {all} ok"), Tone::Warn),
        };
        let tone_of = |warn: bool| if warn { Tone::Warn } else { Tone::Plain };
        vec![
            piece(&gate.gate, Tone::Plain),
            piece(gate.in_flight.to_string(), tone_of(full(gate))),
            piece(gate.limit.to_string(), Tone::Plain),
            piece(gate.queue.to_string(), tone_of(gate.queue > 0)),
            piece(words, tone),
        ]
    };
    gates.into_iter().map(row).collect()
}

/// Its state; of a bundled one that no route asks there is nothing else to say while it is well.
fn plugin_state(plugin: &Plugin) -> &str {
    if plugin.replaced && plugin.state == "active" { "replaced" } else { &plugin.state }
}

fn plugin_tone(plugin: &Plugin) -> Tone {
    match plugin_state(plugin) {
        "active" => Tone::Good,
        "disabled" | "removed" | "replaced" => Tone::Quiet,
        _ => Tone::Warn,
    }
}

fn plugins(look: &Look) -> Vec<Vec<Piece>> {
    let mut plugins: Vec<_> = look.plugins.plugins.iter().collect();
    plugins.sort_by_key(|plugin| plugin_tone(plugin) != Tone::Warn);
    let row = |plugin: &Plugin| {
        let version = plugin.version.as_deref().unwrap_or("-");
        let digest = plugin
            .digest
            .as_deref()
            .map_or(String::new(), |digest| format!(" {}", digest.chars().take(8).collect::<String>()));
        let time = |us: Option<u64>| us.map_or_else(|| "-".to_owned(), |us| us.to_string());
        let failures: Vec<_> = plugin.failures.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
        let refusal =
            plugin.rejection.as_ref().map_or(String::new(), |r| format!("{}: {}", r.reason, r.message));
        let sign = if plugin_tone(plugin) == Tone::Warn { "▲ " } else { "" };
        vec![
            piece(&plugin.name, Tone::Plain),
            piece(format!("{sign}{}", plugin_state(plugin)), plugin_tone(plugin)),
            piece(plugin.kinds.join(","), Tone::Quiet),
            piece(format!("{version}{digest}"), Tone::Quiet),
            piece(plugin.calls.to_string(), Tone::Plain),
            piece(format!("{}/{}", time(plugin.p50_us), time(plugin.p99_us)), Tone::Plain),
            piece(failures.join(" "), Tone::Warn),
            piece(refusal, Tone::Warn),
        ]
    };
    plugins.into_iter().map(row).collect()
}

fn request(request: &Request) -> Vec<Piece> {
    let step = |attempt: &super::look::Attempt| {
        let end = attempt.kind.as_deref().map_or("✓".to_owned(), |kind| format!("✕ {kind}"));
        format!("{} {end} {}", attempt.target, length(Some(attempt.ms)))
    };
    let attempts: Vec<_> = request.attempts.iter().map(step).collect();
    let time: String = request.time.chars().skip(11).take(8).collect();
    vec![
        piece(time, Tone::Quiet),
        piece(request.model.as_deref().unwrap_or("-"), Tone::Plain),
        piece(request.status_code.to_string(), Tone::Plain),
        piece(&request.outcome, outcome_tone(&request.outcome)),
        piece(length(request.latency_ms), Tone::Plain),
        piece(length(Some(request.duration_ms)), Tone::Plain),
        piece(attempts.join(" → "), Tone::Plain),
    ]
}
