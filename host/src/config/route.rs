//! `routes` and `defaults`: what a route says, else the defaults, else what is built in; and which
//! targets there are. `settings` has the keys that `defaults` has too.

mod settings;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::checked::{Capability, CommitRule, MinBudget, OnMalformed, Route, RouteTarget, Target};
use super::field::{Field, Map, SOME};
use super::upstream::Account;
use super::{suggest, top};
pub(super) use settings::Settings;
use settings::{LeastBudget, OrOff};

/// Every distinct target, in the order in which the file first names them.
#[derive(Default)]
struct Registry {
    targets: Vec<Arc<Target>>,
    index: HashMap<Arc<str>, usize>,
    /// A target has one gate, whichever route it is called for.
    limits: HashMap<usize, u32>,
}

impl Registry {
    fn of(&mut self, account: &Account, name: &str, model: &str) -> Option<(usize, Arc<Target>)> {
        let key: Arc<str> = format!("{name}/{model}").into();
        if let Some(&index) = self.index.get(&key) {
            return Some((index, Arc::clone(self.targets.get(index)?)));
        }
        let (model, facts) = account.models.get_key_value(model)?;
        let target = Arc::new(Target {
            key: Arc::clone(&key),
            upstream: Arc::clone(account.upstream.as_ref()?),
            model: Arc::clone(model),
            facts: facts.clone(),
            max_in_flight: None,
        });
        let index = self.targets.len();
        self.targets.push(Arc::clone(&target));
        self.index.insert(key, index);
        Some((index, target))
    }

    fn limit(&mut self, index: usize, limit: u32, m: Option<&Map<'_>>) {
        let first = *self.limits.entry(index).or_insert(limit);
        if let Some(m) = m.filter(|_| first != limit) {
            let text = format!("this target has {first} already, and only one gate for all routes");
            m.get("max_in_flight").error(text);
        }
    }

    /// Gives the targets their gates, in the list and in the routes.
    fn finish(mut self, routes: BTreeMap<Arc<str>, Route>) -> Routes {
        for (index, limit) in &self.limits {
            if let Some(target) = self.targets.get_mut(*index) {
                *target = Arc::new(Target { max_in_flight: Some(*limit), ..target.as_ref().clone() });
            }
        }
        let targets = self.targets;
        let gated = |(name, mut route): (Arc<str>, Route)| {
            for target in &mut route.targets {
                if let Some(gated) = targets.get(target.index) {
                    target.target = Arc::clone(gated);
                }
            }
            (name, Arc::new(route))
        };
        Routes { routes: routes.into_iter().map(gated).collect(), targets }
    }
}

pub(super) struct Routes {
    pub(super) routes: BTreeMap<Arc<str>, Arc<Route>>,
    pub(super) targets: Vec<Arc<Target>>,
}

pub(super) fn read_all(
    field: &Field<'_>,
    defaults: &Settings,
    accounts: &BTreeMap<Arc<str>, Account>,
) -> Routes {
    let mut registry = Registry::default();
    let mut routes = BTreeMap::new();
    let entries = field.named();
    if entries.is_empty() && field.node().is_some_and(|node| matches!(node.kind(), "a map" | "nothing")) {
        field.error("expected at least one route");
    }
    for (name, entry) in entries {
        if let Some(flaw) = top::name_flaw(name) {
            field.key_error(name, format!("the name of a route {flaw}"));
        }
        let name: Arc<str> = name.into();
        let route = entry.map(|m| read(m, Arc::clone(&name), defaults, accounts, &mut registry));
        routes.insert(name, route);
    }
    registry.finish(routes)
}

fn read(
    m: &Map<'_>,
    name: Arc<str>,
    defaults: &Settings,
    accounts: &BTreeMap<Arc<str>, Account>,
    registry: &mut Registry,
) -> Route {
    let settings = Settings::read(m).or(defaults);
    let targets = targets(&m.require("targets"), &settings, accounts, registry);
    warn_of_mixed_protocols(&m.get("targets"), &targets);
    let route = Route {
        name,
        targets,
        budget: settings.budget.unwrap_or(Duration::from_secs(120)),
        reserve: settings.reserve.unwrap_or(Duration::from_millis(300)),
        connect: settings.connect.unwrap_or(Duration::from_secs(2)),
        min_budget: settings.min_budget(None),
        idle: settings.idle.unwrap_or(OrOff::After(Duration::from_secs(60))).time(),
        stream_max: settings.stream_max.unwrap_or(OrOff::Off).time(),
        client_write: settings.client_write.unwrap_or(OrOff::After(Duration::from_secs(30))).time(),
        keep_alive: settings.keep_alive.unwrap_or(OrOff::Off).time(),
        commit: settings.commit.unwrap_or(CommitRule::FirstContent),
        max_switches: settings.max_switches.unwrap_or(1),
        retry: settings.retry.checked(),
        on_malformed: settings.on_malformed.unwrap_or(OnMalformed::Drop),
        plugins: settings.plugins,
    };
    warn_of_no_time_left(&m.get("targets"), &route);
    route
}

fn targets(
    field: &Field<'_>,
    settings: &Settings,
    accounts: &BTreeMap<Arc<str>, Account>,
    registry: &mut Registry,
) -> Vec<RouteTarget> {
    let Some(items) = field.list() else {
        return Vec::new();
    };
    if items.is_empty() || items.len() > 128 {
        field.error("expected 1 to 128 targets");
    }
    let mut named: HashSet<(String, String)> = HashSet::new();
    let mut targets = Vec::new();
    for item in &items {
        let mut read = |reference: &Field<'_>, m: Option<&Map<'_>>| {
            let own = m.map(Own::read).unwrap_or_default();
            let (account, name, model) = look_up(reference, accounts)?;
            if !named.insert((name.to_owned(), model.to_owned())) {
                reference.error("this route names the target already");
            }
            let (index, target) = registry.of(account, name, model)?;
            if let Some(limit) = own.max_in_flight {
                registry.limit(index, limit, m);
            }
            let attempt = own.attempt.or(settings.attempt).unwrap_or(Duration::from_secs(60));
            let first_content =
                own.first_content.or(settings.first_content).unwrap_or(Duration::from_secs(30));
            Some(RouteTarget {
                index,
                target,
                attempt,
                first_content: first_content.min(attempt),
                min_budget: settings.min_budget(own.min_budget),
                tasks: own.tasks,
                fallback_max_tokens: own.fallback_max_tokens,
                weight: own.weight.unwrap_or(1.0),
            })
        };
        let target = match item.maybe_text() {
            Some(_) => read(item, None),
            None => item.map(|m| read(&m.require("target"), Some(m))),
        };
        targets.extend(target);
    }
    targets
}

/// What a target map says beside the target.
#[derive(Default)]
struct Own {
    attempt: Option<Duration>,
    first_content: Option<Duration>,
    min_budget: Option<LeastBudget>,
    max_in_flight: Option<u32>,
    tasks: Option<Vec<String>>,
    fallback_max_tokens: Option<u32>,
    weight: Option<f64>,
}

impl Own {
    fn read(m: &Map<'_>) -> Self {
        Self {
            attempt: m.get("attempt").duration(SOME),
            first_content: m.get("first_content").duration(SOME),
            min_budget: LeastBudget::read(&m.get("min_budget")),
            max_in_flight: m.get("max_in_flight").count(1..=1_000_000),
            tasks: tasks(&m.get("tasks")),
            fallback_max_tokens: m.get("fallback_max_tokens").count(1..=1_000_000_000),
            weight: m.get("weight").decimal(0.0..=1_000_000.0),
        }
    }
}

/// Words of `x-sluice-task`. A list without any would be a target that nobody can use.
fn tasks(field: &Field<'_>) -> Option<Vec<String>> {
    let items = field.list()?;
    if items.is_empty() {
        field.error("expected at least one task; leave it out for a target that takes all");
    }
    let mut tasks = Vec::new();
    for item in items {
        let Some(text) = item.text("text (in quotes if it looks like a number)") else { continue };
        if !text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
            item.error("a task is what the header x-sluice-task can hold: visible ASCII");
        }
        tasks.push(text.to_owned());
    }
    Some(tasks)
}

/// The upstream and model that `upstream/model` names, split at the first `/`.
fn look_up<'a, 'f>(
    field: &Field<'f>,
    accounts: &'a BTreeMap<Arc<str>, Account>,
) -> Option<(&'a Account, &'f str, &'f str)> {
    let Some((name, model)) = field.text("\"upstream/model\"")?.split_once('/') else {
        field.error("expected \"upstream/model\"");
        return None;
    };
    let Some(account) = accounts.get(name) else {
        let hint = suggest::hint(name, accounts.keys().map(AsRef::as_ref));
        field.error(format!("there is no upstream of the name before the \"/\"{hint}"));
        return None;
    };
    if !account.models.contains_key(model) {
        let models: Vec<&str> = account.models.keys().map(AsRef::as_ref).collect();
        let hint = suggest::hint(model, models.iter().copied());
        // Which one is meant stands at that place. It is not said here: what is no name may be a secret.
        field.error(format!(
            "upstream {name} has no model of the name behind the \"/\"{}{hint}",
            listed(&models)
        ));
        return None;
    }
    Some((account, name, model))
}

/// Which models there are, the first of them.
fn listed(models: &[&str]) -> String {
    const MOST: usize = 8;
    let shown: Vec<String> = models.iter().take(MOST).map(|model| model.escape_debug().to_string()).collect();
    let rest = models.len().saturating_sub(MOST);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    if models.is_empty() { String::new() } else { format!("; it has {}{more}", shown.join(", ")) }
}

/// A target that may take so long that nobody could be tried after it: what is configured as a fallback is none for calls
/// whose first target is slow. One is named; what helps it helps all.
fn warn_of_no_time_left(field: &Field<'_>, route: &Route) {
    if route.max_switches == 0 {
        return;
    }
    let time = route.budget.saturating_sub(route.reserve.min(route.budget / 4));
    let shown = |time: Duration| humantime::format_duration(time).to_string();
    for (at, target) in route.targets.iter().enumerate() {
        let least = route.targets.iter().skip(at + 1).map(|next| match next.min_budget {
            MinBudget::Fixed(least) | MinBudget::P95 { floor: least } => least,
        });
        let Some(left) = least.min().map(|least| time.saturating_sub(least)) else { return };
        let slow = match (target.first_content > left, target.attempt > left) {
            (false, false) => continue,
            (true, _) => ("attempt and first_content", target.first_content),
            (false, true) => ("attempt (streams have first_content)", target.attempt),
        };
        let helps = if left.is_zero() {
            "a longer budget leaves some".to_owned()
        } else {
            format!("{} of {} or less leaves some", slow.0, shown(left))
        };
        field.warn(format!(
            "a slow {} leaves no time for the targets behind it: it may take {} of a budget of {}; {helps}",
            target.target.key.escape_debug(),
            shown(slow.1),
            shown(route.budget),
        ));
        return;
    }
}

/// A switch from a target that keeps tool calls or JSON output to one that says it does not would change
/// what the caller gets. Targets that say nothing are given the benefit of the doubt.
fn warn_of_mixed_protocols(field: &Field<'_>, targets: &[RouteTarget]) {
    for (capability, what) in [(Capability::Json, "JSON output"), (Capability::Tools, "tool calls")] {
        let without = |with: bool| {
            let says = |t: &&RouteTarget| {
                t.target.facts.supports.as_ref().is_some_and(|s| s.contains(&capability) == with)
            };
            targets.iter().find(says)
        };
        if let (Some(with), Some(without)) = (without(true), without(false)) {
            let (with, without) = (with.target.key.escape_debug(), without.target.key.escape_debug());
            field.warn(format!(
                "the targets do not keep the same output protocol: {with} has {what} ({}), {without} has not",
                capability.as_str()
            ));
        }
    }
}
