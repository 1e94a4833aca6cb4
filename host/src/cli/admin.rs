//! Reads a page of a running gateway's admin listener.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A page that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest page, bytes.
const PAGE_MAX: usize = 16 << 20;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Nobody listens.
    #[error(
        "no gateway answers at {address}: {source}; --admin HOST:PORT takes the `admin` of its configuration"
    )]
    Connect {
        /// As it was given.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It took too long.
    #[error("{address} gave no page within {PATIENCE:?}")]
    Patience {
        /// As it was given.
        address: String,
    },
    /// What listens there does not speak HTTP, or broke off.
    #[error("{address} gave no whole page: {what}")]
    Broken {
        /// As it was given.
        address: String,
        /// What went wrong.
        what: String,
    },
    /// It is another server, or another page.
    #[error("{address}{path} answered {status}, expected 200: is this the admin listener of a gateway?")]
    Status {
        /// As it was given.
        address: String,
        /// What was asked for.
        path: &'static str,
        /// What came.
        status: u16,
    },
}

/// The body of a page.
///
/// # Errors
/// [`PageError`].
pub async fn page(address: &str, path: &'static str) -> Result<Bytes, PageError> {
    let named = || address.to_owned();
    match tokio::time::timeout(PATIENCE, Box::pin(fetch(address, path))).await {
        Ok(page) => page,
        Err(_) => Err(PageError::Patience { address: named() }),
    }
}

async fn fetch(address: &str, path: &'static str) -> Result<Bytes, PageError> {
    let connect = |source| PageError::Connect { address: address.to_owned(), source };
    let broken = |what: String| PageError::Broken { address: address.to_owned(), what };
    let found: Vec<SocketAddr> = tokio::net::lookup_host(address).await.map_err(connect)?.collect();
    let stream = TcpStream::connect(&*found).await.map_err(connect)?;
    let request = Request::get(path).header("host", address).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| broken(error.to_string()))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(error.to_string()))?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| broken(error.to_string()))?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(PageError::Status { address: address.to_owned(), path, status });
        }
        let body = Limited::new(response.into_body(), PAGE_MAX).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| broken(error.to_string()))
    };
    tokio::pin!(connection, answer);
    // The connection may end as soon as the answer is on its way; the answer is what counts.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
}
