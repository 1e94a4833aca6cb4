//! What must hold for any bytes, of each reader that is given bytes by strangers. The fuzz targets call these
//! functions, and so does an ordinary test, with every seed.

pub mod body;
#[cfg(feature = "config")]
pub mod config;
pub mod hint;
pub mod stream;
