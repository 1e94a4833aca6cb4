//! Upstreams of a storm, on sockets.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::Shared;
use super::script::{Act, Mood};

/// How many pieces the answer of each exchange has.
#[derive(Default)]
pub(super) struct Marks(Mutex<Vec<u8>>);

impl Marks {
    fn next(&self) -> usize {
        let mut marks = self.0.lock().unwrap();
        marks.push(0);
        marks.len() - 1
    }

    fn set(&self, mark: usize, pieces: usize) {
        self.0.lock().unwrap()[mark] = u8::try_from(pieces).expect("few pieces");
    }

    pub fn pieces(&self, mark: usize) -> usize {
        self.0.lock().unwrap()[mark].into()
    }
}

pub(super) struct Upstream {
    name: &'static str,
    addr: SocketAddr,
}

impl Upstream {
    pub async fn start(
        name: &'static str,
        shared: Arc<Shared>,
        mut rng: fastrand::Rng,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("a bound socket has an address");
        let mood = Arc::new(Mutex::new(Mood::new()));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                stream.set_nodelay(true).expect("a socket takes TCP_NODELAY");
                while connections.try_join_next().is_some() {}
                let refuses = mood.lock().unwrap().now(crate::now(), &mut rng).refuses();
                if !refuses {
                    connections.spawn(serve(shared.clone(), mood.clone(), stream, rng.fork()));
                }
            }
        });
        Self { name, addr }
    }

    pub fn name(&self) -> &str {
        self.name
    }

    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }
}

/// Reads one request, and whether it asks for a stream; none: the gateway is gone.
async fn read(io: &mut OwnedReadHalf) -> Option<bool> {
    let mut got = Vec::new();
    loop {
        if let Some(end) = got.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&got[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let length: usize = length.expect("a request says how long it is");
            if got.len() >= end + 4 + length {
                let body: Value = serde_json::from_slice(&got[end + 4..]).expect("one request at a time");
                return Some(body["stream"] == true);
            }
        }
        if io.read_buf(&mut got).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

async fn serve(shared: Arc<Shared>, mood: Arc<Mutex<Mood>>, stream: TcpStream, mut rng: fastrand::Rng) {
    let (mut from, mut to) = stream.into_split();
    while let Some(stream) = read(&mut from).await {
        let feeling = mood.lock().unwrap().now(crate::now(), &mut rng);
        let mark = shared.marks.next();
        let act = Act::new(feeling, mark, stream, &mut rng);
        shared.marks.set(mark, act.pieces);
        let mut gone = [0];
        let stays = tokio::select! {
            biased;
            stays = act.play(&mut to) => stays,
            _ = from.read(&mut gone) => false,
        };
        if !stays {
            return;
        }
    }
}
