//! A configuration that can do no harm: what it decides is as it was, and nothing of it leads anywhere. Upstreams are
//! where the caller says, on this machine; what opens them is made up; nothing is kept.
//!
//! Every field is named here and none is left to "the rest", so that a new one has to be decided about.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use super::Folder;
use crate::config::{
    BaseUrl, Caller, Config, Credential, Drain, Probe, Route, RouteTarget, Target, Upstream,
};

/// What takes the place of what could do harm.
pub struct Instead<'a> {
    /// Where each upstream is to be; one that is not here is nowhere.
    pub addresses: &'a BTreeMap<Arc<str>, SocketAddr>,
    /// Where state goes.
    pub folder: &'a Folder,
    /// Who may call.
    pub callers: Vec<Arc<Caller>>,
    /// How many decisions are kept.
    pub decisions: usize,
}

/// The same configuration without anything that could do harm.
#[must_use]
pub fn harmless(config: Config, instead: Instead<'_>) -> Config {
    let Config {
        file: _,
        shown,
        listen: _,
        admin: _,
        tls: _,
        admin_tls: _,
        upstreams,
        targets,
        routes,
        plugins,
        plugins_dir_named,
        state_dir: _,
        breaker,
        gates,
        retry_budget,
        callers: _,
        cors: _,
        limits,
        drain: _,
        readiness,
        account_usage,
        forward_headers,
        return_headers,
        tags,
        log,
        records: _,
        traces: _,
        decisions: _,
    } = config;
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let upstreams: BTreeMap<_, _> = upstreams
        .into_iter()
        .map(|(name, upstream)| {
            let at = instead.addresses.get(&name).copied();
            (name, Arc::new(stand_in(&upstream, at)))
        })
        .collect();
    let moved = |target: &Arc<Target>| {
        let upstream = upstreams.get(&target.upstream.name).unwrap_or(&target.upstream);
        Arc::new(Target { upstream: upstream.clone(), ..Target::clone(target) })
    };
    let targets: Vec<Arc<Target>> = targets.iter().map(moved).collect();
    let routes = routes.into_iter().map(|(name, route)| (name, Arc::new(of(&route, &targets)))).collect();
    Config {
        file: None,
        shown,
        listen: any,
        admin: any,
        tls: None,
        admin_tls: None,
        upstreams,
        targets,
        routes,
        plugins,
        plugins_dir_named,
        state_dir: instead.folder.state(),
        breaker,
        gates,
        retry_budget,
        callers: instead.callers,
        cors: None,
        limits,
        drain: Drain { window: Duration::ZERO, limit: Duration::ZERO },
        readiness,
        account_usage,
        forward_headers,
        return_headers,
        tags,
        log,
        records: None,
        traces: None,
        decisions: instead.decisions,
    }
}

/// An upstream whose keys and headers are made up, without background checks.
fn stand_in(upstream: &Upstream, at: Option<SocketAddr>) -> Upstream {
    let key = |n: usize| Credential {
        key: SecretString::from(format!("stand-in-{n}")),
        reference: format!("stand-in {n}"),
    };
    let made_up =
        |(name, _): &(http::HeaderName, SecretString)| (name.clone(), SecretString::from("stand-in"));
    Upstream {
        name: upstream.name.clone(),
        base: base(at),
        credentials: (0..upstream.credentials.len()).map(key).collect(),
        auth_header: upstream.auth_header.clone(),
        gate: upstream.gate,
        headers: upstream.headers.iter().map(made_up).collect(),
        pool_idle: upstream.pool_idle,
        ca_file: None,
        quota: upstream.quota,
        probe: Probe::Passive,
        region: upstream.region.clone(),
    }
}

fn base(at: Option<SocketAddr>) -> BaseUrl {
    // Port 0 is nowhere: no connection to it can be made.
    let at = at.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let authority = http::uri::Authority::try_from(at.to_string());
    let nowhere = || http::uri::Authority::from_static("127.0.0.1:0");
    let authority = authority.unwrap_or_else(|_| nowhere());
    BaseUrl { tls: false, authority, path: "/v1".to_owned(), query: None }
}

fn of(route: &Route, targets: &[Arc<Target>]) -> Route {
    let moved = |target: &RouteTarget| {
        let new = targets.get(target.index).unwrap_or(&target.target);
        RouteTarget { target: new.clone(), ..target.clone() }
    };
    Route { targets: route.targets.iter().map(moved).collect(), ..route.clone() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop where it fails")]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config;

    #[test]
    fn nothing_of_it_leads_to_a_provider_or_holds_a_secret() {
        let text = "upstreams:
  a: { base_url: 'https://api.example.com/v1?key=hush', credentials: ['env:K', 'env:L'], headers: { x-org: hush },
       probe: { mode: active }, models: { m: {}, n: {} } }
  b: { base_url: 'https://other.example.com', models: { m: {} } }
routes: { r: { targets: [ a/n, { target: b/m, weight: 2.0 } ], budget: 9s }, s: { targets: [ a/m ] } }
callers: [ { name: c, key: 'env:C' } ]
records: { postgres: 'env:P' }
cors: { origins: ['*'] }
traces: { otlp: 'https://collector.example.com' }
";
        let env = |name: &str| Some(format!("postgres://hush-and-hush-{name}"));
        let config = config::parse(text, Path::new("c.yaml"), &env).unwrap().config;
        let folder = Folder::new().unwrap();
        let addresses = BTreeMap::from([("a".into(), SocketAddr::from(([127, 0, 0, 1], 7)))]);
        let instead = Instead { addresses: &addresses, folder: &folder, callers: Vec::new(), decisions: 3 };
        let harmless = harmless(config, instead);
        for upstream in
            harmless.targets.iter().map(|target| &target.upstream).chain(harmless.upstreams.values())
        {
            use secrecy::ExposeSecret as _;
            assert_eq!(upstream.base.authority.host(), "127.0.0.1");
            assert_eq!((upstream.base.tls, &upstream.base.query), (false, &None));
            assert_eq!(upstream.probe, Probe::Passive);
            let keys = upstream.credentials.iter().map(|key| &key.key);
            assert!(
                keys.chain(upstream.headers.iter().map(|(_, value)| value))
                    .all(|secret| !secret.expose_secret().contains("hush"))
            );
        }
        assert_eq!(harmless.upstreams["a"].base.authority.as_str(), "127.0.0.1:7");
        assert_eq!(harmless.upstreams["b"].base.authority.as_str(), "127.0.0.1:0");
        assert_eq!(harmless.upstreams["a"].credentials.len(), 2);
        let route = &harmless.routes["r"];
        assert_eq!(route.budget, Duration::from_secs(9));
        assert_eq!(&*route.targets[0].target.key, "a/n");
        assert!(
            route.targets.iter().all(|target| target.target.upstream.base.authority.host() == "127.0.0.1")
        );
        assert!(harmless.callers.is_empty() && harmless.records.is_none() && harmless.file.is_none());
        assert!(harmless.traces.is_none() && harmless.tls.is_none() && harmless.cors.is_none());
        assert!(harmless.state_dir.starts_with(folder.state()));
    }
}
