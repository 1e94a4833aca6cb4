//! The conventions of the worked cases as a configuration: upstreams `A`, `B`, `C` and `SINK`, routes
//! `chat`, `chat3`, `solo` and `other`, the cases' times, all stretched by one factor.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::case::Case;
use crate::gateway::{Gateway, Refused, binary};
use crate::ms;
use crate::upstream::Upstream;

/// The credential of an upstream as the gateway knows it. Long enough to be found wherever it leaks.
#[must_use]
pub fn key_of(upstream: &str) -> String {
    format!("sk-scripted-{upstream}-5f2c9e81d7a64b30")
}

/// The key of a caller of [`Setup::caller`].
#[must_use]
pub fn caller_key(name: &str) -> String {
    format!("sk-caller-{name}-0b7c44d1e9f25a86")
}

/// A value of the configuration.
#[derive(Debug, Clone)]
pub enum Setting {
    /// As it is.
    Plain(Value),
    /// A time of the case, to be stretched.
    Time(Duration),
}

impl From<Duration> for Setting {
    fn from(time: Duration) -> Self {
        Self::Time(time)
    }
}

impl From<Value> for Setting {
    fn from(value: Value) -> Self {
        Self::Plain(value)
    }
}

impl From<&str> for Setting {
    fn from(text: &str) -> Self {
        Self::Plain(text.into())
    }
}

impl From<i32> for Setting {
    fn from(number: i32) -> Self {
        Self::Plain(number.into())
    }
}

impl From<bool> for Setting {
    fn from(value: bool) -> Self {
        Self::Plain(value.into())
    }
}

type Edit = Box<dyn FnOnce(&mut Value, &Peers)>;

/// The upstreams of a case while its configuration is made.
pub struct Peers {
    /// `A/a1`.
    pub a: Upstream,
    /// `B/b1`.
    pub b: Upstream,
    /// `C/c1`.
    pub c: Upstream,
    /// Must never be contacted; no route leads there.
    pub sink: Upstream,
}

/// A case before it starts.
pub struct Setup {
    scale: f64,
    edits: Vec<Edit>,
    env: Vec<(String, String)>,
    files: Vec<(String, Vec<u8>)>,
    tls: Option<String>,
    program: Option<PathBuf>,
    key: Option<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

impl Setup {
    /// The conventions as they are written, at their own speed.
    #[must_use]
    pub fn new() -> Self {
        Self {
            scale: 1.0,
            edits: Vec::new(),
            env: Vec::new(),
            files: Vec::new(),
            tls: None,
            program: None,
            key: None,
        }
    }

    /// Stretches every time of the case: configuration, scripts, judgements.
    #[must_use]
    pub fn scale(mut self, factor: f64) -> Self {
        self.scale = factor;
        self
    }

    /// Sets one value: `set("/routes/chat/budget", ms(2500))`. `/defaults/…` is for all routes.
    #[must_use]
    pub fn set(mut self, pointer: &str, value: impl Into<Setting>) -> Self {
        let value = match value.into() {
            Setting::Plain(value) => value,
            Setting::Time(time) => duration(time.mul_f64(self.scale)),
        };
        let pointer = pointer.to_owned();
        self.edits.push(Box::new(move |config, _| put(config, &pointer, value)));
        self
    }

    /// Changes the configuration by hand, with the upstreams' addresses at hand.
    #[must_use]
    pub fn edit(mut self, edit: impl FnOnce(&mut Value, &Peers) + 'static) -> Self {
        self.edits.push(Box::new(edit));
        self
    }

    /// All gates at 1 000, for cases that fire many calls at once.
    #[must_use]
    pub fn wide_gates(self) -> Self {
        let gates = json!({"max_in_flight": 1000, "queue": 1000, "queue_wait": "5s"});
        let mut wide = self.set("/gates", gates);
        for upstream in ["A", "B", "C"] {
            wide = wide.set(&format!("/upstreams/{upstream}/max_in_flight"), 1000);
        }
        wide
    }

    /// One variable of the gateway's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// One caller with a key of its own and these limits.
    #[must_use]
    pub fn caller(self, name: &str, limits: Value) -> Self {
        let (variable, named) = (format!("CALLER_{name}"), name.to_owned());
        let reference = format!("env:{variable}");
        self.env(&variable, &caller_key(name)).edit(move |config, _| {
            let mut caller = json!({"name": named, "key": reference});
            let limits = limits.as_object().cloned().unwrap_or_default();
            caller.as_object_mut().expect("a map").extend(limits);
            match config["callers"].as_array_mut() {
                Some(callers) => callers.push(caller),
                None => config["callers"] = json!([caller]),
            }
        })
    }

    /// Calls of the case that say nothing else are of this caller.
    #[must_use]
    pub fn calls_as(mut self, name: &str) -> Self {
        self.key = Some(caller_key(name));
        self
    }

    /// A file beside the configuration, say `plugins.d/router.wasm`.
    #[must_use]
    pub fn file(mut self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.to_owned(), bytes.into()));
        self
    }

    /// Starts this in the gateway's place, with the gateway's arguments.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// A speaks TLS, with a certificate for this name that the gateway is told to trust.
    #[must_use]
    pub fn tls_for_a(mut self, host: &str) -> Self {
        self.tls = Some(host.to_owned());
        self
    }

    /// Starts upstreams and gateway, and waits until it is ready.
    ///
    /// # Panics
    /// When the gateway does not start.
    pub async fn start(self) -> Case {
        match self.try_start().await {
            Ok(case) => case,
            Err(refused) => {
                panic!("the gateway did not start (exit code {:?}):\n{}", refused.code, refused.log)
            }
        }
    }

    /// The same for a configuration that may be refused.
    ///
    /// # Errors
    /// When the gateway ended instead of listening.
    pub async fn try_start(self) -> Result<Case, Refused> {
        let a = match &self.tls {
            None => Upstream::start("A", self.scale).await,
            Some(host) => Upstream::start_tls("A", self.scale, host).await,
        };
        let peers = Peers {
            a,
            b: Upstream::start("B", self.scale).await,
            c: Upstream::start("C", self.scale).await,
            sink: Upstream::start("SINK", self.scale).await,
        };
        let dir = tempfile::Builder::new().prefix("sluice-case-").tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("plugins.d")).expect("a directory in our own");
        let mut config = conventions(self.scale, &peers);
        if self.tls.is_some() {
            std::fs::write(dir.path().join("a.pem"), peers.a.ca_pem()).expect("a file in our own directory");
            put(&mut config, "/upstreams/A/ca_file", "a.pem".into());
        }
        for (path, bytes) in &self.files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("inside the directory"))
                .expect("a directory in our own");
            std::fs::write(path, bytes).expect("a file in our own directory");
        }
        for edit in self.edits {
            edit(&mut config, &peers);
        }
        let keys = ["A", "B", "C", "SINK"].map(|name| (format!("KEY_{name}"), key_of(name)));
        let env: Vec<_> = keys.into_iter().chain(self.env).collect();
        let program = self.program.unwrap_or_else(binary);
        let gateway = Gateway::launch(&program, &config, dir, &env).await?;
        let secrets = env.into_iter().map(|(_, value)| value).collect();
        Ok(Case::new(peers, gateway, config, self.scale, secrets).with_key(self.key))
    }
}

/// A pointer's value, its parents made on the way.
pub(crate) fn put(config: &mut Value, pointer: &str, value: Value) {
    let mut at = config;
    for name in pointer.split('/').skip(1) {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[name.replace("~1", "/").as_str()];
    }
    *at = value;
}

fn duration(time: Duration) -> Value {
    format!("{}ms", time.as_millis()).into()
}

/// Section 0 of the cases.
fn conventions(scale: f64, peers: &Peers) -> Value {
    let t = |time: Duration| duration(time.mul_f64(scale));
    let upstream = |up: &Upstream, model: &str| {
        json!({
            "base_url": up.base_url(), "credentials": [format!("env:KEY_{}", up.name())], "max_in_flight": 10, "models": {model: {}},
        })
    };
    json!({
        "listen": "127.0.0.1:0",
        "admin": "127.0.0.1:0",
        "plugins": {"dir": "./plugins.d"},
        "state_dir": "./state",
        "upstreams": {"A": upstream(&peers.a, "a1"), "B": upstream(&peers.b, "b1"), "C": upstream(&peers.c, "c1")},
        "defaults": {
            "budget": t(ms(5000)), "reserve": t(ms(50)), "connect": t(ms(500)), "attempt": t(ms(1000)),
            "first_content": t(ms(1000)), "min_budget": t(ms(100)), "idle": t(ms(1000)), "max_switches": 1,
            "retry": {"upstream": 0, "rate_limit": 0},
        },
        "routes": {
            "chat": {"targets": ["A/a1", "B/b1"]},
            "chat3": {"targets": ["A/a1", "B/b1", "C/c1"], "max_switches": 2},
            "solo": {"targets": ["A/a1"]},
            "other": {"targets": ["B/b1"]},
        },
        "breaker": {
            "consecutive": 3, "open": t(ms(2000)), "open_max": t(ms(2000)), "rate": {"enabled": false},
            "cooldown": {"rate_limit": t(ms(2000)), "model": t(ms(2000)), "auth": t(ms(2000))},
        },
        "gates": {"max_in_flight": 20, "queue": 10, "queue_wait": t(ms(500))},
        "retry_budget": {"ratio": 1.0, "min_per_second": 10_000},
        "drain": {"window": "0s"},
    })
}
