//! Servers that people run themselves: vLLM, SGLang, llama.cpp, Ollama, TGI.

use sluice_sdk::FailureKind::{ContextLengthExceeded, RetryableUpstream};

use super::Name::{BadRequest, Exact};
use super::Provider;
use super::Words::{Begins, Contains, Frames};

/// What they say.
pub const SAYS: Provider = Provider {
    names: &[
        ("exceed_context_size_error", Exact(ContextLengthExceeded)),
        ("unavailable_error", Exact(RetryableUpstream)),
        ("overloaded", Exact(RetryableUpstream)),
        ("engine_dead_error", Exact(RetryableUpstream)),
        ("not_supported_error", BadRequest),
        ("validation", BadRequest),
    ],
    words: &[
        (Contains("exceeds the available context size"), ContextLengthExceeded),
        (Contains("larger than the maximum context"), ContextLengthExceeded),
        (Frames("input validation error: `inputs` must have less than", "tokens"), ContextLengthExceeded),
        (Begins("the input is longer than the model's context length"), ContextLengthExceeded),
    ],
};
