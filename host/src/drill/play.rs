//! One scenario from its stage to its row.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::expect::{calls, expect, task};
use super::judge::{Facts, judge};
use super::load::{Call, Load, route_header};
use super::order::{Form, Order, Scenario};
use super::reading::Reading;
use super::report::Row;
use super::stage::{Stage, StageError, running};
use super::times::Times;
use super::told::{first_choice, told};
use crate::config::{Config, Route};

/// Longer than the budget no answer takes to begin; this is for its end.
const AFTER_BUDGET: Duration = Duration::from_secs(30);

/// What is played.
pub struct Play<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// How much.
    pub order: &'a Order,
    /// The route.
    pub route: &'a Arc<Route>,
    /// The form.
    pub form: Form,
    /// What the first choice does.
    pub scenario: Scenario,
    /// Counts calls of the part that is being played.
    pub done: &'a Arc<AtomicUsize>,
}

/// What came of it.
pub struct Played {
    /// The row, without what needs another to compare with.
    pub row: Row,
    /// The same calls straight at the first choice: to their end, and to first content. Healthy only.
    pub direct: (Option<Times>, Option<Times>),
}

impl Play<'_> {
    /// Warms up with everything healthy, lets the first choice fail, calls, and judges.
    ///
    /// # Errors
    /// It could not be played.
    pub async fn play(&self) -> Result<Played, StageError> {
        let Order { requests, concurrency, .. } = *self.order;
        let stage = Stage::start(self.config, requests + concurrency).await?;
        let load = self.load(&stage);
        load.run(&self.name("warm"), concurrency, concurrency, &stage.tracker, self.done).await?;
        let before = stage.at_rest().await?;
        let (failing, warmed) = first_choice(&stage.decisions()?, self.route);
        let seen_before = stage.seen();
        stage.behave(&failing, self.scenario.behaviour());
        let name = self.name("call");
        let much = (requests, concurrency);
        let count = calls(self.scenario, self.form, self.route, &self.config.breaker, much);
        let calls = load.run(&name, count, concurrency, &stage.tracker, self.done).await?;
        let after = stage.at_rest().await?;
        let seen: BTreeMap<Arc<str>, u64> = stage
            .seen()
            .into_iter()
            .map(|(target, count)| {
                let before = seen_before.get(&target).copied().unwrap_or_default();
                (target, count.saturating_sub(before))
            })
            .collect();
        let told = told(&stage.decisions()?, &name);
        let facts = Facts {
            form: self.form,
            route: self.route,
            breaker: &self.config.breaker,
            concurrency,
            expect: expect(self.scenario, self.form, self.route, &failing),
            failing,
            warmed,
            calls: &calls,
            told: &told,
            before: &before,
            after: &after,
            seen: &seen,
            left: stage.open() + running(&after).max(0.0) as u64,
        };
        let row = self.row(&facts);
        let direct = if self.scenario == Scenario::Healthy {
            self.direct(&stage, &load, &row.first_choice).await?
        } else {
            (None, None)
        };
        stage.close().await;
        Ok(Played { row, direct })
    }

    fn name(&self, part: &str) -> String {
        format!("drill-{part}-{}-{}", self.form.as_str(), self.scenario)
    }

    fn load(&self, stage: &Stage) -> Load {
        let mut headers = self.order.headers.clone();
        headers.extend(stage.key.iter().map(|key| ("authorization".to_owned(), format!("Bearer {key}"))));
        headers.extend(task(self.route).map(|task| ("x-sluice-task".to_owned(), task.to_owned())));
        Load {
            address: stage.address(),
            model: self.route.name.to_string(),
            form: self.form,
            headers,
            route_header: route_header(&self.config.tags.names),
            patience: self.route.budget + AFTER_BUDGET,
            says: stage.says().into(),
        }
    }

    /// The same calls without a gateway, after everything else, so that it is as warm.
    async fn direct(
        &self,
        stage: &Stage,
        load: &Load,
        target: &str,
    ) -> Result<(Option<Times>, Option<Times>), StageError> {
        let Some((address, model)) = stage.direct(target) else { return Ok((None, None)) };
        let load = Load { address, model, headers: Vec::new(), ..load.clone() };
        let Order { requests, concurrency, .. } = *self.order;
        load.run("warm", concurrency, concurrency, &stage.tracker, self.done).await?;
        let calls = load.run("direct", requests, concurrency, &stage.tracker, self.done).await?;
        Ok((times(&calls), first_times(&calls)))
    }

    fn row(&self, facts: &Facts<'_>) -> Row {
        let mut codes: BTreeMap<String, usize> = BTreeMap::new();
        for call in facts.calls {
            match &call.reading {
                Reading::Whole => {}
                Reading::Refused(code) | Reading::Interrupted(code) => {
                    *codes.entry(code.clone()).or_default() += 1;
                }
                Reading::Broken(_) => *codes.entry("broken".to_owned()).or_default() += 1,
            }
        }
        let count = |is: &dyn Fn(&Call) -> bool| facts.calls.iter().filter(|call| is(call)).count();
        let fallback = |call: &Call| {
            let told = facts.told.get(&call.id);
            call.reading == Reading::Whole && told.is_some_and(|told| told.fallback)
        };
        let changes = facts.seen.keys().flat_map(|target| {
            ["open", "half_open", "closed"].map(|to| {
                let labels = [("target", &**target), ("to", to)];
                (target.clone(), to, facts.grew("sluice_breaker_transitions_total", &labels))
            })
        });
        Row {
            scenario: self.scenario,
            first_choice: facts.failing.clone(),
            expect: facts.expect.clone(),
            requests: facts.calls.len(),
            errors: count(&|call| call.reading != Reading::Whole),
            interrupted: count(&|call| matches!(call.reading, Reading::Interrupted(_))),
            fallbacks: count(&fallback),
            codes,
            budget_denied: facts.grew("sluice_retry_budget_denied_total", &[]),
            times: times(facts.calls),
            first: first_times(facts.calls),
            p99_ratio: None,
            breakers: changes.filter(|(_, _, count)| *count > 0).collect(),
            broken: judge(facts),
        }
    }
}

fn times(calls: &[Call]) -> Option<Times> {
    Times::of(calls.iter().filter_map(|call| call.took))
}

fn first_times(calls: &[Call]) -> Option<Times> {
    Times::of(calls.iter().filter_map(|call| call.first))
}

/// Compares with the healthy row, and breaks the promise of the tail where it is longer than allowed.
pub fn compare(row: &mut Row, healthy: &Row, most: Option<f64>) {
    let (Some(times), Some(base)) = (&row.times, &healthy.times) else { return };
    row.p99_ratio = times.tail_ratio(base);
    if let (Some(ratio), Some(most)) = (row.p99_ratio, most)
        && ratio > most
        && row.scenario != Scenario::Healthy
    {
        let text = format!(
            "P99 {} is {ratio:.2} times the healthy {}, at most {most} was asked for",
            super::report::time(times.p99),
            super::report::time(base.p99)
        );
        row.broken.push(super::judge::Broken { promise: "tail", text, request_id: None });
    }
}
