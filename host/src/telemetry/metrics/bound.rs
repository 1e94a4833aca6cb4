//! Which names may be label values. Clients choose model names and folders hold any file name, so only what
//! is configured gets series of its own; everything else is `other`, and what is absent is `none`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::quick::Quick;
use crate::config::Config;

/// A name that is not configured.
pub const OTHER: &str = "other";
/// No name at all.
pub const NONE: &str = "none";

/// A target and how its parts are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetName {
    /// `upstream/model`.
    pub key: Arc<str>,
    /// Its upstream.
    pub upstream: Arc<str>,
    /// Its model.
    pub model: Arc<str>,
}

/// The names of one configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// Routes.
    pub routes: Vec<Arc<str>>,
    /// Targets.
    pub targets: Vec<TargetName>,
    /// Upstreams, also those without a target.
    pub upstreams: Vec<Arc<str>>,
    /// Callers.
    pub callers: Vec<Arc<str>>,
}

impl Names {
    /// Those of `config`.
    pub fn of(config: &Config) -> Self {
        let target = |t: &Arc<crate::config::Target>| TargetName {
            key: t.key.clone(),
            upstream: t.upstream.name.clone(),
            model: t.model.clone(),
        };
        Self {
            routes: config.routes.keys().cloned().collect(),
            targets: config.targets.iter().map(target).collect(),
            upstreams: config.upstreams.keys().cloned().collect(),
            callers: config.callers.iter().map(|caller| caller.name.clone()).collect(),
        }
    }

    /// Labels of all gates.
    pub fn gates(&self) -> impl Iterator<Item = Arc<str>> {
        let upstreams = self.upstreams.iter().map(|name| format!("upstream:{name}"));
        let targets = self.targets.iter().map(|t| format!("target:{}", t.key));
        let callers = self.callers.iter().map(|name| format!("caller:{name}"));
        std::iter::once("global".to_owned()).chain(upstreams).chain(targets).chain(callers).map(Into::into)
    }
}

/// Which values each label may have.
#[derive(Debug, Clone, Default)]
pub struct Allowed(HashMap<&'static str, BTreeSet<Arc<str>>>);

impl Allowed {
    /// The values that `names` allows. Plugins are apart: see [`Allowed::set_plugins`].
    pub fn of(names: &Names) -> Self {
        let targets = &names.targets;
        let upstreams = names.upstreams.iter().chain(targets.iter().map(|t| &t.upstream));
        Self(HashMap::from([
            ("model", names.routes.iter().cloned().collect()),
            ("target", targets.iter().map(|t| t.key.clone()).collect()),
            ("served_model", targets.iter().map(|t| t.model.clone()).collect()),
            ("upstream", upstreams.cloned().collect()),
            ("gate", names.gates().collect()),
        ]))
    }

    /// Replaces the allowed plugins.
    pub fn set_plugins(&mut self, plugins: impl IntoIterator<Item = Arc<str>>) {
        self.0.insert("plugin", plugins.into_iter().collect());
    }

    /// Whether `value` may stand in `label`. Labels with closed sets allow what they have.
    pub fn allows(&self, label: &str, value: &str) -> bool {
        value == OTHER || value == NONE || self.0.get(label).is_none_or(|values| values.contains(value))
    }
}

/// The series of each known name, and those of all others.
#[derive(Debug)]
pub struct Table<T> {
    known: ArcSwap<HashMap<Arc<str>, Arc<T>, Quick>>,
    other: Arc<T>,
}

impl<T> Table<T> {
    /// A table in which nothing is known.
    pub fn new(other: T) -> Self {
        Self { known: ArcSwap::default(), other: Arc::new(other) }
    }

    /// The series of `name`.
    pub fn get(&self, name: &str) -> Arc<T> {
        self.find(name).unwrap_or_else(|| self.other.clone())
    }

    /// Does something with the series of `name`, which are not taken along.
    pub fn with<R>(&self, name: &str, then: impl FnOnce(&T) -> R) -> R {
        then(self.known.load().get(name).unwrap_or(&self.other))
    }

    /// The same where the name is known.
    pub fn with_known<R>(&self, name: &str, then: impl FnOnce(&T) -> R) -> Option<R> {
        self.known.load().get(name).map(|series| then(series))
    }

    /// The series of `name`, if it is known.
    pub fn find(&self, name: &str) -> Option<Arc<T>> {
        self.known.load().get(name).cloned()
    }

    /// Replaces what is known.
    pub fn set(&self, known: HashMap<Arc<str>, Arc<T>, Quick>) {
        self.known.store(Arc::new(known));
    }

    /// The series of `name`; when it is not known yet and fewer than `room` are, it is taken up. Callers keep
    /// others from changing the table meanwhile.
    pub fn add(&self, name: &str, room: usize, make: impl FnOnce() -> T) -> Arc<T> {
        let known = self.known.load_full();
        if let Some(found) = known.get(name) {
            return found.clone();
        }
        if known.len() >= room {
            return self.other.clone();
        }
        let made = Arc::new(make());
        let mut more = HashMap::clone(&known);
        more.insert(name.into(), made.clone());
        self.set(more);
        made
    }

    /// The known names.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.known.load().keys().cloned().collect()
    }
}
