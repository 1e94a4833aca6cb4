//! A word in the log when a certificate of our own listeners comes near its end, daily from then on, and when its end is there.
//! How it stands when a configuration is loaded is said with the other warnings about that.

use std::time::{Duration, SystemTime};

use sluice_core::certificate::{self, Ending};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock;
use crate::config::Config;

/// Keeps an eye on the certificates of `config` until `stop`.
pub(super) fn start(config: &Config, tracker: &TaskTracker, stop: &CancellationToken) {
    for (listener, tls) in [("main", &config.tls), ("admin", &config.admin_tls)] {
        if let Some(not_after) = tls.as_ref().and_then(|tls| tls.expires) {
            let stop = stop.clone();
            tracker.spawn(async move {
                tokio::select! {
                    () = watch(listener, not_after) => {}
                    () = stop.cancelled() => {}
                }
            });
        }
    }
}

async fn watch(listener: &'static str, not_after: i64) {
    loop {
        let wait = certificate::look_again(not_after, now()).unsigned_abs();
        tokio::time::sleep(Duration::from_secs(wait)).await;
        match certificate::ending(not_after, now()) {
            Some(Ending::Over) => {
                tracing::error!(event = "certificate_expired", listener, "clients refuse the listener");
            }
            Some(Ending::In(left)) => {
                let left = humantime::format_duration(Duration::from_secs(left.unsigned_abs())).to_string();
                tracing::warn!(event = "certificate_expires", listener, left, "it was not renewed yet");
            }
            None => {}
        }
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let now = clock::wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
