//! From bytes to a plugin that may decide: the one road in, for start-up, reloads and the command line.
//!
//! pin, size, magic, validity, imports, contract, needs, compile, instantiate, describe, configure, sample
//! calls; the first thing that is wrong ends it. Nothing here changes what runs.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::compiled::{Bounds, prepare};
use super::engine::Host;
use super::instance::{Instance, Spec};
use super::loaded::{Parts, Plugin};
use super::probe::probe;
use super::rejection::Rejection;
use super::state::Voice;

/// Admits the bytes of a plugin. `parts` is asked for once the component is compiled.
///
/// # Errors
/// What was expected and what came.
pub async fn admit(
    host: &'static Host,
    tracker: &TaskTracker,
    bytes: Arc<[u8]>,
    digest: Arc<str>,
    pin: Option<&str>,
    bounds: Bounds,
    parts: impl FnOnce(Arc<super::compiled::Compiled>) -> Parts,
) -> Result<Plugin, Rejection> {
    if let Some(pin) = pin
        && !pin.eq_ignore_ascii_case(&digest)
    {
        return Err(Rejection::Digest { expected: pin.to_owned(), found: digest.to_string() });
    }
    let compiled = prepare(host, tracker, bytes, digest, bounds).await?;
    try_out(host, parts(compiled)).await
}

/// Configures a compiled plugin, asks it the sample questions, and only then makes the instance that serves.
/// The one that was asked is thrown away, so that no sample is left in the memory of a plugin.
///
/// # Errors
/// As [`admit`].
pub async fn try_out(host: &'static Host, parts: Parts) -> Result<Plugin, Rejection> {
    let voice = Voice {
        plugin: parts.name.clone(),
        digest: parts.compiled.digest.clone(),
        watch: parts.watch.clone(),
    };
    let spec = Spec {
        host,
        compiled: parts.compiled.clone(),
        voice,
        options: parts.options.clone(),
        targets: parts.targets.clone(),
        live: Arc::default(),
    };
    let (mut instance, _) = Instance::new(&spec).await?;
    probe(&mut instance, &parts.compiled.kinds, &parts.targets, parts.options.deadline).await?;
    drop(instance);
    Ok(Plugin::start(host, parts).await?)
}
