//! The command line of `sluice mock`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use super::Settings;
use super::behaviour::{Behaviour, GRAMMAR};
use super::word::duration;

/// A scripted OpenAI-compatible upstream: see how callers behave when a provider does not.
#[derive(Debug, Clone, Args)]
#[command(after_help = words())]
pub struct MockArgs {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8001")]
    pub listen: SocketAddr,
    /// What to do with calls whose model name does not choose for itself
    #[arg(long, value_name = "WORD", default_value = "healthy")]
    pub behave: Behaviour,
    /// Answer 503 to every call for so long after the start, then as told otherwise
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub fail_for: Option<Duration>,
    /// Chunks of a healthy answer [default: one for each word of the text]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub chunks: Option<u32>,
    /// Pause between two chunks
    #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = parse_duration)]
    pub delay: Duration,
    /// The words of the answer; repeated when there are more chunks than words
    #[arg(long, value_name = "TEXT", default_value = Settings::TEXT)]
    pub text: String,
}

impl MockArgs {
    /// The same as the settings of a server.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            behaviour: self.behave,
            fail_for: self.fail_for.unwrap_or_default(),
            chunks: self.chunks,
            delay: self.delay,
            text: self.text.clone(),
        }
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed = duration(text).filter(|d| *d <= Duration::from_secs(24 * 3600));
    parsed.ok_or_else(|| {
        "expected a whole number and `ms`, `s`, `m` or `h`, at most 24h, as in `250ms`".to_owned()
    })
}

fn words() -> String {
    let mut text = String::from(
        "Words, for --behave, and behind `mock-` as a model name (mock-cut-3) for a single call:\n",
    );
    for (word, _, meaning) in GRAMMAR {
        text.push_str(&format!("  {word:<21} {meaning}\n"));
    }
    text.push_str(
        "\nAny other model name takes --behave. GET /mock/stats tells what came, POST /mock/reset starts anew.\n\
         A plain (not streaming) call gets the same in its own form: half a body before a cut or a stall,\n\
         a 200 with an error object, half a JSON.",
    );
    text
}
