//! From the generated exports to the traits of this crate: keeps the configured plugin of an instance and
//! hands every call to it.
//!
//! A decision that is asked for before `configure` is a fault of the host, and traps.

use std::cell::RefCell;
use std::marker::PhantomData;

use crate::bindings::{classifier, plugin, router, tagger};
use crate::{
    AnswerFacts, Candidate, Classifier, FailureFacts, Plugin, RequestFacts, Router, Tag, Tagger, TargetFacts,
    Verdict, Vote, settings,
};

/// Where the one configured plugin of an instance is kept.
pub struct Slot<T>(RefCell<Option<T>>);

impl<T> Slot<T> {
    /// Holds nothing yet.
    pub const fn empty() -> Self {
        Self(RefCell::new(None))
    }

    fn put(&self, plugin: T) {
        self.0.replace(Some(plugin));
    }

    #[allow(clippy::panic, reason = "the host broke the contract, and a trap is how a guest says so")]
    fn run<R>(&self, decide: impl FnOnce(&T) -> R) -> R {
        match &*self.0.borrow() {
            Some(plugin) => decide(plugin),
            None => panic!("a decision was asked for before the plugin was configured"),
        }
    }
}

/// What a plugin says about itself.
pub struct Identity {
    /// Name for people.
    pub name: &'static str,
    /// Version for people.
    pub version: &'static str,
    /// Call the tagger for the head.
    pub tags_head: bool,
    /// Call the tagger for the record.
    pub tags_record: bool,
}

/// A plugin together with its place in the instance; `plugin!` implements it.
pub trait Hosted: Plugin {
    /// What it says about itself.
    const IDENTITY: Identity;

    /// Lends the slot.
    fn with_slot<R>(run: impl FnOnce(&Slot<Self>) -> R) -> R;
}

/// Carries the generated traits for a plugin.
pub struct Export<T>(PhantomData<T>);

impl<T: Hosted> plugin::exports::sluice::policy::plugin::Guest for Export<T> {
    fn describe() -> plugin::exports::sluice::policy::plugin::Description {
        let Identity { name, version, tags_head, tags_record } = T::IDENTITY;
        plugin::exports::sluice::policy::plugin::Description {
            name: name.to_owned(),
            version: version.to_owned(),
            tags_head,
            tags_record,
        }
    }

    fn configure(settings: String, targets: Vec<TargetFacts>) -> Result<(), String> {
        let configured = T::configure(settings::read(&settings)?, targets)?;
        T::with_slot(|slot| slot.put(configured));
        Ok(())
    }
}

impl<T: Hosted + Router> router::exports::sluice::policy::router::Guest for Export<T> {
    fn score(request: RequestFacts, candidates: Vec<Candidate>) -> Vec<Vote> {
        T::with_slot(|slot| slot.run(|plugin| plugin.score(&request, &candidates)))
    }
}

impl<T: Hosted + Classifier> classifier::exports::sluice::policy::classifier::Guest for Export<T> {
    fn classify(request: RequestFacts, failure: FailureFacts) -> Option<Verdict> {
        T::with_slot(|slot| slot.run(|plugin| plugin.classify(&request, &failure)))
    }
}

impl<T: Hosted + Tagger> tagger::exports::sluice::policy::tagger::Guest for Export<T> {
    fn tag(request: RequestFacts, answer: AnswerFacts) -> Vec<Tag> {
        T::with_slot(|slot| slot.run(|plugin| plugin.tag(&request, &answer)))
    }
}

#[cfg(test)]
mod tests;
