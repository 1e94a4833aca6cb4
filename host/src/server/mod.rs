//! The listeners: accepting connections, serving them, letting them go in order, and what they answer by
//! themselves. Nothing of a call's life is decided here.

mod admin;
mod calls;
mod config_page;
mod conn;
mod cors;
mod io;
mod leaving;
mod main_routes;
pub mod pages;
mod preface;
mod snapshot;
mod status_page;
mod tls;
mod unread;

pub use admin::Admin;
pub use config_page::{ConfigBoard, Mistake, RejectedConfig};
pub use conn::{Ends, Listener, Serve, serve_connection};
pub use leaving::Leaving;
pub use main_routes::Main;
pub use snapshot::Health;
pub use tls::TlsSlot;
