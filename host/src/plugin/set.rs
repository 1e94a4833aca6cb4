//! The plugins that decide: an immutable snapshot, swapped as a whole.

use std::sync::Arc;

use sluice_core::facts::{PluginKind, TargetFacts};

use super::bundled::Bundled;
use super::loaded::Plugin;
use super::watch::PluginWatch;

/// The plugins that decide, and the facts they were configured with.
#[derive(Clone)]
pub struct PluginSet {
    active: Vec<Arc<Plugin>>,
    bundled: Bundled,
    targets: Arc<[TargetFacts]>,
    denying: Vec<Arc<str>>,
    watch: Arc<dyn PluginWatch>,
}

impl std::fmt::Debug for PluginSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginSet")
            .field("active", &self.active)
            .field("denying", &self.denying)
            .finish_non_exhaustive()
    }
}

impl PluginSet {
    /// `active` in file-name order. `denying`: files that are to deny when they fail, of which nothing runs.
    pub(super) fn new(
        active: Vec<Arc<Plugin>>,
        bundled: Bundled,
        targets: Arc<[TargetFacts]>,
        denying: Vec<Arc<str>>,
        watch: Arc<dyn PluginWatch>,
    ) -> Self {
        Self { active, bundled, targets, denying, watch }
    }

    /// Whether the same instances decide.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let same = |(one, two): (&Arc<Plugin>, &Arc<Plugin>)| Arc::ptr_eq(one, two);
        self.active.len() == other.active.len()
            && self.active.iter().zip(&other.active).all(same)
            && PluginKind::ALL.iter().all(|kind| Arc::ptr_eq(self.bundled.of(*kind), other.bundled.of(*kind)))
            && self.denying == other.denying
    }

    /// The plugins of a kind from the folder, in file-name order.
    pub fn of(&self, kind: PluginKind) -> impl Iterator<Item = &Arc<Plugin>> + Clone {
        self.active.iter().filter(move |plugin| plugin.kinds().contains(&kind))
    }

    /// The bundled plugin of a kind.
    pub fn bundled(&self, kind: PluginKind) -> &Arc<Plugin> {
        self.bundled.of(kind)
    }

    /// The targets every plugin of this set was configured with: their indices are valid for these only.
    pub fn targets(&self) -> &Arc<[TargetFacts]> {
        &self.targets
    }

    /// Plugins with `on_error: deny` of which nothing runs. Not empty: every request is to be refused.
    pub fn denying(&self) -> &[Arc<str>] {
        &self.denying
    }

    /// Every plugin of the folder that runs, in file-name order.
    pub fn active(&self) -> &[Arc<Plugin>] {
        &self.active
    }

    /// Who is told of calls.
    pub fn watch(&self) -> &Arc<dyn PluginWatch> {
        &self.watch
    }
}
