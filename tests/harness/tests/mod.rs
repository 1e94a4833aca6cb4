//! The tools against each other: a tool that lies makes every test worthless.

mod gateway;
mod parsing;
mod peers;
mod z;
