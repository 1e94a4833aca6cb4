//! The parts of a run: which peers are loaded how, and which figures are taken.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::args::Args;
use crate::figures::{Report, Rounds, Taken};
use crate::load::{Figures, Plan};
use crate::peers::Peer;
use crate::upstream::SLOW;

/// A peer with its name.
type Named<'a> = (&'static str, &'a Peer);

/// One run.
pub fn run(args: &Args) -> Report {
    let mut rounds = Rounds::default();
    let upstream = Peer::upstream();
    {
        let proxy = Peer::proxy(upstream.addr, false);
        let gathering = Peer::proxy(upstream.addr, true);
        let sluice = Peer::gateway(&args.bin, config(&upstream, 2, 1), &[]);
        let pass = Peer::gateway(&args.bin, config(&upstream, 2, 1), &pass_through());
        let peers =
            Peers { direct: &upstream, proxy: &proxy, gathering: &gathering, sluice: &sluice, pass: &pass };
        for _ in 0..args.rounds {
            peers.round(args, &mut rounds);
        }
    }
    for _ in 0..args.rounds {
        if args.wants("streams") {
            args.streams.iter().for_each(|&number| streams(&upstream, args, number, &mut rounds));
        }
        if args.wants("scale") {
            scale(&upstream, args, &mut rounds);
        }
        if args.wants("start") {
            start(&upstream, args, &mut rounds);
        }
    }
    rounds.report(args.rounds)
}

/// A configuration with `targets` targets on a route and `routes` routes beside those that are called. Nothing in it
/// is waited for, and whatever is in flight at once may be.
fn config(upstream: &Peer, targets: usize, routes: usize) -> Value {
    const MODELS: [&str; 8] = ["json", "burst", "paced", "slow", "late", "big", "wide", "down"];
    let models: Value = MODELS.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    let base = format!("http://{}/v1", upstream.addr);
    let names: Vec<String> = (0..targets).map(|n| format!("u{n}")).collect();
    let upstreams: Value = names
        .iter()
        .map(|name| (name.clone(), json!({"base_url": base, "max_in_flight": 20_000, "models": models})))
        .collect();
    let route = |model: &str| {
        let targets: Vec<String> = names.iter().map(|name| format!("{name}/{model}")).collect();
        json!({"targets": targets})
    };
    let mut all: serde_json::Map<String, Value> =
        MODELS.iter().map(|model| ((*model).to_owned(), route(model))).collect();
    all.insert("fallback".to_owned(), json!({"targets": ["u0/down", "u1/late"]}));
    all.extend((0..routes).map(|n| (format!("route-{n}"), route("json"))));
    json!({
        "upstreams": upstreams,
        "routes": all,
        "gates": {"max_in_flight": 20_000},
        "defaults": {"stream_max": "off", "idle": "off"},
    })
}

/// A component with all three kinds that decides nothing: the cost of asking alone.
fn pass_through() -> Vec<PathBuf> {
    vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("contract/all-kinds-0.1.0.wasm")]
}

fn plan(route: &str, stream: bool, connections: usize, args: &Args) -> Plan {
    Plan {
        to: ([127, 0, 0, 1], 0).into(),
        route: route.to_owned(),
        stream,
        connections,
        calls: 0,
        millis: args.secs * 1000,
        rate: 0,
        prompt: 600,
        ramp: 0,
        warm_up: 0,
    }
}

/// Loads a peer after a short warm-up: what the load saw, and the CPU seconds that the peer used meanwhile.
fn measure(peer: &Peer, plan: &Plan) -> (Figures, f64) {
    let nothing = |_: &Peer| ();
    let warm_up = Plan { calls: 2 * plan.connections.min(100), millis: 5000, rate: 0, ..plan.clone() };
    peer.load(&warm_up, Duration::ZERO, nothing);
    let before = peer.cpu();
    let (figures, ()) = peer.load(plan, Duration::ZERO, nothing);
    (figures, peer.cpu() - before)
}

struct Peers<'a> {
    direct: &'a Peer,
    proxy: &'a Peer,
    gathering: &'a Peer,
    sluice: &'a Peer,
    pass: &'a Peer,
}

impl Peers<'_> {
    fn round(&self, args: &Args, rounds: &mut Rounds) {
        if args.wants("json") {
            for connections in [1, 16, 64] {
                self.json(&plan("json", false, connections, args), &format!("c={connections}"), rounds);
            }
            let slow = Plan { rate: 500, ..plan("json", false, 16, args) };
            self.json(&slow, "500/s", rounds);
        }
        if args.wants("burst") {
            for connections in [1, 16] {
                self.burst(&plan("burst", true, connections, args), rounds);
            }
        }
        if args.wants("paced") {
            self.paced(&plan("paced", true, 16, args), rounds);
        }
        if args.wants("failover") {
            self.failover(args, rounds);
        }
    }

    fn json(&self, plan: &Plan, case: &str, rounds: &mut Rounds) {
        let peers: [Named; 4] = [
            ("proxy", self.proxy),
            ("sluice", self.sluice),
            ("pass-through", self.pass),
            ("direct", self.direct),
        ];
        for (name, peer) in peers {
            let (figures, cpu) = measure(peer, plan);
            let [p50, _, p99] = figures.call;
            let mut taken: Taken = vec![
                ("requests/s", figures.calls as f64 / figures.secs),
                ("cpu us/request", cpu * 1e6 / figures.calls.max(1) as f64),
                ("p50 ms", p50),
                ("p99 ms", p99),
                ("errors", figures.errors as f64),
            ];
            // What the upstream costs is nobody's concern.
            taken.retain(|(figure, _)| name != "direct" || *figure != "cpu us/request");
            rounds.take("json", case, name, taken);
        }
    }

    fn burst(&self, plan: &Plan, rounds: &mut Rounds) {
        let peers: [Named; 3] =
            [("proxy", self.proxy), ("gathering", self.gathering), ("sluice", self.sluice)];
        for (name, peer) in peers {
            let (figures, cpu) = measure(peer, plan);
            let taken: Taken = vec![
                ("events/s", figures.events as f64 / figures.secs),
                ("cpu us/event", cpu * 1e6 / figures.events.max(1) as f64),
                ("first p50 ms", figures.first[0]),
                ("errors", figures.errors as f64),
            ];
            rounds.take("burst", &format!("c={}", plan.connections), name, taken);
        }
    }

    fn paced(&self, plan: &Plan, rounds: &mut Rounds) {
        // A whole stream takes a second, and one that is cut says nothing. They begin one after the other: sixteen
        // that begin in one moment would wait for each other, in the load as well.
        let calls = 5 * plan.connections;
        let plan = Plan { calls, millis: 30_000, ramp: PACED_RAMP, warm_up: 1, ..plan.clone() };
        let peers: [Named; 3] = [("proxy", self.proxy), ("sluice", self.sluice), ("direct", self.direct)];
        for (name, peer) in peers {
            let (figures, _) = peer.load(&plan, Duration::ZERO, |_| ());
            let taken: Taken = vec![
                ("first p50 ms", figures.first[0]),
                ("event p50 ms", figures.event[0]),
                ("event p99 ms", figures.event[2]),
                ("errors", figures.errors as f64),
            ];
            rounds.take("paced", &format!("{} streams", plan.connections), name, taken);
        }
    }

    fn failover(&self, args: &Args, rounds: &mut Rounds) {
        for (case, route) in [("healthy", "late"), ("first target down", "fallback")] {
            let plan = |calls| Plan { calls, millis: 60_000, ..plan(route, false, 10, args) };
            self.sluice.load(&plan(20), Duration::ZERO, |_| ());
            let (figures, ()) = self.sluice.load(&plan(100), Duration::ZERO, |_| ());
            let [p50, p95, p99] = figures.call;
            let errors = figures.errors as f64;
            let taken: Taken = vec![("p50 ms", p50), ("p95 ms", p95), ("p99 ms", p99), ("errors", errors)];
            rounds.take("failover", case, "sluice", taken);
        }
    }
}

/// Over how many milliseconds paced streams begin. No multiple of what lies between two events, so that those of
/// different streams come at different times.
const PACED_RAMP: u64 = 230;

/// Streams with an event a second, held open by processes that hold nothing else.
fn streams(upstream: &Peer, args: &Args, number: usize, rounds: &mut Rounds) {
    /// Opening takes a while, and every stream has an event in the time after it.
    const OPENING: Duration = Duration::from_secs(4);
    const MEASURED: Duration = Duration::from_secs(4);
    let proxy = Peer::proxy(upstream.addr, false);
    let sluice = Peer::gateway(&args.bin, config(upstream, 2, 1), &[]);
    for (name, peer) in [("proxy", &proxy), ("sluice", &sluice)] {
        peer.load(&Plan { calls: 200, ..plan("json", false, 16, args) }, Duration::ZERO, |_| ());
        let idle = peer.resident();
        let whole = OPENING + MEASURED + SLOW;
        let millis = whole.as_millis().try_into().unwrap_or(u64::MAX);
        // Opened over a second, so that their events do not all come at once.
        let plan = Plan { millis, rate: number as u64, ..plan("slow", true, number, args) };
        let (figures, (cpu, resident)) = peer.load(&plan, OPENING, |peer| {
            let before = peer.cpu();
            std::thread::sleep(MEASURED);
            (peer.cpu() - before, peer.resident())
        });
        let events = MEASURED.as_secs_f64() / SLOW.as_secs_f64() * number as f64;
        let taken: Taken = vec![
            ("cpu us/event", cpu * 1e6 / events),
            ("KiB/stream", (resident - idle).max(0.0) / 1024.0 / number as f64),
            ("late", figures.late as f64),
            ("errors", figures.errors as f64),
        ];
        rounds.take("streams", &format!("{number} streams"), name, taken);
    }
}

/// Whether the cost of a request grows with what is around it.
fn scale(upstream: &Peer, args: &Args, rounds: &mut Rounds) {
    for (case, targets, routes) in
        [("2 targets", 2, 1), ("16 targets", 16, 1), ("128 targets", 128, 1), ("1000 routes", 2, 1000)]
    {
        let sluice = Peer::gateway(&args.bin, config(upstream, targets, routes), &[]);
        let (figures, cpu) = measure(&sluice, &plan("json", false, 16, args));
        let request = cpu * 1e6 / figures.calls.max(1) as f64;
        let taken: Taken = vec![
            ("cpu us/request", request),
            ("start ms", sluice.start.as_secs_f64() * 1e3),
            ("errors", figures.errors as f64),
        ];
        rounds.take("scale", case, "sluice", taken);
    }
    let sluice = Peer::gateway(&args.bin, config(upstream, 2, 1), &[]);
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    for (case, route, stream, prompt, bytes) in [
        ("prompt of 1 MB", "json", false, 1 << 20, 1 << 20),
        ("prompt of 10 MB", "json", false, 10 << 20, 10 << 20),
        ("answer of 10 MB", "big", false, 600, 10 << 20),
        ("event of 3 MB", "wide", true, 600, 3 << 20),
    ] {
        let plan = Plan { prompt, calls: 20, millis: 60_000, ..plan(route, stream, 2, args) };
        let (figures, cpu) = measure(&sluice, &plan);
        let calls = figures.calls.max(1) as f64;
        let taken: Taken =
            vec![("cpu ms/MiB", cpu * 1e3 / calls / mib(bytes)), ("errors", figures.errors as f64)];
        rounds.take("scale", case, "sluice", taken);
    }
}

/// What it takes to be there.
fn start(upstream: &Peer, args: &Args, rounds: &mut Rounds) {
    let sluice = Peer::gateway(&args.bin, config(upstream, 2, 1), &[]);
    // What start-up needed for a moment goes back to the system within a second or two.
    std::thread::sleep(Duration::from_secs(3));
    let binary = std::fs::metadata(&args.bin).map_or(0, |file| file.len());
    let mib = f64::from(1 << 20);
    let taken: Taken = vec![
        ("start ms", sluice.start.as_secs_f64() * 1e3),
        ("idle MiB", sluice.resident() / mib),
        ("binary MiB", binary as f64 / mib),
    ];
    rounds.take("start", "bundled plugins", "sluice", taken);
}
