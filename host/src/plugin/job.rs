//! Work on one file that takes long, away from the keeper: read, digest, admit.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sluice_core::facts::TargetFacts;
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::TaskTracker;

use super::admission::{admit, try_out};
use super::compiled::{Bounds, digest};
use super::engine::Host;
use super::folder::{self, Fingerprint, Found, NotRead};
use super::last_good::{LastGood, Source, Standing};
use super::loaded::{History, Parts, Plugin};
use super::options::PluginOptions;
use super::rejection::Rejection;
use super::watch::PluginWatch;
use crate::config;

/// Files worked on at a time. Compiling has fewer places; this bounds bytes held meanwhile.
pub const JOBS: usize = 4;
/// So long the disk may take to say what is kept there; a plugin does not wait longer to be looked at.
const DISK: Duration = Duration::from_secs(2);

/// What every job needs.
#[derive(Clone)]
pub struct Shop {
    /// The engine.
    pub host: &'static Host,
    /// Owns every task.
    pub tracker: TaskTracker,
    /// Who is told.
    pub watch: Arc<dyn PluginWatch>,
    /// What plugins are configured with.
    pub targets: Arc<[TargetFacts]>,
    /// What holds where a sidecar says nothing else.
    pub plugins: Arc<config::Plugins>,
    /// Rung when a plugin is set aside.
    pub trouble: Arc<Notify>,
    /// Bytes of what last ran.
    pub last_good: Arc<LastGood>,
    /// Places for jobs: each may hold a whole file in memory.
    pub places: Arc<Semaphore>,
    /// Number of the configuration; what was made for another one is not used.
    pub epoch: u64,
}

/// What came of a job.
pub struct Done {
    /// File name of the entry.
    pub file: Arc<str>,
    /// Number of the job: only the entry that waits for it takes its result.
    pub job: u64,
    /// Of [`Shop::epoch`].
    pub epoch: u64,
    /// What came of it.
    pub what: What,
}

/// What came of a job.
pub enum What {
    /// The file changed while it was read.
    Changed,
    /// It is known already.
    Known {
        /// Of the file that was read.
        fingerprint: Fingerprint,
        /// What it is.
        version: Version,
    },
    /// Its sidecar switches it off.
    Disabled {
        /// Of the file that was read.
        fingerprint: Fingerprint,
        /// What its sidecar says.
        options: Arc<PluginOptions>,
    },
    /// It was admitted.
    Admitted {
        /// Of the file that was read.
        fingerprint: Fingerprint,
        /// The plugin.
        plugin: Box<Plugin>,
        /// What it was made of.
        source: Source,
        /// Nothing ran, but what last ran was another version, which is kept on disk.
        after_kept: bool,
    },
    /// It was refused.
    Refused {
        /// Of the file that was read.
        fingerprint: Fingerprint,
        /// How it would be run, as far as that is known.
        options: Arc<PluginOptions>,
        /// Of its bytes, when they could be read.
        digest: Option<Arc<str>>,
        /// Why.
        rejection: Rejection,
    },
    /// What last ran was found on disk and runs; none: there was nothing that does.
    Restored(Option<Box<Plugin>>),
    /// The version before runs again, or does not.
    RolledBack(Option<Box<Plugin>>),
}

/// What a plugin is: its bytes and how they are run. Another sidecar makes another version of the same bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// SHA-256 of the bytes, in hex.
    pub digest: Arc<str>,
    /// How they are run.
    pub options: Arc<PluginOptions>,
}

impl Version {
    /// What runs.
    pub fn of(plugin: &Plugin) -> Self {
        Self { digest: plugin.digest().clone(), options: plugin.options().clone() }
    }
}

/// A file to look at.
pub struct Task {
    /// The file.
    pub found: Found,
    /// What needs no further look: what runs, and what was refused.
    pub known: Vec<Version>,
    /// Nothing of it runs: then it counts what is kept on disk of those that did.
    pub idle: bool,
}

/// What there is to do about a file.
pub enum Work {
    /// Read it and admit it.
    Look(Task),
    /// Nothing of it runs: run what last ran under its name.
    Restore(Found),
    /// Run this older version again.
    RollBack(Arc<Plugin>),
    /// Run the version again that ran before the last start.
    RollBackToKept(Found),
}

impl Shop {
    /// Does it.
    pub async fn work(&self, work: Work) -> What {
        // Never closed: there is always a place in the end.
        let _place = self.places.acquire().await;
        match work {
            Work::Look(task) => self.look(task).await,
            Work::Restore(found) => self.restore(&found).await,
            Work::RollBack(to) => self.roll_back(&to).await,
            Work::RollBackToKept(found) => {
                let name = found.name.clone();
                What::RolledBack(self.kept(&found, move |disk| disk.load_before(&name)).await)
            }
        }
    }

    pub(super) async fn look(&self, task: Task) -> What {
        let Task { found, known, idle } = task;
        let fingerprint = found.fingerprint.clone();
        let refused = |options: Arc<PluginOptions>, digest, rejection| What::Refused {
            fingerprint: fingerprint.clone(),
            options,
            digest,
            rejection,
        };
        let plain = || Arc::new(PluginOptions::defaults(&self.plugins));
        if let Some(rejection) = found.refused.clone() {
            return refused(plain(), None, rejection);
        }
        let (of_read, plugins) = (found.clone(), self.plugins.clone());
        let reading = self.tracker.spawn_blocking(move || {
            let (options, sidecar) = options_of(&of_read, &plugins)?;
            let source = if options.enabled { Some(source_of(&of_read, &options, sidecar)?) } else { None };
            Ok((options, source))
        });
        let (options, source) = match reading.await {
            Ok(Ok(read)) => read,
            Ok(Err(Unread::Changed)) => return What::Changed,
            Ok(Err(Unread::Refused(options, rejection))) => return refused(options, None, rejection),
            Err(error) => return refused(plain(), None, Rejection::Read(error.to_string())),
        };
        let Some((source, digest)) = source else { return What::Disabled { fingerprint, options } };
        let version = Version { digest: digest.clone(), options: options.clone() };
        if known.contains(&version) {
            return What::Known { fingerprint, version };
        }
        let standing = if idle { self.standing(&found, &source, &digest).await } else { Standing::Unknown };
        if standing == Standing::Failed {
            return refused(options, Some(digest), Rejection::RolledBack(self.plugins.probation));
        }
        let after_kept = standing == Standing::After;
        match self.admit(&found, &options, source.bytes.clone(), digest.clone()).await {
            Ok(plugin) => What::Admitted { fingerprint, plugin: Box::new(plugin), source, after_kept },
            Err(rejection) => refused(options, Some(digest), rejection),
        }
    }

    /// What the disk knows of a version of which nothing runs. A disk that does not answer knows nothing.
    async fn standing(&self, found: &Found, source: &Source, digest: &Arc<str>) -> Standing {
        let (last_good, name) = (self.last_good.clone(), found.name.clone());
        let (sidecar, digest) = (source.sidecar.clone(), digest.clone());
        let asking =
            self.tracker.spawn_blocking(move || last_good.standing(&name, &digest, sidecar.as_deref()));
        match tokio::time::timeout(DISK, asking).await {
            Ok(Ok(standing)) => standing,
            Ok(Err(_)) | Err(_) => Standing::Unknown,
        }
    }

    async fn restore(&self, found: &Found) -> What {
        let name = found.name.clone();
        What::Restored(self.kept(found, move |disk| disk.load(&name)).await)
    }

    /// Admits what is kept on disk for a file.
    async fn kept(
        &self,
        found: &Found,
        load: impl FnOnce(&LastGood) -> Option<Source> + Send + 'static,
    ) -> Option<Box<Plugin>> {
        let last_good = self.last_good.clone();
        let source = self.tracker.spawn_blocking(move || load(&last_good)).await.ok()??;
        let path = found.path.with_extension("yaml");
        let sidecar = source.sidecar.as_deref().map(|text| config::sidecar(text, &path)).transpose();
        // It was read as one before; if this host reads it otherwise, it is not the version that ran.
        let sidecar = sidecar.ok()?;
        let options = Arc::new(PluginOptions::of(&self.plugins, Arc::new(sidecar.unwrap_or_default())));
        let digest = digest(&source.bytes);
        self.admit(found, &options, source.bytes, digest).await.ok().map(Box::new)
    }

    /// With its own history, for the targets of now.
    async fn roll_back(&self, to: &Plugin) -> What {
        let parts = self.again(to);
        What::RolledBack(try_out(self.host, parts).await.ok().map(Box::new))
    }

    /// The same version with what is configured now.
    pub fn again(&self, plugin: &Plugin) -> Parts {
        let options = PluginOptions::of(&self.plugins, plugin.options().sidecar.clone());
        Parts {
            name: plugin.name().clone(),
            file: plugin.file().cloned(),
            compiled: plugin.compiled().clone(),
            options: Arc::new(options),
            targets: self.targets.clone(),
            watch: self.watch.clone(),
            history: plugin.history().clone(),
            trouble: self.trouble.clone(),
        }
    }

    /// Admits bytes as those of a file.
    ///
    /// # Errors
    /// What was expected and what came.
    pub(super) async fn admit(
        &self,
        found: &Found,
        options: &Arc<PluginOptions>,
        bytes: Arc<[u8]>,
        digest: Arc<str>,
    ) -> Result<Plugin, Rejection> {
        let bounds = Bounds { file: options.file, memory: options.memory };
        let parts = |compiled| Parts {
            name: found.name.clone(),
            file: Some(found.file.clone()),
            compiled,
            options: options.clone(),
            targets: self.targets.clone(),
            watch: self.watch.clone(),
            history: History::new(),
            trouble: self.trouble.clone(),
        };
        admit(self.host, &self.tracker, bytes, digest, options.sha256.as_deref(), bounds, parts).await
    }

    /// Looks at the folder.
    pub async fn scan(&self, dir: PathBuf) -> std::io::Result<folder::Scan> {
        match self.tracker.spawn_blocking(move || folder::scan(&dir)).await {
            Ok(scan) => scan,
            Err(error) => Err(std::io::Error::other(error)),
        }
    }
}

/// Why it is not known what is in a file or in its sidecar.
pub enum Unread {
    /// One of them changes while it is read: look again.
    Changed,
    /// One of them is no good. How the plugin would be run, as far as that is known.
    Refused(Arc<PluginOptions>, Rejection),
}

/// How a file is run, and the bytes of the sidecar that says so, where there is one.
type HowRun = (Arc<PluginOptions>, Option<Arc<[u8]>>);

/// How a file is run: what its sidecar says, and the sidecar. Blocking.
///
/// # Errors
/// [`Unread`].
pub fn options_of(found: &Found, plugins: &config::Plugins) -> Result<HowRun, Unread> {
    let failing = |on_error, why| Unread::Refused(Arc::new(PluginOptions::failing(plugins, on_error)), why);
    let text = folder::read_sidecar(found).map_err(|error| match error {
        NotRead::Changed => Unread::Changed,
        NotRead::Refused(rejection) => failing(config::OnError::default(), rejection),
    })?;
    let path = found.sidecar.as_deref().unwrap_or(&found.path);
    let sidecar = text.as_deref().map(|text| config::sidecar(text, path)).transpose();
    let sidecar = sidecar.map_err(|bad| failing(bad.on_error, Rejection::Sidecar(Box::new(bad.errors))))?;
    let options = PluginOptions::of(plugins, Arc::new(sidecar.unwrap_or_default()));
    Ok((Arc::new(options), text.map(Arc::from)))
}

/// What a file is made of, and the digest of its bytes. Blocking.
///
/// # Errors
/// [`Unread`].
pub fn source_of(
    found: &Found,
    options: &Arc<PluginOptions>,
    sidecar: Option<Arc<[u8]>>,
) -> Result<(Source, Arc<str>), Unread> {
    let bytes = folder::read(found, options.file).map_err(|error| match error {
        NotRead::Changed => Unread::Changed,
        NotRead::Refused(rejection) => Unread::Refused(options.clone(), rejection),
    })?;
    let digest = digest(&bytes);
    Ok((Source { bytes: bytes.into(), sidecar }, digest))
}
