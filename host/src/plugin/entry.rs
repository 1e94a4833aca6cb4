//! What is known of one file of the folder, and when it is time to do something about it.
//!
//! Decisions only; the time is an argument.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::folder::Fingerprint;
use super::job::Version;
use super::loaded::Plugin;
use super::options::{OnError, PluginOptions};
use super::status::{PluginState, PluginStatus, RejectionStatus};

/// A file that looks like half of one is given so many settle times before it is refused.
const UNFINISHED: u32 = 3;
/// A file that is gone is missed for so many settle times before it is unloaded.
const MISSING: u32 = 2;

/// What a version that fails real calls gives way to.
#[derive(Debug, Clone)]
pub enum Previous {
    /// It ran in this process.
    Loaded(Arc<Plugin>),
    /// It ran before the last start, and is kept on disk.
    Kept,
}

/// A version that is not looked at again.
#[derive(Debug, Clone)]
pub enum Refused {
    /// It was never run.
    AtAdmission(Version),
    /// It ran, failed, and was rolled back.
    InService(Version),
}

impl Refused {
    /// Which.
    pub fn version(&self) -> &Version {
        match self {
            Self::AtAdmission(version) | Self::InService(version) => version,
        }
    }
}

/// One file.
#[derive(Debug, Clone)]
pub struct Entry {
    /// File name without its ending.
    pub name: Arc<str>,
    /// File name.
    pub file: Arc<str>,
    /// How it is run.
    pub options: Arc<PluginOptions>,
    /// What runs.
    pub running: Option<Arc<Plugin>>,
    /// What ran before it, for a roll-back.
    pub previous: Option<Previous>,
    /// As the page has it, but for set aside.
    pub state: PluginState,
    /// The last refusal.
    pub rejection: Option<RejectionStatus>,
    /// What was refused last.
    pub refused: Option<Refused>,
    /// Calls rely on it: it was there when the gateway started, or has run since. Only of such a plugin is it
    /// told that it is missing; a new file that is no good changes nothing.
    pub relied_on: bool,
    seen: Fingerprint,
    quiet_since: Instant,
    handled: Option<Fingerprint>,
    not_before: Option<Instant>,
    /// Number of the job that is at work on it.
    pub job: Option<u64>,
    missing_since: Option<Instant>,
    identity: (u64, u64),
}

impl Entry {
    /// Seen for the first time.
    pub fn new(
        name: Arc<str>,
        file: Arc<str>,
        options: Arc<PluginOptions>,
        seen: Fingerprint,
        identity: (u64, u64),
        now: Instant,
    ) -> Self {
        Self {
            name,
            file,
            options,
            running: None,
            previous: None,
            state: PluginState::Rejected,
            rejection: None,
            refused: None,
            relied_on: false,
            seen,
            quiet_since: now,
            handled: None,
            not_before: None,
            job: None,
            missing_since: None,
            identity,
        }
    }

    /// It is there.
    pub fn seen(&mut self, fingerprint: &Fingerprint, identity: (u64, u64), now: Instant) {
        self.missing_since = None;
        self.identity = identity;
        if self.seen != *fingerprint {
            self.seen = fingerprint.clone();
            self.quiet_since = now;
            self.not_before = None;
        }
    }

    /// When to read it; none: nothing about it is new, or a job is at it already.
    pub fn due(&self, settle: Duration) -> Option<Instant> {
        if self.job.is_some() || self.missing_since.is_some() || self.handled.as_ref() == Some(&self.seen) {
            return None;
        }
        let settled = self.quiet_since + settle;
        Some(self.not_before.map_or(settled, |time| time.max(settled)))
    }

    /// It is not there. `replaced`: the folder is another one than when it was last seen.
    /// Returns when to unload it.
    pub fn missing(
        &mut self,
        identity: (u64, u64),
        settle: Duration,
        rescan: Duration,
        now: Instant,
    ) -> Instant {
        let since = *self.missing_since.get_or_insert(now);
        if self.identity == identity {
            since + settle * MISSING
        } else {
            since + rescan.max(settle * MISSING)
        }
    }

    /// Whether it was last seen in another folder than this.
    pub fn was_elsewhere(&self, identity: (u64, u64)) -> bool {
        self.identity != identity
    }

    /// What came of these bytes is final.
    pub fn handled(&mut self, fingerprint: Fingerprint) {
        self.handled = Some(fingerprint);
        self.not_before = None;
    }

    /// What came of these bytes is not final: look again at `at`.
    pub fn again(&mut self, at: Instant) {
        self.not_before = Some(at);
    }

    /// Read it again whatever its signature says.
    pub fn doubt(&mut self) {
        self.handled = None;
    }

    /// What was refused is judged anew, and at once: its judge is another. What failed real calls stays refused; the
    /// file is looked at again where nothing runs, so that the version before it is tried.
    pub fn appeal(&mut self) {
        let failed = matches!(self.refused, Some(Refused::InService(_)));
        if failed && self.running.is_some() {
            return;
        }
        if !failed {
            self.refused = None;
        }
        (self.handled, self.not_before) = (None, None);
    }

    /// When it is time to read it, if that is as soon as its bytes may be whole. What is tried again later, since its
    /// failure said nothing about the bytes, is nothing to wait for.
    pub fn due_soon(&self, settle: Duration, now: Instant) -> Option<Instant> {
        self.due(settle).filter(|at| *at <= now + settle * UNFINISHED)
    }

    /// It was not there when the folder was looked at last.
    pub fn is_missing(&self) -> bool {
        self.missing_since.is_some()
    }

    /// When a file that looks unfinished has had its time.
    pub fn patience(&self, settle: Duration) -> Instant {
        self.quiet_since + settle * UNFINISHED
    }

    /// Nothing of it runs, and calls are to be denied for that.
    pub fn denies(&self) -> bool {
        self.relied_on
            && self.running.is_none()
            && self.state == PluginState::Rejected
            && self.options.on_error == OnError::Deny
    }

    /// For the page.
    pub fn status(&self) -> PluginStatus {
        match &self.running {
            Some(plugin) => PluginStatus::running(plugin, self.state, self.rejection.clone()),
            None => {
                PluginStatus::idle(&self.name, &self.file, self.state, &self.options, self.rejection.clone())
            }
        }
    }
}
