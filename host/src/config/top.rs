//! The top of the file: its sections, one function for each, and what holds between them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

use super::checked::{
    Breaker, BreakerRate, Config, Cooldown, Drain, Gate, Limits, Log, LogFormat, Plugins, Readiness,
    RetryBudget, Tags,
};
use super::field::{Cx, Field, Map, SOME};
use super::headers::Use;
use super::shown::Shown;
use super::tree::Node;
use super::{caller, cors, records, route, tls, traces, upstream};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The whole file. Every mistake leaves a default behind: what comes back may run only if nothing was found.
pub(super) fn read<'a>(cx: &'a Cx<'a>, file: &Path, root: &'a Node) -> Config {
    cx.root(root).map(|m| sections(m, file))
}

fn sections(m: &Map<'_>, file: &Path) -> Config {
    let gates = m.get("gates").map(|m| Gate {
        max_in_flight: m.get("max_in_flight").count(1..=1_000_000).unwrap_or(1024),
        queue: m.get("queue").count(0..=1_000_000).unwrap_or(256),
        queue_wait: m.get("queue_wait").duration(Duration::ZERO).unwrap_or(secs(5)),
    });
    let (plugins, plugins_dir_named) = plugins(&m.get("plugins"));
    m.whole().cx.plugin_names.in_folder(&plugins.dir);
    let accounts = upstream::read_all(&m.require("upstreams"), gates);
    let defaults = m.get("defaults").map(route::Settings::read);
    let routes = route::read_all(&m.require("routes"), &defaults, &accounts);
    let names = m.get("routes").named();
    let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
    let callers = caller::read_all(&m.get("callers"), &caller::Known { gates, routes: &names });
    let tags = tags(&m.get("tags"));
    let return_headers = m.get("return_headers").header_names(Use::Return);
    let upstreams =
        accounts.into_iter().filter_map(|(name, account)| Some((name, account.upstream?))).collect();
    let state_dir = m.get("state_dir").path().unwrap_or_else(|| m.whole().cx.at("sluice-state"));
    let config = Config {
        file: Some(file.to_owned()),
        shown: m.whole().node().map(Shown::of).unwrap_or_default(),
        listen: m.get("listen").address().unwrap_or(loopback(8080)),
        admin: m.get("admin").address().unwrap_or(loopback(9090)),
        tls: tls::read(&m.get("tls")),
        admin_tls: tls::read(&m.get("admin_tls")),
        upstreams,
        targets: routes.targets,
        routes: routes.routes,
        plugins,
        plugins_dir_named,
        records: records::read(&m.get("records"), &state_dir),
        traces: traces::read(&m.get("traces")),
        state_dir,
        breaker: breaker(&m.get("breaker")),
        gates,
        retry_budget: m.get("retry_budget").map(|m| RetryBudget {
            ratio: m.get("ratio").decimal(0.0..=1.0).unwrap_or(0.2),
            min_per_second: m.get("min_per_second").count(0..=100_000).unwrap_or(10),
            window: m.get("window").duration(SOME).unwrap_or(secs(10)),
        }),
        callers,
        cors: cors::read(&m.get("cors"), &tags, &return_headers).map(Arc::new),
        limits: limits(&m.get("limits")),
        drain: m.get("drain").map(|m| Drain {
            window: m.get("window").duration(Duration::ZERO).unwrap_or(secs(5)),
            limit: m.get("limit").duration(Duration::ZERO).unwrap_or(secs(60)),
        }),
        readiness: m
            .get("readiness")
            .choice(&[("targets", Readiness::Targets), ("process", Readiness::Process)])
            .unwrap_or(Readiness::Targets),
        account_usage: m.get("account_usage").flag().unwrap_or(false),
        forward_headers: m.get("forward_headers").header_names(Use::Forward),
        return_headers,
        tags,
        log: log(&m.get("log")),
        decisions: m.get("decisions").count(0..=100_000).unwrap_or(256) as usize,
    };
    check_listeners(m, &config);
    check_key_headers(m, &config);
    warn_of_unused(m, &config);
    if !config.callers.is_empty() {
        caller::warn_of_free(&m.get("callers"), &config);
    }
    config
}

/// And whether its folder is named.
fn plugins(field: &Field<'_>) -> (Plugins, bool) {
    field.map(|m| {
        let dir = m.get("dir");
        let named = dir.is_set();
        let plugins = Plugins {
            dir: dir.path().unwrap_or_else(|| field.cx.at("plugins.d")),
            headers: m.get("headers").header_names(Use::Plugins),
            deadline: m.get("deadline").duration(SOME).unwrap_or(Duration::from_millis(10)),
            memory: m.get("memory").plugin_memory().unwrap_or(16 * MIB),
            concurrency: m.get("concurrency").plugin_concurrency().unwrap_or_else(twice_the_cores),
            settle: m.get("settle").duration(Duration::ZERO).unwrap_or(Duration::from_millis(200)),
            rescan: m.get("rescan").duration(SOME).unwrap_or(secs(5)),
            probation: m.get("probation").duration(Duration::ZERO).unwrap_or(secs(300)),
            max_file: m.get("max_file").plugin_file().unwrap_or(64 * MIB),
        };
        (plugins, named)
    })
}

fn twice_the_cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores.saturating_mul(2)).unwrap_or(10_000).min(10_000)
}

fn breaker(field: &Field<'_>) -> Breaker {
    field.map(|m| {
        let rate = m.get("rate").map(breaker_rate);
        let open = m.get("open").duration(SOME).unwrap_or(secs(30));
        let cap = m.get("open_max");
        let open_max = cap.duration(SOME);
        if open_max.is_some_and(|open_max| open_max < open) {
            cap.error("must not be shorter than \"open\"");
        }
        Breaker {
            consecutive: m.get("consecutive").count(1..=1_000_000).unwrap_or(3),
            rate,
            open,
            // A long first period alone raises the cap that nobody set.
            open_max: open_max.unwrap_or(secs(300)).max(open),
            cooldown: m.get("cooldown").map(|m| Cooldown {
                rate_limit: m.get("rate_limit").duration(Duration::ZERO).unwrap_or(secs(5)),
                model: m.get("model").duration(Duration::ZERO).unwrap_or(secs(30)),
                quota: m.get("quota").duration(Duration::ZERO).unwrap_or(secs(600)),
                auth: m.get("auth").duration(Duration::ZERO).unwrap_or(secs(60)),
                max: m.get("max").duration(SOME).unwrap_or(secs(3600)),
            }),
        }
    })
}

fn breaker_rate(m: &Map<'_>) -> Option<BreakerRate> {
    let enabled = m.get("enabled").flag().unwrap_or(true);
    let window = m.get("window").count(1..=10_000).unwrap_or(20);
    let least = m.get("min");
    let min = least.count(1..=10_000);
    if min.is_some_and(|min| min > window) {
        least.error(format!("must not be more than \"window\" ({window}), or the rule never holds"));
    }
    let share = m.get("ratio");
    let ratio = share.decimal(0.0..=1.0);
    if ratio == Some(0.0) {
        share.error("must be more than 0; \"enabled: false\" switches the rule off");
    }
    let rule = BreakerRate { window, min: min.unwrap_or(10).min(window), ratio: ratio.unwrap_or(0.5) };
    enabled.then_some(rule)
}

fn limits(field: &Field<'_>) -> Limits {
    field.map(|m| {
        let size = |key, default| m.get(key).size(1..=4 * GIB).unwrap_or(default);
        Limits {
            body: size("body", 32 * MIB),
            answer: size("answer", 64 * MIB),
            event: size("event", 16 * MIB),
            error_body: size("error_body", 64 * KIB),
            held_events: m.get("held_events").count(1..=1_000_000).unwrap_or(64),
            held_bytes: size("held_bytes", 256 * KIB),
        }
    })
}

/// Short names of the answer's headers and the headers they are by default.
pub(super) const TAG_NAMES: [(&str, &str); 9] = [
    ("model", "x-sluice-model"),
    ("route", "x-sluice-route"),
    ("degraded", "x-sluice-degraded"),
    ("upstream", "x-sluice-upstream"),
    ("served_model", "x-sluice-served-model"),
    ("failure_kind", "x-sluice-failure-kind"),
    ("attempts", "x-sluice-attempts"),
    ("latency_ms", "x-sluice-latency-ms"),
    ("policy", "x-sluice-policy"),
];

fn tags(field: &Field<'_>) -> Tags {
    field.map(|m| Tags {
        in_body: m.get("in_body").flag().unwrap_or(false),
        expose_upstream: m.get("expose_upstream").flag().unwrap_or(true),
        names: m.get("names").map(tag_names),
    })
}

fn tag_names(m: &Map<'_>) -> BTreeMap<String, Option<String>> {
    let read = |&(short, default): &(&'static str, &'static str)| {
        let field = m.get(short);
        let name = match field.maybe_text() {
            Some("off") => Some(None),
            _ => field.header_name(Use::Tag).map(|name| Some(name.as_str().to_owned())),
        };
        (short, field, name, default)
    };
    let tags: Vec<_> = TAG_NAMES.iter().map(read).collect();
    let mut taken: Vec<&str> =
        tags.iter().filter(|(.., name, _)| name.is_none()).map(|&(.., default)| default).collect();
    let mut names = BTreeMap::new();
    for (short, field, name, default) in &tags {
        match name {
            Some(Some(own)) if taken.contains(&own.as_str()) => {
                field.error("another tag has this header name")
            }
            Some(Some(own)) => {
                taken.push(own);
                if own != default {
                    names.insert((*short).to_owned(), Some(own.clone()));
                }
            }
            Some(None) => {
                names.insert((*short).to_owned(), None);
            }
            None => {}
        }
    }
    names
}

fn log(field: &Field<'_>) -> Log {
    field.map(|m| {
        let level = m.get("level");
        let own = level.text("a level, or a filter such as info,sluice=debug").unwrap_or("info");
        if let Err(text) = filter(own, true) {
            level.error(text);
        }
        let variables = ["SLUICE_LOG", "RUST_LOG"];
        let from = variables
            .into_iter()
            .find_map(|name| (field.cx.env)(name).filter(|v| !v.is_empty()).map(|v| (name, v)));
        if let Some((name, value)) = &from
            && filter(value, false).is_err()
        {
            level.error(format!("environment variable {name}, which overrides it, holds no valid filter"));
        }
        Log {
            level: from.map_or_else(|| own.to_owned(), |(_, value)| value),
            format: m
                .get("format")
                .choice(&[("json", LogFormat::Json), ("text", LogFormat::Text)])
                .unwrap_or(LogFormat::Json),
            records: m.get("records").flag().unwrap_or(true),
        }
    })
}

/// Whether `text` is a log filter. In a file a lone word must be a level: to the filter `inof` would be a
/// module, and nothing would be logged.
fn filter(text: &str, strict: bool) -> Result<(), String> {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    for part in text.split(',').map(str::trim) {
        if strict && !part.contains(['=', '[']) && !levels.contains(&part) {
            return Err(format!(
                "expected one of {}, or a filter such as info,sluice=debug{}",
                levels.join(" "),
                super::suggest::hint(part, levels)
            ));
        }
    }
    EnvFilter::builder()
        .parse(text)
        .map(drop)
        .map_err(|_| "is not a valid filter; one looks like info,sluice=debug".to_owned())
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl Field<'_> {
    /// `host:port` with an address; `localhost` is the one name, so that no name service decides at start
    /// where the gateway listens.
    fn address(&self) -> Option<SocketAddr> {
        let what = "an address and a port, such as 127.0.0.1:8080 or [::1]:8080";
        let text = self.text(what)?;
        let spelled = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        let address = spelled.as_deref().unwrap_or(text).parse().ok();
        if address.is_none() {
            self.error(format!("expected {what}"));
        }
        address
    }
}

fn check_listeners(m: &Map<'_>, config: &Config) {
    let (listen, admin) = (m.get("listen"), m.get("admin"));
    if config.listen == config.admin && config.listen.port() != 0 {
        let of = if admin.is_set() { &admin } else { &listen };
        of.error("\"listen\" and \"admin\" cannot share an address");
    }
    let anonymous = m.get("allow_anonymous").flag().unwrap_or(false);
    let keys = m.get("callers").list().is_some_and(|callers| !callers.is_empty());
    if !config.listen.ip().is_loopback() && !anonymous && !keys {
        listen.error("listens beyond this machine without callers' keys: anyone who reaches it could spend yours; give each a key under \"callers\", or write \"allow_anonymous: true\"");
    }
    if anonymous && keys {
        m.get("allow_anonymous").warn("has no effect beside callers: each call needs a key");
    }
    if !config.admin.ip().is_loopback() {
        admin.warn("the admin pages can be reached from beyond this machine, and ask nobody for a key");
    }
}

/// A caller must not be able to write the header that carries an upstream's key.
fn check_key_headers(m: &Map<'_>, config: &Config) {
    for item in m.get("forward_headers").list().unwrap_or_default() {
        let is = |name: &http::HeaderName| {
            item.maybe_text().is_some_and(|text| name.as_str().eq_ignore_ascii_case(text))
        };
        if !config.forward_headers.iter().any(is) {
            continue;
        }
        if let Some(upstream) = config.upstreams.values().find(|upstream| is(&upstream.auth_header)) {
            item.error(format!("the header carries the credential of upstream {}", upstream.name));
        }
    }
}

fn warn_of_unused(m: &Map<'_>, config: &Config) {
    for (name, entry) in m.get("upstreams").named() {
        if !config.targets.iter().any(|target| *target.upstream.name == *name) {
            entry.warn("no route names this upstream");
        }
    }
}

/// Names of upstreams (and of callers): they become parts of header values, labels and `upstream/model`.
pub(super) fn is_short_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Why a name of a route or model, which may be any text, is none.
pub(super) fn name_flaw(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.len() > 256 {
        Some("is longer than 256 bytes")
    } else if name.chars().any(char::is_control) {
        Some("holds a control character")
    } else {
        None
    }
}
