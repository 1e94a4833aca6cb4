//! `sluice drill`: what a configuration does when an upstream fails, before one does. Every upstream is replaced by a
//! scripted stand-in on loopback; the routes, limits and plugins are the operator's own.
//!
//! It decides nothing of its own: whether a promise was kept comes from what callers read, what stand-ins saw, and
//! what the gateway recorded and measured. No provider is called and no secret is read.

mod client;
mod expect;
mod judge;
mod load;
mod order;
mod play;
mod progress;
mod reading;
mod report;
mod stage;
mod times;
mod told;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

pub use order::{Form, Order, Scenario};

use crate::clock;
use crate::config::{Config, Route};
use crate::exit::Exit;
use play::{Play, compare};
use progress::Progress;
use report::{Row, Section};
use stage::StageError;

/// Drills `config`, which was read without secrets. The table or document goes to `out`; how far it is to `err`,
/// where a line is taken back if that is a terminal (`live`). [`Exit::No`]: a promise was broken, or it could not be
/// played to its end; [`Exit::Usage`]: there is no such route.
///
/// # Errors
/// What writing, or asking for signals, gives.
pub async fn run(
    order: &Order,
    config: &Config,
    live: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let routes = match routes(order, config) {
        Ok(routes) => routes,
        Err(text) => {
            writeln!(err, "sluice: {text}")?;
            return Ok(Exit::Usage);
        }
    };
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let at_most = at_most(order, config, &routes);
    writeln!(
        err,
        "drilling {}: {} scenarios, at most {} (--timeout {})",
        order.config.display(),
        routes.len() * order.forms.len() * order.scenarios.len(),
        humantime::format_duration(Duration::from_secs(at_most.as_secs())),
        humantime::format_duration(order.timeout)
    )?;
    let begun = clock::now();
    let mut progress = Progress::new(err, live);
    let mut sections = Vec::new();
    let all = Box::pin(all(order, config, &routes, &mut progress, &mut sections, out));
    let ended = tokio::select! {
        done = all => match done? {
            Ok(()) => Ended::Played,
            Err(error) => Ended::Failed(error),
        },
        () = tokio::time::sleep(order.timeout) => Ended::TimedOut,
        _ = interrupt.recv() => Ended::Interrupted,
        _ = terminate.recv() => Ended::Interrupted,
    };
    progress.clear()?;
    let took = clock::now().saturating_duration_since(begun);
    match ended {
        Ended::Played => {}
        Ended::Interrupted => return Ok(Exit::No),
        Ended::Failed(error) => {
            writeln!(err, "sluice: the drill could not be played: {error}")?;
            return Ok(Exit::No);
        }
        Ended::TimedOut => {
            let timeout = humantime::format_duration(order.timeout);
            writeln!(
                err,
                "sluice: the drill was not over within {timeout}; --timeout gives it longer, --scenario and --requests make it shorter"
            )?;
            return Ok(Exit::No);
        }
    }
    if order.json {
        writeln!(out, "{:#}", report::document(&sections, order, took))?;
    } else {
        report::summary(&sections, took, out)?;
    }
    out.flush()?;
    Ok(if report::broken(&sections) == 0 { Exit::Done } else { Exit::No })
}

enum Ended {
    Played,
    Failed(StageError),
    TimedOut,
    Interrupted,
}

fn routes<'a>(order: &Order, config: &'a Config) -> Result<Vec<&'a Arc<Route>>, String> {
    if order.routes.is_empty() {
        return Ok(config.routes.values().collect());
    }
    let find = |name: &String| {
        config.routes.get(name.as_str()).ok_or_else(|| {
            let known: Vec<&str> = config.routes.keys().map(|name| &**name).collect();
            format!("--route {name}: there is no such route; there are {}", known.join(", "))
        })
    };
    order.routes.iter().map(find).collect()
}

fn at_most(order: &Order, config: &Config, routes: &[&Arc<Route>]) -> Duration {
    let much = (order.requests, order.concurrency);
    let mut sum = Duration::ZERO;
    for route in routes {
        for form in &order.forms {
            for scenario in &order.scenarios {
                sum += expect::at_most(*scenario, *form, route, &config.breaker, much);
            }
        }
    }
    sum
}

async fn all(
    order: &Order,
    config: &Config,
    routes: &[&Arc<Route>],
    progress: &mut Progress<'_>,
    sections: &mut Vec<Section>,
    out: &mut dyn Write,
) -> io::Result<Result<(), StageError>> {
    let done = Arc::new(AtomicUsize::new(0));
    for route in routes {
        for form in &order.forms {
            let mut section = Section {
                route: route.name.clone(),
                form: *form,
                direct: None,
                direct_first: None,
                rows: Vec::new(),
            };
            for scenario in &order.scenarios {
                let play = Play { config, order, route, form: *form, scenario: *scenario, done: &done };
                let title = format!("{}, {}, {scenario}", route.name, form.as_str());
                let played = progress.during(&title, order.requests, &done, Box::pin(play.play())).await?;
                let played = match played {
                    Ok(played) => played,
                    Err(error) => return Ok(Err(error)),
                };
                if *scenario == Scenario::Healthy {
                    (section.direct, section.direct_first) = played.direct;
                }
                let mut row: Row = played.row;
                if let Some(healthy) = section.rows.first() {
                    compare(&mut row, healthy, order.max_p99_ratio);
                }
                section.rows.push(row);
            }
            progress.clear()?;
            if !order.json {
                report::section(&section, order, out)?;
            }
            sections.push(section);
        }
    }
    Ok(Ok(()))
}
