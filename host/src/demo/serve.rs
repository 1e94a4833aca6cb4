//! After the rows: the same gateway for people to try by hand, until a signal.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::components::PREFER_LAST;
use super::stage::{BACKUP_SAYS, DemoError, PRIMARY_SAYS};
use super::table::Table;
use crate::config;
use crate::gateway::{Gateway, Outside, StartError};
use crate::mock::{Server, Settings};
use crate::rig::Folder;

/// Ports people expect, tried first.
const PORTS: (u16, u16) = (8080, 9090);
/// A component that is not yet in force; renamed, it is.
const ASIDE: &str = "prefer-last.wasm.off";

/// Serves until `end`, then goes down in order.
///
/// # Errors
/// What did not start, or could not be written.
pub async fn serve(table: &mut Table<'_>, end: impl Future<Output = ()>) -> Result<(), DemoError> {
    let open = Open::start().await?;
    table.say(&open.words())?;
    end.await;
    table.say("\ngoing down …")?;
    open.close().await;
    Ok(())
}

/// A gateway that serves, and what it serves with.
struct Open {
    gateway: Gateway,
    folder: Folder,
    /// Ends the upstreams.
    _upstreams: DropGuard,
}

impl Open {
    async fn start() -> Result<Self, DemoError> {
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let upstreams = stop.clone().drop_guard();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut urls = Vec::new();
        for text in [PRIMARY_SAYS, BACKUP_SAYS] {
            let settings = Settings { text: text.to_owned(), ..Settings::default() };
            urls.push(Server::start(any, settings, &tracker, stop.clone()).await?.base_url());
        }
        let folder = Folder::new()?;
        folder.put(ASIDE, PREFER_LAST)?;
        let gateway = match start(&urls, &folder, PORTS).await {
            Err(DemoError::Gateway(StartError::Bind { .. })) => start(&urls, &folder, (0, 0)).await?,
            started => started?,
        };
        Ok(Self { gateway, folder, _upstreams: upstreams })
    }

    fn words(&self) -> String {
        words(self.gateway.listen(), self.gateway.admin(), &self.folder)
    }

    async fn close(self) {
        let hurry = CancellationToken::new();
        hurry.cancel();
        self.gateway.drain(hurry).await;
    }
}

async fn start(urls: &[String], folder: &Folder, ports: (u16, u16)) -> Result<Gateway, DemoError> {
    let text = yaml(urls, folder, ports);
    let loaded = config::parse(&text, Path::new("demo.yaml"), &|_| None)?;
    let outside = Outside { out: Box::new(std::io::sink()), process_log: false, dial: None, sources: None };
    Ok(Box::pin(Gateway::start(loaded.config, outside)).await?)
}

fn yaml(urls: &[String], folder: &Folder, (listen, admin): (u16, u16)) -> String {
    let path = |path: std::path::PathBuf| serde_json::Value::from(path.to_string_lossy()).to_string();
    let [primary, backup] = [0, 1].map(|at| urls.get(at).map_or("", String::as_str));
    let (plugins, state) = (path(folder.plugins()), path(folder.state()));
    format!(
        "listen: 127.0.0.1:{listen}
admin: 127.0.0.1:{admin}
plugins: {{ dir: {plugins} }}
state_dir: {state}
records: {{}}
upstreams:
  primary: {{ base_url: \"{primary}\", models: {{ large: {{}}, mock-status-503: {{}}, mock-cut-3: {{}}, mock-silent: {{}} }} }}
  backup: {{ base_url: \"{backup}\", models: {{ small: {{}} }} }}
routes:
  chat: {{ targets: [ primary/large, backup/small ] }}
  failing: {{ targets: [ primary/mock-status-503, backup/small ] }}
  cut: {{ targets: [ primary/mock-cut-3, backup/small ] }}
  silent: {{ targets: [ {{ target: primary/mock-silent, attempt: 1800ms }}, backup/small ], budget: 3s }}
"
    )
}

fn words(listen: SocketAddr, admin: SocketAddr, folder: &Folder) -> String {
    let call = |options: &str, body: &str| {
        format!(
            "  curl {options} http://{listen}/v1/chat/completions \\
    -d '{body}'"
        )
    };
    let plain = call("-si", r#"{"model":"chat","messages":[{"role":"user","content":"Hello"}]}"#);
    let stream =
        call("-sN", r#"{"model":"chat","stream":true,"messages":[{"role":"user","content":"Hello"}]}"#);
    let failing = call("-si", r#"{"model":"failing","messages":[{"role":"user","content":"Hello"}]}"#);
    let cut = call("-sN", r#"{"model":"cut","stream":true,"messages":[{"role":"user","content":"Hello"}]}"#);
    let silent = call("-si", r#"{"model":"silent","messages":[{"role":"user","content":"Hello"}]}"#);
    let (plugins, state) = (folder.plugins(), folder.state());
    let (plugins, state) = (plugins.display(), state.display());
    format!(
        "
Now by hand: the gateway serves on http://{listen}, its admin pages on http://{admin}.

A plain answer, with the headers that say who served:
{plain}
The same as a stream:
{stream}
A primary that is down, and after three calls an open breaker:
{failing}
A primary that breaks off in the middle:
{cut}
A primary that is silent; the backup answers after 1.8 s:
{silent}

What the gateway knows:
  curl -s http://{admin}/readyz
  curl -s http://{admin}/debug/upstreams
  curl -s http://{admin}/debug/decisions
  curl -s http://{admin}/debug/plugins
  curl -s http://{admin}/metrics
What became of each call, from the store of records:
  sluice records --sqlite {state}/records.sqlite

Another router, from the next call on (and back again, when it is removed):
  mv {plugins}/{ASIDE} \\
     {plugins}/prefer-last.wasm

With the OpenAI SDK (pip install openai):
  from openai import OpenAI
  client = OpenAI(base_url=\"http://{listen}/v1\", api_key=\"none-needed\")
  ask = [{{\"role\": \"user\", \"content\": \"Hello\"}}]
  for chunk in client.chat.completions.create(model=\"failing\", messages=ask, stream=True):
      print(chunk.choices[0].delta.content or \"\", end=\"\", flush=True)

Ctrl-C ends it."
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it fails")]
mod tests {
    use std::time::Duration;

    use super::super::client::fetch;
    use super::*;
    use crate::rig::Sse;
    use crate::rig::client::Ask;

    /// The bodies that people are told to send, in order.
    fn bodies(words: &str) -> Vec<String> {
        words
            .lines()
            .filter_map(|line| Some(line.trim().strip_prefix("-d '")?.strip_suffix('\'')?.to_owned()))
            .collect()
    }

    async fn until(what: &str, holds: impl AsyncFn() -> bool) {
        let coming = async {
            while !holds().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), coming).await.expect(what);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_line_that_people_are_told_to_paste_does_what_it_says() {
        let open = Open::start().await.unwrap();
        let (listen, admin, words) = (open.gateway.listen(), open.gateway.admin(), open.words());
        let [plain, stream, failing, cut, silent] = bodies(&words).try_into().unwrap();
        let call = async |body: String| fetch(listen, &Ask::post(body)).await.unwrap();
        for (body, text, route) in [
            (plain, PRIMARY_SAYS, "primary"),
            (failing, BACKUP_SAYS, "fallback"),
            (silent, BACKUP_SAYS, "fallback"),
        ] {
            let answer = call(body).await;
            assert_eq!((answer.text().as_str(), answer.header("x-sluice-route")), (text, route));
        }
        assert!(Sse::read(&call(stream.clone()).await.body).is_whole("large", PRIMARY_SAYS));
        assert_eq!(Sse::read(&call(cut).await.body).errors, ["upstream_interrupted"]);
        let pages: Vec<_> =
            words.lines().filter_map(|line| line.split_once(&format!("http://{admin}/"))).collect();
        assert!(pages.len() >= 5, "{words}");
        for (_, page) in pages.into_iter().filter(|(before, _)| before.contains("curl")) {
            assert_eq!(fetch(admin, &Ask::get(&format!("/{page}"))).await.unwrap().status, 200, "{page}");
        }
        let (_, store) = words.split_once("--sqlite ").unwrap();
        let place = config::RecordPlace::Sqlite(store.lines().next().unwrap().into());
        let failing = crate::store::Filter {
            model: Some("failing".into()),
            limit: 10,
            ..crate::store::Filter::default()
        };
        // Records are gathered for a moment before they are written.
        let stored = async || crate::store::find(&place, &failing).await.is_ok_and(|found| !found.is_empty());
        until("the record is stored", stored).await;
        let folder = open.folder.plugins();
        std::fs::rename(folder.join(ASIDE), folder.join("prefer-last.wasm")).unwrap();
        until("the plugin is taken", async || open.gateway.generation() >= 2).await;
        assert!(Sse::read(&call(stream).await.body).is_whole("small", BACKUP_SAYS));
        open.close().await;
        assert!(!folder.exists());
    }
}
