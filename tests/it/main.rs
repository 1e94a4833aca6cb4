//! One binary.

mod config_examples;
mod config_golden;
mod config_properties;
