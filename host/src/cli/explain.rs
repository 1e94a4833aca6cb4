//! `sluice explain`: what would become of a request, by the gateway's own code and the plugins of the folder, without
//! calling anybody. Secrets are not read, and upstreams lead nowhere.

mod mishap;
mod told;

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use sluice_core::lens::wire::Wire;
use tokio_util::sync::CancellationToken;

use super::{Exit, check, drill};
use crate::config::{self, Config};
use crate::gateway::{Dry, Explained, Gateway, Mishap, Outside};
use crate::rig::{Folder, Instead, harmless};

/// Which request.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct ExplainArgs {
    /// The configuration file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// The route it asks for, in the place of the `model` of its body
    #[arg(long, visible_alias = "route", value_name = "NAME")]
    model: Option<String>,
    /// Its JSON body, or - for standard input; without it a short chat
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Ask for a stream (without --body)
    #[arg(long, conflicts_with = "body")]
    stream: bool,
    /// One of its headers; may be given several times
    #[arg(long = "header", value_name = "NAME:VALUE", value_parser = drill::header)]
    headers: Vec<(String, String)>,
    /// The caller that sends it, by name
    #[arg(long, value_name = "NAME")]
    caller: Option<String>,
    /// Suppose that the breaker of this target is open; may be given several times
    #[arg(long, value_name = "TARGET")]
    down: Vec<String>,
    /// Suppose that an attempt fails like this: the first one given is for the first attempt, and so on
    #[arg(long = "failure", value_name = "WORD", value_parser = mishap::parse)]
    failures: Vec<Mishap>,
    /// Write one JSON document
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Failures: an HTTP status (503), a kind (quota_exhausted), an error word of `sluice mock` (429-2s, context, filter),
what can go wrong below HTTP (refused, reset, closed, dns, tls, unreachable, protocol), or timeout for silence.
Attempts for which none is given serve; failures for which there is no attempt are said to be too many.";

/// Explains to `out`; mistakes of the configuration, the body or the arguments go to `err`. [`Exit::Done`] whatever
/// would become of the request.
///
/// # Errors
/// Only what writing gives.
pub async fn explain(args: ExplainArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Exit> {
    let mut loaded = match config::load_without_secrets(&args.config) {
        Ok(loaded) => loaded,
        Err(errors) => {
            check::mistakes(&errors, &args.config, err)?;
            return Ok(Exit::Usage);
        }
    };
    (loaded.config.records, loaded.config.traces) = (None, None);
    let dry = match dry(&args, &loaded.config) {
        Ok(dry) => dry,
        Err(text) => {
            writeln!(err, "sluice: {text}")?;
            return Ok(Exit::Usage);
        }
    };
    if !Box::pin(check::warnings(&args.config, &loaded, err)).await? {
        return Ok(Exit::No);
    }
    let config = loaded.config;
    match Box::pin(ask(config, &dry, &args.down)).await {
        Ok(explained) if args.json => {
            writeln!(out, "{:#}", told::document(&explained))?;
            out.flush()?;
            Ok(Exit::Done)
        }
        Ok(explained) => told::text(&explained, out).map(|()| Exit::Done),
        Err(text) => {
            writeln!(err, "sluice: {text}")?;
            Ok(Exit::No)
        }
    }
}

/// Asks a gateway that serves nobody.
async fn ask(config: Config, dry: &Dry, down: &[String]) -> Result<Explained, String> {
    let folder = Folder::new().map_err(|error| format!("the temporary folder: {error}"))?;
    let (addresses, callers) = (BTreeMap::new(), config.callers.clone());
    let instead = Instead { addresses: &addresses, folder: &folder, callers, decisions: 1 };
    let outside = Outside { out: Box::new(io::sink()), process_log: false, dial: None, sources: None };
    let gateway = Box::pin(Gateway::start(harmless(config, instead), outside)).await;
    let gateway = gateway.map_err(|error| error.to_string())?;
    let explained = Box::pin(gateway.explain(dry, down)).await;
    let hurry = CancellationToken::new();
    hurry.cancel();
    gateway.drain(hurry).await;
    Ok(explained)
}

/// The request, or what is wrong with what was said about it.
fn dry(args: &ExplainArgs, config: &Config) -> Result<Dry, String> {
    let listed = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(", ");
    for target in &args.down {
        if !config.targets.iter().any(|known| *known.key == **target) {
            let known = listed(&mut config.targets.iter().map(|target| &*target.key));
            return Err(format!("--down {target}: there is no such target; there are {known}"));
        }
    }
    if let Some(name) = &args.caller
        && !config.callers.iter().any(|caller| *caller.name == **name)
    {
        let known = listed(&mut config.callers.iter().map(|caller| &*caller.name));
        return Err(format!("--caller {name}: there is no such caller; there are {known}"));
    }
    let mut body = match &args.body {
        Some(path) => read(path, config.limits.body)?,
        None => {
            let messages = json!([{"role": "user", "content": "Who is there?"}]);
            let mut names = config.routes.keys();
            let model = match (&args.model, names.next(), names.next()) {
                (Some(model), _, _) => model.clone(),
                (None, Some(only), None) => only.to_string(),
                _ => {
                    let known = listed(&mut config.routes.keys().map(|name| &**name));
                    return Err(format!("which route? --model NAME; there are {known}"));
                }
            };
            json!({"model": model, "stream": args.stream, "messages": messages}).to_string().into()
        }
    };
    if let (Some(model), Some(path)) = (&args.model, &args.body) {
        let object = serde_json::from_slice(&body).ok();
        let Some(Value::Object(mut object)) = object else {
            return Err(format!("{}: expected a JSON object", path.display()));
        };
        object.insert("model".to_owned(), model.as_str().into());
        body = Value::Object(object).to_string().into();
    }
    // A target of another route would be ignored, and the answer be about something else than was meant.
    let asked = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    if let Some(route) = asked["model"].as_str().and_then(|model| config.routes.get(model)) {
        let mut known = route.targets.iter().map(|target| &*target.target.key);
        if let Some(other) = args.down.iter().find(|down| !known.clone().any(|known| known == **down)) {
            let known = listed(&mut known);
            return Err(format!("--down {other}: no target of the route {}; it has {known}", route.name));
        }
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &args.headers {
        // They were checked when they were read.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    let (caller, mishaps) = (args.caller.clone(), args.failures.clone());
    Ok(Dry { wire: wire(&body), headers, body, caller, mishaps })
}

fn read(path: &Path, most: u64) -> Result<Bytes, String> {
    let why = |error: io::Error| format!("{}: {error}", path.display());
    let mut body = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().take(most + 1).read_to_end(&mut body).map_err(why)?;
    } else {
        std::fs::File::open(path).map_err(why)?.take(most + 1).read_to_end(&mut body).map_err(why)?;
    }
    if body.len() as u64 > most {
        return Err(format!("{}: larger than limits.body ({most} bytes)", path.display()));
    }
    Ok(body.into())
}

/// Which API a body is for, by what only that one has.
fn wire(body: &[u8]) -> Wire {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    if body.get("messages").is_some() {
        Wire::Chat
    } else if body.get("prompt").is_some() {
        Wire::Completions
    } else if body.get("input").is_some() {
        Wire::Embeddings
    } else {
        Wire::Chat
    }
}
