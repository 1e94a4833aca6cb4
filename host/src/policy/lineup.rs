//! Who is asked: the plugins of each kind in the order in which a route asks them, worked out once for each route
//! and generation.
//!
//! A route without a list asks all of the folder, in file-name order, and the bundled one where there are none. A
//! route with a list asks those it names, in its order. A name of which nothing runs is no reason to fail: the
//! bundled one takes its place. The bundled classifier is asked last in any case, because it always has an opinion.

use std::sync::Arc;

use sluice_core::facts::PluginKind;

use super::Named;
use crate::plugin::{Plugin, PluginSet};

/// Who is asked by one route.
#[derive(Debug)]
pub struct Lineup {
    routers: Vec<Arc<Plugin>>,
    classifiers: Vec<Arc<Plugin>>,
    taggers: Vec<Arc<Plugin>>,
    denies: bool,
}

impl Lineup {
    /// `list`: the names that the route gives for a kind; none: whoever is there.
    pub fn new<'a>(set: &PluginSet, list: impl Fn(PluginKind) -> Option<&'a [Arc<str>]>) -> Self {
        // Which kinds a plugin has of which nothing ever ran, nobody knows.
        let asks = |name: &Arc<str>| {
            PluginKind::ALL.into_iter().any(|kind| list(kind).is_none_or(|names| names.contains(name)))
        };
        Self {
            routers: of_kind(set, PluginKind::Router, list(PluginKind::Router)),
            classifiers: of_kind(set, PluginKind::Classifier, list(PluginKind::Classifier)),
            taggers: of_kind(set, PluginKind::Tagger, list(PluginKind::Tagger)),
            denies: set.denying().iter().any(asks),
        }
    }

    /// Those of a kind; at least one.
    pub fn of(&self, kind: PluginKind) -> &[Arc<Plugin>] {
        match kind {
            PluginKind::Router => &self.routers,
            PluginKind::Classifier => &self.classifiers,
            PluginKind::Tagger => &self.taggers,
        }
    }

    /// The taggers that are asked about an answer, by phase.
    pub fn taggers(&self, head: bool) -> impl Iterator<Item = Named<'_>> + Clone {
        let asked = self.taggers.iter().filter(move |plugin| plugin.wants_tags(head));
        asked.map(|plugin| Named::new(plugin, PluginKind::Tagger))
    }

    /// Nothing runs of a plugin that this route may ask and that is to deny when it fails.
    pub const fn denies(&self) -> bool {
        self.denies
    }
}

fn of_kind(set: &PluginSet, kind: PluginKind, list: Option<&[Arc<str>]>) -> Vec<Arc<Plugin>> {
    let bundled = set.bundled(kind);
    let Some(names) = list else {
        let mut all: Vec<_> = set.of(kind).cloned().collect();
        if all.is_empty() || kind == PluginKind::Classifier {
            all.push(bundled.clone());
        }
        return all;
    };
    let mut asked: Vec<Arc<Plugin>> = Vec::with_capacity(names.len() + 1);
    for name in names {
        let own = set.of(kind).find(|plugin| plugin.name() == name);
        let is_bundled = own.is_none();
        let takes_its_place = kind != PluginKind::Classifier || bundled.name() == name;
        if !is_bundled || (takes_its_place && !asked.iter().any(|known| Arc::ptr_eq(known, bundled))) {
            asked.push(own.unwrap_or(bundled).clone());
        }
    }
    let last = kind == PluginKind::Classifier && !asked.iter().any(|known| Arc::ptr_eq(known, bundled));
    if asked.is_empty() || last {
        asked.push(bundled.clone());
    }
    asked
}
