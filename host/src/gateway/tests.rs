//! A gateway inside of the test's own process, where connections can be made that no network makes.

use std::io;
use std::path::Path;
use std::sync::Mutex;

use serde_json::json;
use tokio::sync::watch;

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps what is written to it; its channel closes when it is dropped.
struct Out {
    text: Arc<Mutex<String>>,
    _there: watch::Sender<()>,
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a gateway writes, and a channel that closes when it has ended for good.
fn outside(dial: Option<Arc<dyn Dial>>) -> (Outside, Arc<Mutex<String>>, watch::Receiver<()>) {
    let text = Arc::default();
    let (there, gone) = watch::channel(());
    let out = Box::new(Out { text: Arc::clone(&text), _there: there });
    (Outside { out, process_log: false, dial }, text, gone)
}

fn config(dir: &Path) -> Config {
    let config = json!({
        "listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "state_dir": dir.join("state"), "plugins": {"dir": dir},
        "upstreams": {"a": {"base_url": "http://127.0.0.1:9/v1", "models": {"m": {}}}},
        "routes": {"chat": {"targets": ["a/m"]}},
        "drain": {"window": "0s", "limit": "5s"},
    });
    config::parse(&config.to_string(), Path::new("test.yaml"), &|_| None).unwrap().config
}

#[tokio::test]
async fn a_start_that_fails_at_its_last_step_leaves_nothing_running() {
    let dir = tempfile::tempdir().unwrap();
    // Two listeners at one address: both can be bound, and only one of them opened.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (outside, _, mut gone) = outside(None);
    let mut config = config(dir.path());
    (config.listen, config.admin) = (free, free);
    let started = Box::pin(Gateway::start(config, outside)).await;
    assert!(matches!(started.err(), Some(StartError::Bind { key: "admin", .. })));
    let ended = tokio::time::timeout(PATIENCE, gone.changed()).await;
    assert!(ended.is_ok(), "tasks of the failed start still run");
}
