//! From a YAML file to a [`Config`]: parse with positions, check everything in one run, say where each
//! mistake is. Start-up, `sluice check` and reloads all come through [`load`].

mod checked;

pub use checked::*;
