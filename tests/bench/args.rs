//! The command line. Roles are how the program starts itself; people give options alone.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::load::Plan;

const USAGE: &str =
    "usage: bench [--bin PATH] [--rounds N] [--secs N] [--only PART,…] [--streams N,…] [--json]
parts: json burst paced streams failover scale start";

/// Every part, in the order in which they are measured.
pub const PARTS: [&str; 7] = ["json", "burst", "paced", "streams", "failover", "scale", "start"];

/// What this process is.
pub enum Role {
    /// Leads a run.
    Lead(Args),
    /// Answers as a provider would.
    Upstream,
    /// Passes everything to `upstream`.
    Proxy {
        /// Where to.
        upstream: SocketAddr,
        /// Takes all that is there before it writes.
        gathers: bool,
    },
    /// Calls, and says how it went.
    Load(Box<Plan>),
}

/// A run.
#[derive(Debug)]
pub struct Args {
    /// The gateway.
    pub bin: PathBuf,
    /// How often each figure is taken; the median counts.
    pub rounds: usize,
    /// How long each figure is taken, seconds.
    pub secs: u64,
    /// What is measured.
    pub parts: Vec<String>,
    /// Numbers of open streams.
    pub streams: Vec<usize>,
    /// JSON in place of tables.
    pub json: bool,
}

impl Args {
    pub fn read(mut args: impl Iterator<Item = String>) -> Result<Role, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut lead = Self {
            bin: own.with_file_name("sluice"),
            rounds: 3,
            secs: 3,
            parts: PARTS.map(str::to_owned).to_vec(),
            streams: vec![1000, 5000],
            json: false,
        };
        while let Some(name) = args.next() {
            if name == "--json" {
                lead.json = true;
                continue;
            }
            if name == "--upstream" {
                return Ok(Role::Upstream);
            }
            let value = args.next().ok_or_else(|| format!("{name}: a value is missing\n{USAGE}"))?;
            let wrong = |error: &dyn std::fmt::Display| format!("{name} {value}: {error}\n{USAGE}");
            match name.as_str() {
                "--proxy" | "--gathering" => {
                    let upstream = value.parse().map_err(|error| wrong(&error))?;
                    return Ok(Role::Proxy { upstream, gathers: name == "--gathering" });
                }
                "--load" => {
                    return Ok(Role::Load(serde_json::from_str(&value).map_err(|error| wrong(&error))?));
                }
                "--bin" => lead.bin = PathBuf::from(&value),
                "--rounds" => lead.rounds = value.parse().map_err(|error| wrong(&error))?,
                "--secs" => lead.secs = value.parse().map_err(|error| wrong(&error))?,
                "--only" => {
                    lead.parts = value.split(',').map(str::to_owned).collect();
                    if let Some(part) = lead.parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
                        return Err(format!("--only {part}: no such part\n{USAGE}"));
                    }
                }
                "--streams" => {
                    let numbers = value.split(',').map(str::parse).collect::<Result<_, _>>();
                    lead.streams = numbers.map_err(|error| wrong(&error))?;
                }
                _ => return Err(format!("{name}: unknown\n{USAGE}")),
            }
        }
        if lead.rounds == 0 || lead.secs == 0 {
            return Err(format!("--rounds and --secs: expected at least 1\n{USAGE}"));
        }
        if !lead.bin.exists() {
            return Err(format!("{}: not there; cargo build --release, or --bin PATH", lead.bin.display()));
        }
        Ok(Role::Lead(lead))
    }

    /// Whether a part is to be measured.
    pub fn wants(&self, part: &str) -> bool {
        self.parts.iter().any(|wanted| wanted == part)
    }
}
