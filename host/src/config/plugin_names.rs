//! Which plugins a route asks, by name, and whether there are plugins of those names.
//!
//! A plugin is named after its file; those of the binary have names of their own, and a file of such a name
//! stands for it. Only names are looked at here: whether a file is a plugin, and of which kinds, is for the
//! plugin host to say, and a file that goes away later is no mistake of the configuration.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_core::facts::PluginKind;

use super::field::{Field, Map};
use super::suggest;

/// The plugins of the binary: kind and name.
pub const BUNDLED_PLUGINS: [(PluginKind, &str); 3] = [
    (PluginKind::Router, "weighted-router"),
    (PluginKind::Classifier, "standard-classifier"),
    (PluginKind::Tagger, "standard-tagger"),
];

/// Most names of one list; each is a call of its own.
const LIST_MAX: usize = 32;

/// `plugins` of a route: names in the order in which they are asked. None: all in the folder. An empty
/// list: only the bundled one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoutePlugins {
    /// Routers.
    pub routers: Option<Vec<Arc<str>>>,
    /// Classifiers; the bundled one is asked last, named or not.
    pub classifiers: Option<Vec<Arc<str>>>,
    /// Taggers.
    pub taggers: Option<Vec<Arc<str>>>,
}

impl RoutePlugins {
    pub(super) fn read(m: &Map<'_>) -> Self {
        Self {
            routers: m.get("routers").plugin_names(PluginKind::Router),
            classifiers: m.get("classifiers").plugin_names(PluginKind::Classifier),
            taggers: m.get("taggers").plugin_names(PluginKind::Tagger),
        }
    }

    pub(super) fn or(self, other: &Self) -> Self {
        Self {
            routers: self.routers.or_else(|| other.routers.clone()),
            classifiers: self.classifiers.or_else(|| other.classifiers.clone()),
            taggers: self.taggers.or_else(|| other.taggers.clone()),
        }
    }

    /// The list of a kind.
    pub fn of(&self, kind: PluginKind) -> Option<&[Arc<str>]> {
        match kind {
            PluginKind::Router => self.routers.as_deref(),
            PluginKind::Classifier => self.classifiers.as_deref(),
            PluginKind::Tagger => self.taggers.as_deref(),
        }
    }
}

/// The names of the plugins folder, read when the first list is.
#[derive(Default)]
pub(super) struct PluginNames {
    dir: OnceCell<PathBuf>,
    names: OnceCell<Vec<String>>,
}

impl PluginNames {
    /// Says where the folder is, before any list is read.
    pub(super) fn in_folder(&self, dir: &Path) {
        let _ = self.dir.set(dir.to_owned());
    }

    fn names(&self) -> &[String] {
        self.names.get_or_init(|| {
            let Some(Ok(entries)) = self.dir.get().map(std::fs::read_dir) else { return Vec::new() };
            let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let mut names: Vec<String> = files.filter_map(|file| Some(stem(&file)?.to_owned())).collect();
            names.sort();
            names
        })
    }
}

/// The name of a plugin file.
fn stem(file: &str) -> Option<&str> {
    let (stem, ending) = file.rsplit_once('.')?;
    (ending.eq_ignore_ascii_case("wasm") && !stem.starts_with('.') && !stem.is_empty()).then_some(stem)
}

impl Field<'_> {
    fn plugin_names(&self, kind: PluginKind) -> Option<Vec<Arc<str>>> {
        let items = self.list()?;
        if items.len() > LIST_MAX {
            self.error(format!("expected at most {LIST_MAX} plugins"));
        }
        let mut names: Vec<Arc<str>> = Vec::new();
        for item in &items {
            let Some(name) = item.text("the name of a plugin") else { continue };
            if names.iter().any(|known| **known == *name) {
                item.error("this list names the plugin already");
                continue;
            }
            item.check_plugin_name(name, kind);
            names.push(name.into());
        }
        Some(names)
    }

    fn check_plugin_name(&self, name: &str, kind: PluginKind) {
        let in_folder = self.cx.plugin_names.names();
        if in_folder.iter().any(|known| known == name) {
            return;
        }
        match BUNDLED_PLUGINS.iter().find(|(_, bundled)| *bundled == name) {
            Some((of, _)) if *of == kind => {}
            Some((of, _)) => {
                self.error(format!(
                    "the bundled plugin of this name is a {}, no {}",
                    of.as_str(),
                    kind.as_str()
                ));
            }
            None => {
                let bundled = BUNDLED_PLUGINS.iter().filter(|(of, _)| *of == kind).map(|(_, name)| *name);
                let known = in_folder.iter().map(String::as_str).chain(bundled);
                let hint = suggest::hint(name, known);
                self.error(format!("there is no plugin of this name in the plugins folder{hint}"));
            }
        }
    }
}
