//! The listeners and what they answer by themselves.

pub mod pages;
