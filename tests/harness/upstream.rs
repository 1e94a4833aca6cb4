//! A scripted upstream: plays what it is told, byte by byte, and logs every attempt.
//!
//! It is a listener on a free loopback port. Which script an attempt gets: a decision function first,
//! then the queue, then the script of its model, then the standing one (`OK`). Only POSTs are
//! attempts; a GET (a health probe) is logged apart and answered with an empty model list.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub use crate::attempt::{Attempt, How};
use crate::connection;
use crate::step::{OK, Script};
use crate::tls::Identity;
use crate::{PATIENCE, now};

type Decide = Box<dyn Fn(&Attempt) -> Option<Script> + Send>;

/// What the connections of one upstream share.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) scale: f64,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    standing: Script,
    queue: VecDeque<Script>,
    by_model: HashMap<String, Script>,
    decide: Option<Decide>,
    attempts: Vec<Attempt>,
    probes: Vec<Attempt>,
    on_probe: Option<Script>,
    active: usize,
    peak: usize,
    connections: u64,
    idle_close: Option<Duration>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a script panicked")
    }

    fn tell(&self) {
        self.changed.send_modify(|n| *n += 1);
    }

    pub(crate) fn stretch(&self, time: Duration) -> Duration {
        time.mul_f64(self.scale)
    }

    pub(crate) fn idle_close(&self) -> Option<Duration> {
        self.lock().idle_close.map(|idle| self.stretch(idle))
    }

    pub(crate) fn connected(&self) -> u64 {
        let mut state = self.lock();
        state.connections += 1;
        state.connections
    }

    /// Logs an attempt and says what to play.
    pub(crate) fn begin(&self, mut attempt: Attempt) -> (usize, Script) {
        let mut state = self.lock();
        attempt.n = state.attempts.len();
        let decided = state.decide.as_ref().and_then(|decide| decide(&attempt));
        let script = decided.or_else(|| state.queue.pop_front()).unwrap_or_else(|| {
            let own = state.by_model.get(&attempt.model());
            own.unwrap_or(&state.standing).clone()
        });
        let n = attempt.n;
        state.attempts.push(attempt);
        state.active += 1;
        state.peak = state.peak.max(state.active);
        drop(state);
        self.tell();
        (n, script)
    }

    /// Logs a GET and says what it is answered, if not as usual.
    pub(crate) fn probe(&self, probe: Attempt) -> Option<Script> {
        let script = {
            let mut state = self.lock();
            state.probes.push(probe);
            state.on_probe.clone()
        };
        self.tell();
        script
    }

    pub(crate) fn wrote(&self, n: usize, bytes: usize) {
        self.lock().attempts[n].written += bytes as u64;
    }

    pub(crate) fn over(&self, n: usize, how: How) {
        let mut state = self.lock();
        state.active -= 1;
        state.attempts[n].over = Some((now(), how));
        drop(state);
        self.tell();
    }
}

/// A scripted upstream. Its listener and connections end with it.
pub struct Upstream {
    addr: SocketAddr,
    shared: Arc<Shared>,
    identity: Option<Identity>,
    _tasks: JoinSet<()>,
}

impl Upstream {
    /// Listens on a free port; pauses of its scripts are stretched by `scale`.
    pub async fn start(name: &str, scale: f64) -> Self {
        Self::listen(name, scale, None).await
    }

    /// The same over TLS, with a certificate for this host name or address.
    pub async fn start_tls(name: &str, scale: f64, host: &str) -> Self {
        Self::listen(name, scale, Some(Identity::new(host))).await
    }

    async fn listen(name: &str, scale: f64, identity: Option<Identity>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free loopback port");
        let addr = listener.local_addr().expect("a bound listener has an address");
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            scale,
            state: Mutex::new(State { standing: OK.into(), ..State::default() }),
            changed: watch::Sender::new(0),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared), identity.as_ref().map(Identity::acceptor)));
        Self { addr, shared, identity, _tasks: tasks }
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The name its answers carry.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// For a configuration.
    #[must_use]
    pub fn base_url(&self) -> String {
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/v1", self.addr)
    }

    /// What a client of the TLS variant has to trust.
    ///
    /// # Panics
    /// Without TLS.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.identity.as_ref().expect("only the TLS variant has a certificate").pem()
    }

    /// From now on, plays this for every attempt that has no other script.
    pub fn play(&self, script: impl Into<Script>) {
        self.shared.lock().standing = script.into();
    }

    /// Plays this once, after what is queued already.
    pub fn queue(&self, script: impl Into<Script>) -> &Self {
        self.shared.lock().queue.push_back(script.into());
        self
    }

    /// Plays this for attempts with this model.
    pub fn play_for(&self, model: &str, script: impl Into<Script>) {
        self.shared.lock().by_model.insert(model.to_owned(), script.into());
    }

    /// Plays this for health probes.
    pub fn play_probes(&self, script: impl Into<Script>) {
        self.shared.lock().on_probe = Some(script.into());
    }

    /// Looks at each attempt first; none leaves it to the other scripts.
    pub fn decide(&self, decide: impl Fn(&Attempt) -> Option<Script> + Send + 'static) {
        self.shared.lock().decide = Some(Box::new(decide));
    }

    /// Back to `OK` for everything; the log stays.
    pub fn healthy(&self) {
        let mut state = self.shared.lock();
        state.standing = OK.into();
        state.queue.clear();
        state.by_model.clear();
        state.decide = None;
        state.on_probe = None;
        state.idle_close = None;
    }

    /// Closes connections on which no request came for so long.
    pub fn idle_close(&self, after: Duration) {
        self.shared.lock().idle_close = Some(after);
    }

    /// All attempts so far.
    #[must_use]
    pub fn attempts(&self) -> Vec<Attempt> {
        self.shared.lock().attempts.clone()
    }

    /// One attempt as it is now.
    #[must_use]
    #[track_caller]
    pub fn attempt(&self, n: usize) -> Attempt {
        let attempt = self.shared.lock().attempts.get(n).cloned();
        attempt.unwrap_or_else(|| panic!("{} saw no attempt {n}", self.name()))
    }

    /// How many there were.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.shared.lock().attempts.len()
    }

    /// Health probes so far.
    #[must_use]
    pub fn probes(&self) -> Vec<Attempt> {
        self.shared.lock().probes.clone()
    }

    /// The most attempts that ran at once.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.shared.lock().peak
    }

    /// Attempts that run now.
    #[must_use]
    pub fn active(&self) -> usize {
        self.shared.lock().active
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.lock().connections
    }

    /// Waits until `ready`, looking at each change; false when the time is over.
    pub async fn wait(&self, within: Duration, ready: impl Fn(&Self) -> bool) -> bool {
        let mut changes = self.shared.changed.subscribe();
        let wait = async {
            while !ready(self) {
                changes.changed().await.expect("the upstream outlives its waiters");
            }
        };
        tokio::time::timeout(within, wait).await.is_ok()
    }

    /// Waits until there were `n` attempts.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn wait_for_attempts(&self, n: usize) -> Vec<Attempt> {
        let came = self.wait(PATIENCE, |up| up.calls() >= n).await;
        assert!(came, "{} saw {} attempts, wanted {n}", self.name(), self.calls());
        self.attempts()
    }

    /// Waits until the gateway has closed this attempt, at most `within` from now, and says when it did.
    ///
    /// # Panics
    /// When it did not, or when the script ended first.
    pub async fn closed_within(&self, n: usize, within: Duration) -> Instant {
        self.wait(within, |up| up.attempt(n).over.is_some()).await;
        match self.attempt(n).over {
            Some((at, How::Closed | How::Reset)) => at,
            Some((_, How::Finished)) => {
                panic!("the script of {} attempt {n} ended before the gateway left", self.name())
            }
            None => panic!("the gateway did not close {} attempt {n} within {within:?}", self.name()),
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, tls: Option<TlsAcceptor>) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let (stream, _) = accepted.expect("a loopback listener accepts");
        stream.set_nodelay(true).expect("a socket takes TCP_NODELAY");
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        connections.spawn(connection::serve(stream, shared, tls));
    }
}
