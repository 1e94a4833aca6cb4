//! `sluice drill`: the command line, and the configuration read as `sluice check` reads it, but without its secrets.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{Exit, check};
use crate::config;
use crate::drill::{self, Form, Order, Scenario};

/// What to drill.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct DrillArgs {
    /// The configuration file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Only this route; may be given several times
    #[arg(long = "route", value_name = "NAME")]
    routes: Vec<String>,
    /// Only these scenarios (healthy is always played, to compare with)
    #[arg(long = "scenario", value_name = "NAME", value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// Only calls of this form: stream or plain
    #[arg(long, value_name = "FORM")]
    form: Option<Form>,
    /// A header of every call, for plugins that look at it; may be given several times
    #[arg(long = "header", value_name = "NAME:VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Calls of each scenario
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    requests: u16,
    /// Calls at a time
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    concurrency: u16,
    /// Fail when the P99 of a scenario is more than so many times the healthy one
    #[arg(long, value_name = "X", value_parser = ratio)]
    max_p99_ratio: Option<f64>,
    /// Give up after so long
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// Write one JSON document in the place of the table
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Scenarios: what the first choice of a route does, everything else being healthy.
  healthy  it answers
  503      503 to every call
  429      429 without a hint to every call
  slow     it reads the call and says nothing, for longer than its limit
  cut      three words of a stream, or half a plain answer, and the connection ends

Every upstream is a stand-in in this process; no provider is called and no secret is read.";

fn ratio(text: &str) -> Result<f64, String> {
    let ratio: Option<f64> = text.parse().ok();
    ratio
        .filter(|ratio| ratio.is_finite() && *ratio >= 1.0)
        .ok_or_else(|| "expected a number of at least 1".to_owned())
}

/// `name: value`; those that the gateway or the drill itself writes cannot be given.
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME:VALUE")?;
    let name = http::HeaderName::try_from(name.trim()).map_err(|_| "the name is not one of a header")?;
    let value = value.trim();
    http::HeaderValue::try_from(value).map_err(|_| "the value is not one of a header")?;
    let ours =
        ["authorization", "content-length", "content-type", "host", "transfer-encoding", "x-request-id"];
    if ours.contains(&name.as_str()) {
        return Err(format!("{name} cannot be given"));
    }
    Ok((name.as_str().to_owned(), value.to_owned()))
}

impl DrillArgs {
    fn order(self) -> Order {
        let wanted = |scenario: &Scenario| {
            *scenario == Scenario::Healthy || self.scenarios.is_empty() || self.scenarios.contains(scenario)
        };
        let scenarios = Scenario::ALL.into_iter().filter(wanted).collect();
        Order {
            config: self.config,
            routes: self.routes,
            headers: self.headers,
            scenarios,
            forms: self.form.map_or_else(|| Form::ALL.to_vec(), |form| vec![form]),
            requests: usize::from(self.requests),
            concurrency: usize::from(self.concurrency),
            max_p99_ratio: self.max_p99_ratio,
            timeout: self.timeout,
            json: self.json,
        }
    }
}

/// Drills a configuration. Mistakes of it, and how far the drill is, go to `err`. `live`: that is a terminal.
///
/// # Errors
/// What writing, or asking for signals, gives.
pub async fn drill(
    args: DrillArgs,
    live: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let order = args.order();
    match config::load_without_secrets(&order.config) {
        Ok(mut loaded) => {
            // Nothing is kept or told in a drill, so nothing is asked of where it would be.
            (loaded.config.records, loaded.config.traces) = (None, None);
            if !Box::pin(check::warnings(&order.config, &loaded, err)).await? {
                return Ok(Exit::No);
            }
            Box::pin(drill::run(&order, &loaded.config, live, out, err)).await
        }
        Err(errors) => {
            check::mistakes(&errors, &order.config, err)?;
            Ok(Exit::Usage)
        }
    }
}
