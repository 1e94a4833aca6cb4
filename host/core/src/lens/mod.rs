//! Reading the few fields the gateway needs from bodies it does not own, without rewriting them.
//!
//! A wire format is one module here: how a request names its model, which events of a stream carry meaning,
//! what a whole answer looks like, how an error is spelled.

pub mod chat;
pub mod embeddings;
pub mod error;
pub mod estimate;
pub mod fold;
pub mod form;
pub mod output_limit;
pub mod own_member;
pub mod presence;
mod quick;
pub mod request;
pub mod scan;
pub mod splice;
pub mod unfold;
pub mod wire;
