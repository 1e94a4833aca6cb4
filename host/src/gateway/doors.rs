//! The two listeners: reserved before anything else is built, opened once everything stands, and moved when a
//! new configuration names another address.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::StartError;
use crate::config::{Config, Tls};
use crate::server::{Admin, Ends, Listener, Main, Serve, TlsSlot};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// An address that is ours, but where nobody is let in yet: a gateway that is still starting refuses
/// connections, so that nobody waits at a door behind which nothing stands.
pub(super) struct Reserved {
    key: &'static str,
    address: SocketAddr,
    socket: TcpSocket,
}

impl Reserved {
    pub(super) fn main(config: &Config) -> Result<Self, StartError> {
        Self::new("listen", config.listen)
    }

    pub(super) fn admin(config: &Config) -> Result<Self, StartError> {
        Self::new("admin", config.admin)
    }

    fn new(key: &'static str, address: SocketAddr) -> Result<Self, StartError> {
        let fault = |source| StartError::Bind { key, address, source };
        let socket =
            if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(fault)?;
        // Without it a restart would have to wait for connections of the process before.
        socket.set_reuseaddr(true).map_err(fault)?;
        socket.bind(address).map_err(fault)?;
        Ok(Self { key, address, socket })
    }

    pub(super) fn open(self) -> Result<Opened, StartError> {
        let Self { key, address, socket } = self;
        let fault = |source| StartError::Bind { key, address, source };
        let listener = socket.listen(BACKLOG).map_err(fault)?;
        let bound = listener.local_addr().map_err(fault)?;
        Ok(Opened { listener, configured: address, bound })
    }
}

/// A listener to which connections can be made, though nobody serves them yet.
pub(super) struct Opened {
    listener: TcpListener,
    configured: SocketAddr,
    bound: SocketAddr,
}

/// Where somebody serves.
struct Door {
    configured: SocketAddr,
    bound: SocketAddr,
    /// Of this door alone.
    closing: CancellationToken,
    /// How it speaks.
    tls: Arc<TlsSlot>,
}

/// Both listeners.
pub(super) struct Doors {
    main: Arc<Main>,
    pages: Arc<Admin>,
    tracker: TaskTracker,
    /// Of the main listener and its connections, wherever it stands.
    ends: Ends,
    /// Of the admin listener.
    to_the_last: Ends,
    standing: Mutex<(Door, Door)>,
}

/// New listeners in the place of those whose address has changed.
#[derive(Default)]
pub(super) struct Move {
    main: Option<Opened>,
    admin: Option<Opened>,
}

impl Doors {
    /// Serves at both as `config` has it. The admin listener goes when `stop` is cancelled.
    pub(super) fn serve(
        config: &Config,
        (listen, main): (Opened, Arc<Main>),
        (admin, pages): (Opened, Arc<Admin>),
        tracker: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let ends = Ends::default();
        let to_the_last = Ends { closing: stop, torn: ends.torn.clone() };
        let doors = (
            serve(listen, config.tls.clone(), &main, &ends, &tracker),
            serve(admin, config.admin_tls.clone(), &pages, &to_the_last, &tracker),
        );
        Self { main, pages, tracker, ends, to_the_last, standing: Mutex::new(doors) }
    }

    /// Where applications connect.
    pub(super) fn listen(&self) -> SocketAddr {
        self.standing().0.bound
    }

    /// Where operators connect.
    pub(super) fn admin(&self) -> SocketAddr {
        self.standing().1.bound
    }

    /// Of the main listener and its connections.
    pub(super) fn ends(&self) -> &Ends {
        &self.ends
    }

    /// Opens the listeners that `config` has at other addresses than before.
    pub(super) fn prepare(&self, config: &Config) -> Result<Move, StartError> {
        let (main, admin) = {
            let standing = self.standing();
            (standing.0.configured != config.listen, standing.1.configured != config.admin)
        };
        Ok(Move {
            main: if main { Some(Reserved::main(config)?.open()?) } else { None },
            admin: if admin { Some(Reserved::admin(config)?.open()?) } else { None },
        })
    }

    /// Serves at the new listeners, with the certificates of `config` from the next connection on. The old listeners let
    /// nobody in any more; calls on their connections run to their end, as do those on connections that speak otherwise
    /// than `config` has it. True: something moved.
    pub(super) fn go(&self, to: Move, config: &Config) -> bool {
        let moved = to.main.is_some() || to.admin.is_some();
        let mut standing = self.standing();
        match to.main {
            Some(opened) => {
                let door = serve(opened, config.tls.clone(), &self.main, &self.ends, &self.tracker);
                std::mem::replace(&mut standing.0, door).closing.cancel();
            }
            None => standing.0.tls.set(config.tls.clone()),
        }
        match to.admin {
            Some(opened) => {
                let door =
                    serve(opened, config.admin_tls.clone(), &self.pages, &self.to_the_last, &self.tracker);
                std::mem::replace(&mut standing.1, door).closing.cancel();
            }
            None => standing.1.tls.set(config.admin_tls.clone()),
        }
        moved
    }

    fn standing(&self) -> MutexGuard<'_, (Door, Door)> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve<S: Serve>(
    opened: Opened,
    tls: Option<Tls>,
    service: &Arc<S>,
    ends: &Ends,
    tracker: &TaskTracker,
) -> Door {
    let closing = ends.closing.child_token();
    let own = Ends { closing: closing.clone(), torn: ends.torn.clone() };
    let tls = Arc::new(TlsSlot::new(tls, closing.clone()));
    let listener = Listener::new(opened.listener, tls.clone(), service.clone(), tracker.clone());
    tracker.spawn(listener.run(own));
    Door { configured: opened.configured, bound: opened.bound, closing, tls }
}
