//! Plugins that are exchanged while calls run: each call keeps the set it began with, the next one obeys the new
//! one, a file that is no plugin changes nothing, and no call is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::client::fetch;
use super::super::components::{PREFER_LAST, WEIGHTED, short_digest};
use super::super::row::Row;
use super::super::stage::{BACKUP_SAYS, DemoError, PRIMARY_SAYS, Setup, Stage};
use super::super::table::time;
use crate::rig::Sse;
use crate::rig::client::{Answer, Ask, ClientError};
use tokio::task::JoinHandle;

/// Streams that run at any time.
const STREAMS: usize = 200;
/// Calls beside the load: one after each of the four files.
const OWN_CALLS: u64 = 4;
/// Compiling takes its time on a machine that is busy with 200 streams.
const PATIENCE: Duration = Duration::from_secs(10);
/// Calls of plugins wait their turn for longer than by default: on a busy machine 200 of them come at once, and
/// who waits in vain is answered by the bundled policy, which is right but not what is shown here.
const ROOM: &str = "deadline: 500ms, concurrency: 32";
/// The file both components are put into.
const FILE: &str = "router.wasm";

/// Swaps the router under load.
pub async fn swapped(row: &mut Row) -> Result<(), DemoError> {
    row.asked = vec![
        "streaming, 200 at any time".into(),
        "router.wasm: prefer-last, random bytes, half a file, weighted-router".into(),
    ];
    let delay = Duration::from_millis(60);
    let stage = Stage::start(Setup { delay, plugins: ROOM, ..Setup::default() }).await?;
    let load = Load::start(&stage);
    let running = stage.until(PATIENCE, |s| s.primary.stats().requests >= STREAMS as u64).await;
    row.check("all 200 callers stream from the primary", running.is_some());
    obeyed(row, &stage, PREFER_LAST, "prefer-last", "backup").await?;
    broken(row, &stage).await?;
    obeyed(row, &stage, WEIGHTED, "weighted-router", "primary").await?;
    let (answers, failed) = load.stop().await?;
    row.equal("calls of the load without an answer", failed, 0);
    let lost: Vec<String> = answers.iter().filter(|answer| !is_consistent(answer)).map(facts).collect();
    row.check(
        format!(
            "{} streams of the load were lost or mixed two sets, such as: {:?}",
            lost.len(),
            lost.first()
        ),
        lost.is_empty(),
    );
    let seen = stage.primary.stats().completed + stage.backup.stats().completed;
    row.equal("answers that the upstreams gave", seen, answers.len() as u64 + OWN_CALLS);
    row.check(
        "every target served some",
        answers.iter().any(|a| by(a, "primary")) && answers.iter().any(|a| by(a, "backup")),
    );
    row.client.push(format!(
        "{} streams meanwhile, {} lost, each of one generation",
        answers.len(),
        lost.len()
    ));
    row.served = vec!["as the router says".into()];
    row.note(&stage, "503");
    row.events.retain(|event| !event.starts_with("provider_"));
    stage.close().await;
    Ok(())
}

/// Puts a component in place and shows that the next request obeys it.
async fn obeyed(
    row: &mut Row,
    stage: &Stage,
    bytes: &[u8],
    name: &str,
    upstream: &str,
) -> Result<(), DemoError> {
    let before = stage.generation();
    stage.folder.put(FILE, bytes)?;
    let took = stage.until(PATIENCE, |s| s.generation() > before).await;
    row.check(format!("{name} is taken in"), took.is_some());
    let answer = stage.call(&Ask::chat("chat", true)).await?;
    row.check(
        format!("the next request goes to the {upstream}"),
        by(&answer, upstream) && is_consistent(&answer),
    );
    let policy = answer.header("x-sluice-policy").to_owned();
    let shown = format!("g{} router=router@{}", before + 1, short_digest(bytes));
    row.check(format!("it shows {shown}: {policy}"), policy.starts_with(&shown));
    let record = stage.sink.record(answer.header("x-request-id")).await;
    row.equal("generation in the record", record["generation"].as_u64(), Some(before + 1));
    let took = took.map_or("never".to_owned(), time);
    row.client.push(format!("{name}: in force after {took}, the next call is the {upstream}’s"));
    Ok(())
}

/// Files that are no plugin are reported, and what runs goes on.
async fn broken(row: &mut Row, stage: &Stage) -> Result<(), DemoError> {
    let before = stage.generation();
    let random: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(64 << 10).collect();
    let half = &PREFER_LAST[..PREFER_LAST.len() / 2];
    for (at, (name, bytes)) in [("random bytes", &random[..]), ("half a file", half)].into_iter().enumerate()
    {
        stage.folder.put(FILE, bytes)?;
        let told = stage.until(PATIENCE, |s| s.sink.count("plugin_rejected", "router") == at + 1).await;
        row.check(format!("{name} is rejected"), told.is_some());
        let plugins = stage.page("/debug/plugins").await?.json();
        let listed = plugins["plugins"].as_array().cloned().unwrap_or_default();
        let entry = listed.iter().find(|plugin| plugin["name"] == "router").cloned().unwrap_or_default();
        row.equal(format!("{name}: state"), entry["state"].as_str(), Some("last_good"));
        let reason = entry["rejection"]["reason"].as_str().unwrap_or_default().to_owned();
        row.check(format!("{name}: a reason: {reason}"), ["magic", "parse"].contains(&reason.as_str()));
        row.equal(format!("{name}: generation"), stage.generation(), before);
        let answer = stage.call(&Ask::chat("chat", true)).await?;
        row.check(format!("{name}: the old version serves"), by(&answer, "backup") && is_consistent(&answer));
        row.equal("/readyz", stage.page("/readyz").await?.status, 200);
        row.client.push(format!("{name}: rejected ({reason}), nothing changes"));
    }
    Ok(())
}

fn by(answer: &Answer, upstream: &str) -> bool {
    answer.header("x-sluice-upstream") == upstream
}

/// A whole stream, of the target that the router wanted which the answer names.
fn is_consistent(answer: &Answer) -> bool {
    let last =
        answer.header("x-sluice-policy").contains(&format!("router=router@{}", short_digest(PREFER_LAST)));
    let (upstream, model, text) =
        if last { ("backup", "small", BACKUP_SAYS) } else { ("primary", "large", PRIMARY_SAYS) };
    answer.status == 200
        && answer.whole
        && by(answer, upstream)
        && Sse::read(&answer.body).is_whole(model, text)
}

/// What is looked at first when a stream is not as it should be.
fn facts(answer: &Answer) -> String {
    let (policy, upstream) = (answer.header("x-sluice-policy"), answer.header("x-sluice-upstream"));
    format!(
        "{} of {upstream} by {policy}, {} bytes, whole: {}",
        answer.status,
        answer.body.len(),
        answer.whole
    )
}

/// Callers that stream without a pause until they are told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Vec<Result<Answer, ClientError>>>>,
}

impl Load {
    fn start(stage: &Stage) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let address = stage.address();
        let caller = |_| {
            let stop = stop.clone();
            stage.tracker.spawn(async move {
                let (ask, mut answers) = (Ask::chat("chat", true), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    answers.push(fetch(address, &ask).await);
                }
                answers
            })
        };
        Self { callers: (0..STREAMS).map(caller).collect(), stop }
    }

    /// All answers, and how many calls had none.
    async fn stop(self) -> Result<(Vec<Answer>, usize), DemoError> {
        self.stop.store(true, Ordering::Relaxed);
        let (mut answers, mut failed) = (Vec::new(), 0);
        for caller in self.callers {
            for answer in caller.await? {
                match answer {
                    Ok(answer) => answers.push(answer),
                    Err(_) => failed += 1,
                }
            }
        }
        Ok((answers, failed))
    }
}
