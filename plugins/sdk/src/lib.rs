//! Write policy plugins for the Sluice gateway: one trait, one macro.
//!
//! ```ignore
//! use sluice_sdk::prelude::*;
//!
//! #[derive(serde::Deserialize)]
//! struct Settings { region: String }
//!
//! struct NearFirst { near: Vec<bool> }
//!
//! impl Plugin for NearFirst {
//!     type Settings = Settings;
//!     fn configure(settings: Settings, targets: Vec<TargetFacts>) -> Result<Self, String> {
//!         let near = |t: &TargetFacts| t.region.as_deref() == Some(settings.region.as_str());
//!         Ok(Self { near: targets.iter().map(near).collect() })
//!     }
//! }
//!
//! impl Router for NearFirst {
//!     fn score(&self, _: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
//!         Vote::each(candidates, |c| Vote::score(if self.near[c.target as usize] { 1.0 } else { 0.5 }))
//!     }
//! }
//!
//! sluice_sdk::plugin!(NearFirst: Router);
//! ```
//!
//! The crate owns the way from the contract to these traits: the generated code, the life of the configured
//! plugin inside its instance, and the reading of settings. What a plugin decides is its own business, and
//! what the gateway does with it is written in the contract.
#![deny(missing_docs)]

#[doc(hidden)]
pub mod bindings;
mod export;
pub mod log;
pub mod prelude;
mod settings;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod values;

pub use bindings::classifier::exports::sluice::policy::classifier::{
    Action, BreakerEffect, FailureFacts, Stage, Verdict,
};
pub use bindings::plugin::sluice::policy::types::{
    BreakerState, FailureKind, Place, RequestFacts, TargetFacts,
};
pub use bindings::router::exports::sluice::policy::router::{Candidate, Vote};
pub use bindings::tagger::exports::sluice::policy::tagger::{
    AnswerFacts, AttemptFacts, Fact as Tag, Phase, Sink, Usage,
};
#[doc(hidden)]
pub use export::{Export, Hosted, Identity, Slot};
pub use settings::NoSettings;

/// What every plugin is, whatever its kind.
///
/// Its name and version for people are those of its crate.
pub trait Plugin: Sized + 'static {
    /// Shape of the settings. Settings it does not know are refused with their name, whether or not the
    /// type itself denies unknown fields; [`NoSettings`] for a plugin that has none.
    type Settings: serde::de::DeserializeOwned;

    /// Makes the plugin from its settings and from the targets, whose `index` is their position here.
    ///
    /// # Errors
    /// A text for the operator that names the setting, what was expected and what came. It refuses the
    /// plugin; the version that ran before keeps running.
    fn configure(settings: Self::Settings, targets: Vec<TargetFacts>) -> Result<Self, String>;
}

/// A plugin that chooses targets.
pub trait Router: Plugin {
    /// Scores the candidates, which come in the configured order: exactly one vote each, in that order.
    fn score(&self, request: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote>;
}

/// A plugin that says what failures mean.
pub trait Classifier: Plugin {
    /// Gives a verdict on a failed attempt, or none to leave it to the next classifier.
    fn classify(&self, request: &RequestFacts, failure: &FailureFacts) -> Option<Verdict>;
}

/// A plugin that writes tags.
pub trait Tagger: Plugin {
    /// It wants to be called when the head of the answer is made.
    const HEAD: bool = true;
    /// It wants to be called when the request has ended.
    const RECORD: bool = false;

    /// Returns at most 16 tags.
    fn tag(&self, request: &RequestFacts, answer: &AnswerFacts) -> Vec<Tag>;
}

/// Exports a plugin: its type, then the kinds it is of.
///
/// `plugin!(Mine: Router)` or `plugin!(Mine: Router, Classifier, Tagger)`, once in a crate. The component
/// exports the kinds that are named and no others.
#[macro_export]
macro_rules! plugin {
    ($plugin:ty: $($kind:ident),+ $(,)?) => {
        impl $crate::Hosted for $plugin {
            const IDENTITY: $crate::Identity = $crate::Identity {
                name: env!("CARGO_PKG_NAME"),
                version: env!("CARGO_PKG_VERSION"),
                tags_head: false $(|| $crate::__kind!(head $kind $plugin))+,
                tags_record: false $(|| $crate::__kind!(record $kind $plugin))+,
            };

            fn with_slot<R>(run: impl FnOnce(&$crate::Slot<Self>) -> R) -> R {
                ::std::thread_local! {
                    static SLOT: $crate::Slot<$plugin> = const { $crate::Slot::empty() };
                }
                SLOT.with(run)
            }
        }

        const _: () = {
            type Exported = $crate::Export<$plugin>;
            $crate::__kind!(export Plugin Exported);
            $($crate::__kind!(export $kind Exported);)+
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __kind {
    (head Tagger $plugin:ty) => { <$plugin as $crate::Tagger>::HEAD };
    (record Tagger $plugin:ty) => { <$plugin as $crate::Tagger>::RECORD };
    (head $kind:ident $plugin:ty) => { false };
    (record $kind:ident $plugin:ty) => { false };
    (export Plugin $exported:ident) => {
        $crate::__export!(plugin::{export_plugin}, $exported: plugin::{describe, configure});
    };
    (export Router $exported:ident) => {
        $crate::__export!(router::{export_router}, $exported: router::{score});
    };
    (export Classifier $exported:ident) => {
        $crate::__export!(classifier::{export_classifier}, $exported: classifier::{classify});
    };
    (export Tagger $exported:ident) => {
        $crate::__export!(tagger::{export_tagger}, $exported: tagger::{tag});
    };
    (export $kind:ident $exported:ident) => {
        compile_error!(concat!(
            "`", stringify!($kind), "` is no kind of plugin; expected Router, Classifier or Tagger"
        ));
    };
}

/// Exports one interface. A native build is for unit tests: the names of exports are no names for its
/// linker, so there the functions are only held to the contract.
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    ($module:ident::{$export:ident}, $exported:ident: $interface:ident::{$($function:ident),+}) => {
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::$module::$export!($exported with_types_in $crate::bindings::$module);
        #[cfg(not(target_arch = "wasm32"))]
        const _: () = {
            use $crate::bindings::$module::exports::sluice::policy::$interface::Guest;
            $(let _ = <$exported as Guest>::$function;)+
        };
    };
}
