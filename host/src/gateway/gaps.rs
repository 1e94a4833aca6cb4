//! Plugins that a route names and that do not run as what it names them for: the bundled one takes their place, and
//! one line says so when it comes to that, not again for each generation after. Likewise a plugins folder that somebody
//! named and that is not there.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use sluice_core::facts::PluginKind;

use crate::config::{BUNDLED_PLUGINS, Config};
use crate::plugin::PluginSet;

/// What a configuration names and what is not there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// A name in the list of a route of which nothing of that kind runs.
    Plugin {
        /// The route.
        route: Arc<str>,
        /// As the configuration names the kind.
        kind: &'static str,
        /// The plugin.
        plugin: Arc<str>,
    },
    /// The plugins folder. It may come later, but more likely its name is wrong.
    Folder(PathBuf),
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plugin { route, kind, plugin } => write!(
                f,
                "the route {route:?} asks for the {kind} {plugin:?}, and no plugin of that name and kind runs; the bundled one takes its place"
            ),
            Self::Folder(dir) => write!(
                f,
                "plugins.dir: {} is not there or is no folder; none of its plugins runs until it is",
                dir.display()
            ),
        }
    }
}

/// What is missing, if these run.
pub(super) fn gaps(config: &Config, runs: impl Fn(PluginKind, &str) -> bool) -> BTreeSet<Gap> {
    let mut gaps = BTreeSet::new();
    if config.plugins_dir_named && !config.plugins.dir.is_dir() {
        gaps.insert(Gap::Folder(config.plugins.dir.clone()));
    }
    for (route, settings) in &config.routes {
        for kind in PluginKind::ALL {
            for name in settings.plugins.of(kind).unwrap_or_default() {
                if !runs(kind, name) && !BUNDLED_PLUGINS.contains(&(kind, name)) {
                    let (route, kind, plugin) = (route.clone(), kind.as_str(), name.clone());
                    gaps.insert(Gap::Plugin { route, kind, plugin });
                }
            }
        }
    }
    gaps
}

/// What is missing in a set of plugins.
pub(super) fn gaps_of(config: &Config, set: &PluginSet) -> BTreeSet<Gap> {
    gaps(config, |kind, name| set.of(kind).any(|plugin| **plugin.name() == *name))
}

/// Says what is missing now and was not before.
pub(super) fn tell(before: &BTreeSet<Gap>, now: &BTreeSet<Gap>) {
    for gap in now.difference(before) {
        match gap {
            Gap::Plugin { route, plugin, .. } => tracing::warn!(%route, %plugin, "{gap}"),
            Gap::Folder(_) => tracing::warn!("{gap}"),
        }
    }
}
