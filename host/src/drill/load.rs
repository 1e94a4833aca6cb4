//! So many calls, so many at a time, each read as it ends.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::client::Line;
use super::order::Form;
use super::reading::{self, Reading};
use super::stage::StageError;
use crate::rig::client::Ask;

/// Who is called, and how.
#[derive(Debug, Clone)]
pub struct Load {
    /// Where.
    pub address: SocketAddr,
    /// The name in `model`.
    pub model: String,
    /// In which form.
    pub form: Form,
    /// Headers of every call.
    pub headers: Vec<(String, String)>,
    /// The header that tells route or fallback; none: it is switched off.
    pub route_header: Option<String>,
    /// No call takes longer.
    pub patience: Duration,
    /// What stand-ins can have said.
    pub says: Arc<[String]>,
}

/// One call that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its request id.
    pub id: String,
    /// What came.
    pub reading: Reading,
    /// What the header said about the route.
    pub tag: Option<String>,
    /// From its begin to the head of the answer; none: there was none.
    pub head: Option<Duration>,
    /// From its begin to its end; none: there was no answer.
    pub took: Option<Duration>,
    /// From its begin to the first content of a stream.
    pub first: Option<Duration>,
}

impl Load {
    /// Makes `count` calls, `concurrency` at a time, whose ids begin with `name`; `done` counts them.
    ///
    /// # Errors
    /// A task of the drill itself ended too early. What goes wrong with a call is in what came of it.
    pub async fn run(
        &self,
        name: &str,
        count: usize,
        concurrency: usize,
        tracker: &TaskTracker,
        done: &Arc<AtomicUsize>,
    ) -> Result<Vec<Call>, StageError> {
        done.store(0, Ordering::Relaxed);
        let next = Arc::new(AtomicUsize::new(0));
        let worker = |_| {
            let (load, next, done) = (self.clone(), next.clone(), done.clone());
            let (name, mut line) = (name.to_owned(), Line::new(self.address, self.patience, tracker.clone()));
            tracker.spawn(async move {
                let mut calls = Vec::new();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        return calls;
                    }
                    calls.push(load.call(&mut line, format!("{name}-{}", n + 1)).await);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let workers: Vec<_> = (0..concurrency.min(count)).map(worker).collect();
        let mut calls = Vec::with_capacity(count);
        for worker in workers {
            calls.extend(worker.await?);
        }
        Ok(calls)
    }

    async fn call(&self, line: &mut Line, id: String) -> Call {
        match line.call(&self.ask(&id)).await {
            Ok(answer) => {
                let reading = reading::read(&answer, self.form, &id, &self.says);
                let of_ours = self.route_header.as_ref().map(|name| answer.header(name).to_owned());
                Call {
                    reading,
                    tag: of_ours.filter(|tag| !tag.is_empty()),
                    head: Some(answer.head),
                    took: Some(answer.took),
                    first: reading::first_content(&answer).filter(|_| self.form == Form::Stream),
                    id,
                }
            }
            Err(error) => {
                let reading = Reading::Broken(error.to_string());
                Call { reading, tag: None, head: None, took: None, first: None, id }
            }
        }
    }

    fn ask(&self, id: &str) -> Ask {
        let ask = Ask::chat(&self.model, self.form == Form::Stream).with("x-request-id", id);
        self.headers.iter().fold(ask, |ask, (name, value)| ask.with(name, value))
    }
}

/// The name of the header that tells route or fallback.
pub fn route_header(names: &BTreeMap<String, Option<String>>) -> Option<String> {
    names.get("route").cloned().unwrap_or_else(|| Some("x-sluice-route".to_owned()))
}
