//! A generation: the configuration, plugins and runtime cells a request starts with and keeps to its end.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sluice_core::facts::{Place, PluginKind, TargetFacts};
use sluice_core::lens::request::RequestBody;
use sluice_core::stream::Rules;

use crate::config::{self, Config};
use crate::policy::Policy;
use crate::state::{Cells, Gate, TargetCell, UpstreamCell};
use crate::upstream::Client;

/// Immutable. A request holds it by its `Arc` for as long as it lives.
pub struct Generation {
    /// Counts up with every swap.
    pub number: u64,
    /// The settings.
    pub config: Arc<Config>,
    /// The plugins, for whatever has no route.
    pub policy: Policy,
    /// Breakers, gates and counters, which outlive generations.
    pub cells: Arc<Cells>,
    routes: HashMap<Arc<str>, Arc<Route>>,
}

/// A route with everything it needs at hand.
pub struct Route {
    /// Its settings.
    pub config: Arc<config::Route>,
    /// Its targets, in configured order.
    pub targets: Vec<Target>,
    /// The plugins it asks.
    pub policy: Policy,
}

/// A target of a route with everything it needs at hand.
pub struct Target {
    /// Its settings in this route.
    pub config: config::RouteTarget,
    /// Breaker, cool-down, load.
    pub cell: Arc<TargetCell>,
    /// Gate and credentials of its upstream.
    pub upstream: Arc<UpstreamCell>,
    /// Connections to its upstream.
    pub client: Arc<Client>,
}

impl Generation {
    /// Puts a generation together. `clients` and `cells` are those of `config`.
    pub fn assemble(
        number: u64,
        config: Arc<Config>,
        policy: Policy,
        cells: Arc<Cells>,
        clients: &BTreeMap<Arc<str>, Arc<Client>>,
    ) -> Self {
        let target = |config: &config::RouteTarget| {
            let name = &config.target.upstream.name;
            Some(Target {
                cell: cells.targets.get(config.index)?.clone(),
                upstream: cells.upstreams.get(name)?.clone(),
                client: clients.get(name)?.clone(),
                config: config.clone(),
            })
        };
        let routes = config
            .routes
            .iter()
            .map(|(name, route)| {
                let targets = route.targets.iter().filter_map(target).collect();
                let lists = &route.plugins;
                let policy = if *lists == config::RoutePlugins::default() {
                    policy.clone()
                } else {
                    policy.listed(|kind| lists.of(kind))
                };
                (name.clone(), Arc::new(Route { config: route.clone(), targets, policy }))
            })
            .collect();
        Self { number, config, policy, cells, routes }
    }

    /// The route of a name.
    pub fn route(&self, name: &str) -> Option<&Arc<Route>> {
        self.routes.get(name)
    }

    /// A plugin that must decide does not run, and there is no route that would not ask it.
    pub fn denies_all(&self) -> bool {
        self.routes.values().all(|route| route.policy.denies())
    }

    /// Whether any route asks the bundled plugin of a kind, and not only where another fails.
    pub fn asks_bundled(&self, kind: PluginKind) -> bool {
        self.routes.values().any(|route| route.policy.asks_bundled(kind))
    }

    /// The gate all calls pass.
    pub fn global_gate(&self) -> &Arc<Gate> {
        &self.cells.global
    }

    /// The bounds and rules of a stream of a call on a route.
    pub fn stream_rules(&self, route: &config::Route, call: &RequestBody) -> Rules {
        let limits = &self.config.limits;
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Rules {
            event_max: size(limits.event),
            held_events_max: limits.held_events as usize,
            held_bytes_max: size(limits.held_bytes),
            complete_max: (route.commit == config::CommitRule::Complete).then(|| size(limits.answer)),
            malformed_fails: route.on_malformed == config::OnMalformed::Fail,
            choices: call.choices,
            hide_usage: self.config.account_usage && !call.usage.asked,
        }
    }
}

/// The static facts of every target, as plugins are configured with them.
pub fn target_facts(config: &Config) -> Vec<TargetFacts> {
    let places = |index: usize| {
        let of_route = |route: &Arc<config::Route>| {
            let position = route.targets.iter().position(|t| t.index == index)?;
            Some(Place {
                route: route.name.to_string(),
                position: u32::try_from(position).unwrap_or(u32::MAX),
                weight: route.targets[position].weight,
            })
        };
        config.routes.values().filter_map(of_route).collect()
    };
    let facts = |(index, target): (usize, &Arc<config::Target>)| TargetFacts {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        upstream: target.upstream.name.to_string(),
        model: target.model.to_string(),
        places: places(index),
        price_input: target.facts.price.map(|p| p.input),
        price_output: target.facts.price.map(|p| p.output),
        context: target.facts.context,
        capabilities: target
            .facts
            .supports
            .as_ref()
            .map(|all| all.iter().map(|c| c.as_str().to_owned()).collect()),
        region: target.facts.region.clone().or_else(|| target.upstream.region.clone()),
        attributes: target.facts.attributes.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
    };
    config.targets.iter().enumerate().map(facts).collect()
}
