//! `sluice run`: a gateway from a configuration file, until a signal ends it.

use std::io::{self, Write};
use std::path::Path;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Exit;
use crate::config;
use crate::gateway::{Gateway, Outside};

fn ended_early(err: &mut dyn Write) -> io::Result<Exit> {
    writeln!(err, "sluice: a signal ended it before it served")?;
    Ok(Exit::Done)
}

/// Runs until SIGTERM or SIGINT, then goes down in order; a second signal ends it at once, as does the first
/// where it has not begun to serve. The file is watched,
/// and read again at once on SIGHUP. Mistakes of the
/// configuration go to `err`; a start that fails is [`Exit::No`].
///
/// # Errors
/// Only what writing to `err`, or asking for signals, gives.
pub async fn run(path: &Path, err: &mut dyn Write) -> io::Result<Exit> {
    let config::Reading { outcome, sources } = config::read(path, &|name| std::env::var(name).ok());
    let loaded = match outcome {
        Ok(loaded) => loaded,
        Err(errors) => {
            writeln!(err, "{errors}")?;
            return Ok(Exit::Usage);
        }
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let out = Box::new(io::stdout());
    let outside = Outside { out, process_log: true, dial: None, sources: Some(sources) };
    let started = tokio::select! {
        started = Gateway::start(loaded.config, outside) => started,
        // Nobody was let in yet, so there is nothing to wait for.
        _ = terminate.recv() => return ended_early(err),
        _ = interrupt.recv() => return ended_early(err),
    };
    let gateway = match started {
        Ok(gateway) => gateway,
        Err(error) => {
            writeln!(err, "sluice: {error}")?;
            return Ok(Exit::No);
        }
    };
    for warning in &loaded.warnings {
        tracing::warn!("{}", warning.line_for_warning(path));
    }
    tracing::info!(event = "listening", listen = %gateway.listen(), admin = %gateway.admin());
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            Some(()) = hangup.recv() => gateway.reload(),
        }
    }
    tracing::info!(event = "draining");
    let hurry = CancellationToken::new();
    let mut going = std::pin::pin!(gateway.drain(hurry.clone()));
    tokio::select! {
        () = going.as_mut() => {}
        _ = terminate.recv() => hurry.cancel(),
        _ = interrupt.recv() => hurry.cancel(),
    }
    if hurry.is_cancelled() {
        going.await;
    }
    Ok(Exit::Done)
}
