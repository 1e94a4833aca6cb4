//! Work on one file that takes long, away from the keeper: read, digest, admit.

use std::path::PathBuf;
use std::sync::Arc;

use sluice_core::facts::TargetFacts;
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::TaskTracker;

use super::admission::{admit, try_out};
use super::compiled::{Bounds, digest};
use super::engine::Host;
use super::folder::{self, Fingerprint, Found, NotRead};
use super::last_good::LastGood;
use super::loaded::{History, Parts, Plugin};
use super::options::PluginOptions;
use super::rejection::Rejection;
use super::watch::PluginWatch;

/// Files worked on at a time. Compiling has fewer places; this bounds bytes held meanwhile.
pub const JOBS: usize = 4;

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
    /// Of [`Shop::epoch`].
    pub epoch: u64,
    /// What came of it.
    pub what: What,
}

/// What came of a job.
pub enum What {
    /// The file changed while it was read.
    Changed,
    /// Its bytes are known already.
    Known {
        /// Of the file that was read.
        fingerprint: Fingerprint,
        /// Its digest.
        digest: Arc<str>,
    },
    /// It was admitted.
    Admitted {
        /// Of the file that was read.
        fingerprint: Fingerprint,
        /// The plugin.
        plugin: Box<Plugin>,
        /// Its bytes.
        bytes: Arc<[u8]>,
    },
    /// It was refused.
    Refused {
        /// Of the file that was read.
        fingerprint: Fingerprint,
        /// Of its bytes, when they could be read.
        digest: Option<Arc<str>>,
        /// Why.
        rejection: Rejection,
    },
    /// What last ran was found on disk and runs; none: there was nothing that does.
    Restored(Option<Box<Plugin>>),
    /// The version before runs again, or does not.
    RolledBack(Result<Box<Plugin>, Rejection>),
}

/// A file to look at.
pub struct Task {
    /// The file.
    pub found: Found,
    /// How it is run.
    pub options: Arc<PluginOptions>,
    /// Digests that need no further look: what runs, and what was refused.
    pub known: Vec<Arc<str>>,
}

/// What there is to do about a file.
pub enum Work {
    /// Read it and admit it.
    Look(Task),
    /// Nothing of it runs: run what last ran under its name.
    Restore(Found, Arc<PluginOptions>),
    /// Run this older version again.
    RollBack(Arc<Plugin>),
}

impl Shop {
    /// Does it.
    pub async fn work(&self, work: Work) -> What {
        // Never closed: there is always a place in the end.
        let _place = self.places.acquire().await;
        match work {
            Work::Look(task) => self.look(task).await,
            Work::Restore(found, options) => self.restore(&found, &options).await,
            Work::RollBack(to) => self.roll_back(&to).await,
        }
    }

    pub(super) async fn look(&self, task: Task) -> What {
        let Task { found, options, known } = task;
        let fingerprint = found.fingerprint.clone();
        if let Some(rejection) = found.refused.clone() {
            return What::Refused { fingerprint, digest: None, rejection };
        }
        let max = options.file;
        let of_read = found.clone();
        let reading = self.tracker.spawn_blocking(move || {
            folder::read(&of_read, max).map(|bytes| {
                let digest = digest(&bytes);
                (Arc::<[u8]>::from(bytes), digest)
            })
        });
        let (bytes, digest) = match reading.await {
            Ok(Ok(read)) => read,
            Ok(Err(NotRead::Changed)) => return What::Changed,
            Ok(Err(NotRead::Refused(rejection))) => {
                return What::Refused { fingerprint, digest: None, rejection };
            }
            Err(error) => {
                return What::Refused {
                    fingerprint,
                    digest: None,
                    rejection: Rejection::Read(error.to_string()),
                };
            }
        };
        if known.contains(&digest) {
            return What::Known { fingerprint, digest };
        }
        match self.admit(&found, &options, bytes.clone(), digest.clone()).await {
            Ok(plugin) => What::Admitted { fingerprint, plugin: Box::new(plugin), bytes },
            Err(rejection) => What::Refused { fingerprint, digest: Some(digest), rejection },
        }
    }

    async fn restore(&self, found: &Found, options: &Arc<PluginOptions>) -> What {
        let (last_good, name) = (self.last_good.clone(), found.name.clone());
        let loading = self.tracker.spawn_blocking(move || last_good.load(&name));
        let Ok(Some(bytes)) = loading.await else {
            return What::Restored(None);
        };
        let digest = digest(&bytes);
        What::Restored(self.admit(found, options, bytes.into(), digest).await.ok().map(Box::new))
    }

    /// With its own history, for the targets of now.
    async fn roll_back(&self, to: &Plugin) -> What {
        let parts = self.again(to, to.options().clone());
        What::RolledBack(try_out(self.host, parts).await.map(Box::new))
    }

    /// The same version with what is configured now.
    pub fn again(&self, plugin: &Plugin, options: Arc<PluginOptions>) -> Parts {
        Parts {
            name: plugin.name().clone(),
            file: plugin.file().cloned(),
            compiled: plugin.compiled().clone(),
            options,
            targets: self.targets.clone(),
            watch: self.watch.clone(),
            history: plugin.history().clone(),
            trouble: self.trouble.clone(),
        }
    }

    async fn admit(
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
