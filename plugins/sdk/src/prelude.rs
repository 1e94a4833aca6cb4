//! Everything a plugin names, in one line: `use sluice_sdk::prelude::*;`.

#[cfg(not(target_arch = "wasm32"))]
pub use crate::testing;
pub use crate::{
    Action, AnswerFacts, AttemptFacts, BreakerEffect, BreakerState, Candidate, Classifier, FailureFacts,
    FailureKind, NoSettings, Phase, Place, Plugin, RequestFacts, Router, Sink, Stage, Tag, Tagger,
    TargetFacts, Usage, Verdict, Vote, log,
};
