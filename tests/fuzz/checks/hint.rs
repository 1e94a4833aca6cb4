//! Hints of how long to wait, in headers: bounded, and never of nothing.

use std::time::{Duration, UNIX_EPOCH};

use sluice_core::retry_after::{hint, quota_left};

const MAX: Duration = Duration::from_secs(3600);

/// Each line is one header.
///
/// # Panics
/// When something does not hold.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let headers =
        text.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name, value.trim()));
    // 2024-01-01: some dates are over, some are to come.
    let wall = UNIX_EPOCH + Duration::from_secs(1_704_067_200);
    if let Some(wait) = hint(headers.clone(), wall, MAX) {
        assert!(!wait.is_zero() && wait <= MAX, "{wait:?}");
    }
    assert!(quota_left(headers).is_none_or(|left| (0.0..=1.0).contains(&left)));
}
