//! One binary.

mod plugins_admission;
mod plugins_faults;
mod plugins_support;
mod plugins_together;
