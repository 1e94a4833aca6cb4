//! Plugins that a route names and that do not run as what it names them for: the bundled one takes their place, and
//! one line says so when it comes to that, not again for each generation after.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use sluice_core::facts::PluginKind;

use crate::config::{BUNDLED_PLUGINS, Config};
use crate::plugin::PluginSet;

/// A name in the list of a route of which nothing of that kind runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// The route.
    pub route: Arc<str>,
    /// As the configuration names the kind.
    pub kind: &'static str,
    /// The plugin.
    pub plugin: Arc<str>,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the route {:?} asks for the {} {:?}, and no plugin of that name and kind runs; the bundled one takes its place",
            self.route, self.kind, self.plugin
        )
    }
}

/// What is missing, if these run.
pub(super) fn gaps(config: &Config, runs: impl Fn(PluginKind, &str) -> bool) -> BTreeSet<Gap> {
    let mut gaps = BTreeSet::new();
    for (route, settings) in &config.routes {
        for kind in PluginKind::ALL {
            for name in settings.plugins.of(kind).unwrap_or_default() {
                if !runs(kind, name) && !BUNDLED_PLUGINS.contains(&(kind, name)) {
                    gaps.insert(Gap { route: route.clone(), kind: kind.as_str(), plugin: name.clone() });
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
        tracing::warn!(route = %gap.route, plugin = %gap.plugin, "{gap}");
    }
}
