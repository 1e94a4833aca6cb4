//! `sluice mock` from start to signal.

use std::io::Write;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{MockArgs, Server};

/// Serves until SIGINT or SIGTERM. Exit code 0 then; 1 when it could not start.
pub async fn run(args: MockArgs, out: &mut dyn Write) -> ExitCode {
    match serve(&args, out).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // Nowhere is left to tell of an output that is gone.
            let _ = writeln!(out, "sluice mock: {message}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: &MockArgs, out: &mut dyn Write) -> Result<(), String> {
    let no_signal = |error| format!("cannot wait for signals: {error}");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signal)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signal)?;
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let server = Server::start(args.listen, args.settings(), &tracker, stop.clone())
        .await
        .map_err(|error| error.to_string())?;
    let listening = format!(
        "scripted upstream: base_url {}, counters http://{}/mock/stats",
        server.base_url(),
        server.addr()
    );
    // A closed output is no reason not to serve.
    let _ = writeln!(out, "{listening}").and_then(|()| out.flush());
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    stop.cancel();
    tracker.close();
    tracker.wait().await;
    Ok(())
}
