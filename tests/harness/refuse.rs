//! Addresses that do not answer: one that refuses, one that swallows.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// An address whose connections are refused for as long as this lives: the port is ours, and nobody listens.
pub struct Refusing {
    socket: Socket,
}

impl Refusing {
    /// Takes a free port.
    #[must_use]
    pub fn new() -> Self {
        Self { socket: bound() }
    }

    /// Where nobody listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        address(&self.socket)
    }
}

impl Default for Refusing {
    fn default() -> Self {
        Self::new()
    }
}

/// An address whose connection requests get no answer at all: a listener with a full backlog.
pub struct Swallowing {
    socket: Socket,
    _full: Vec<TcpStream>,
}

impl Swallowing {
    /// Takes a free port and fills the backlog until a connect hangs.
    ///
    /// # Panics
    /// When this system keeps on accepting.
    #[must_use]
    pub fn new() -> Self {
        let socket = bound();
        socket.listen(0).expect("a bound socket listens");
        let addr = address(&socket);
        let mut full = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&addr, Duration::from_millis(200)) {
            full.push(stream);
            assert!(full.len() < 64, "a backlog of none took 64 connections");
        }
        Self { socket, _full: full }
    }

    /// Where nothing answers.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        address(&self.socket)
    }
}

impl Default for Swallowing {
    fn default() -> Self {
        Self::new()
    }
}

fn bound() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free loopback port");
    socket
}

fn address(socket: &Socket) -> SocketAddr {
    let addr = socket.local_addr().expect("a bound socket has an address");
    addr.as_socket().expect("of the internet family")
}
