//! A raw HTTP/1.1 client: sends the bytes it is given, stamps what comes, and leaves in every way a
//! client can leave.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::peer::Stream;
use crate::response::{End, Response};
use crate::{PATIENCE, now};

/// The heads and bytes of every response of a case, also of those whose client left early.
pub type Ledger = Arc<Mutex<Vec<Response>>>;

/// One connection with at most one call on its way.
#[derive(Debug)]
pub struct Client {
    io: Stream,
    response: Response,
    ledger: Option<Ledger>,
    asked: bool,
}

impl Client {
    /// Connects.
    pub async fn open(addr: SocketAddr) -> Self {
        Self::over(TcpStream::connect(addr).await.expect("the listener accepts"))
    }

    /// Connects with a receive buffer of so many bytes, for a reader that holds the writer up soon.
    pub async fn open_small(addr: SocketAddr, receive_buffer: usize) -> Self {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(receive_buffer).expect("a socket takes a buffer size");
        socket.connect(&addr.into()).expect("the listener accepts");
        socket.set_nonblocking(true).expect("a socket can be non-blocking");
        Self::over(TcpStream::from_std(socket.into()).expect("a connected socket"))
    }

    /// Connects over TLS.
    ///
    /// # Errors
    /// When the handshake fails.
    pub async fn open_tls(addr: SocketAddr, tls: &TlsConnector) -> io::Result<Self> {
        let plain = TcpStream::connect(addr).await?;
        let stream = tls.connect(ServerName::from(addr.ip()), plain).await?;
        Ok(Self::on(Stream::Tls(Box::new(stream.into()))))
    }

    fn over(io: TcpStream) -> Self {
        io.set_nodelay(true).expect("a socket takes TCP_NODELAY");
        Self::on(Stream::Plain(io))
    }

    fn on(io: Stream) -> Self {
        Self { io, response: Response::new(now()), ledger: None, asked: false }
    }

    /// Writes what came down here when this client ends.
    #[must_use]
    pub fn logged(mut self, ledger: &Ledger) -> Self {
        self.ledger = Some(Arc::clone(ledger));
        self
    }

    /// Sends bytes as they are; the first of a call start its clock.
    pub async fn send(&mut self, bytes: &[u8]) -> &mut Self {
        if !self.asked {
            self.response = Response::new(now());
            self.asked = true;
        }
        // A peer that answered early and closed is seen by the reads.
        let _ = self.io.write_all(bytes).await;
        self
    }

    /// The response as far as it has come.
    #[must_use]
    pub fn response(&self) -> &Response {
        &self.response
    }

    /// Reads until `ready`, or the end, or `within` is over.
    pub async fn read_until(&mut self, within: Duration, ready: impl Fn(&Response) -> bool) -> &Response {
        let deadline = tokio::time::Instant::from_std(crate::now() + within);
        let mut space = vec![0; 64 << 10];
        while self.response.end == End::Open && !ready(&self.response) {
            let Ok(read) = tokio::time::timeout_at(deadline, self.io.read(&mut space)).await else {
                break;
            };
            match read {
                Ok(0) => self.response.closed(false, now()),
                Ok(n) => self.response.feed(&space[..n], now()),
                Err(error) => self.response.closed(error.kind() == io::ErrorKind::ConnectionReset, now()),
            }
        }
        &self.response
    }

    /// Reads until the head is there.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn head(&mut self) -> &Response {
        let response = self.read_until(PATIENCE, |r| r.head_at.is_some()).await;
        assert!(response.head_at.is_some(), "no head: {response:?}");
        response
    }

    /// Reads until so many events with content are there.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn contents(&mut self, n: usize) -> &Response {
        let response = self.read_until(PATIENCE, |r| r.contents().len() >= n).await;
        assert!(response.contents().len() >= n, "not {n} events with content: {response:?}");
        response
    }

    /// Reads at least so many bytes more, or to the end.
    pub async fn bytes(&mut self, more: usize) -> &Response {
        let want = self.response.raw.len() + more;
        self.read_until(PATIENCE, |r| r.raw.len() >= want).await
    }

    /// Reads to the end of the response, at most ten seconds; the connection may then carry another.
    pub async fn finish(&mut self) -> Response {
        self.finish_within(PATIENCE).await
    }

    /// Reads to the end of the response, at most so long.
    pub async fn finish_within(&mut self, within: Duration) -> Response {
        self.read_until(within, |_| false).await;
        let response = self.response.clone();
        if response.end != End::Open {
            self.note();
        }
        response
    }

    /// Whether the connection ends within so long, with nothing more on it.
    pub async fn closes(&mut self, within: Duration) -> bool {
        let mut space = [0; 1];
        // Behind TLS an end without its goodbye is an error, and an end all the same.
        matches!(tokio::time::timeout(within, self.io.read(&mut space)).await, Ok(Ok(0) | Err(_)))
    }

    /// Reads nothing for so long: the slow part of a slow reader.
    pub async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Says that nothing more will be sent, and goes on reading.
    pub async fn half_close(&mut self) {
        self.io.shutdown().await.expect("an open connection can be half closed");
    }

    /// Leaves with a FIN.
    pub fn close(self) {
        drop(self);
    }

    /// Leaves with a RST.
    pub fn reset(self) {
        self.io.tcp().set_zero_linger().expect("a socket takes linger");
    }

    fn note(&mut self) {
        if !std::mem::take(&mut self.asked) {
            return;
        }
        if let Some(ledger) = &self.ledger {
            ledger.lock().expect("a test thread panicked").push(self.response.clone());
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.note();
    }
}

/// One call on a connection of its own, to its end.
pub async fn fetch(addr: SocketAddr, request: &[u8]) -> Response {
    let mut client = Client::open(addr).await;
    client.send(request).await;
    client.finish().await
}

/// A request without a body.
#[must_use]
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: sluice\r\nconnection: close\r\n\r\n").into_bytes()
}
