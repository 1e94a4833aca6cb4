//! Every metric that is counted as things happen: names, help texts, labels and buckets. The gauges that
//! mirror live state are in [`super::scrape`].

use prometheus::{Histogram, IntCounter};

use super::family::{Family, Series};

/// Whole requests and streams, seconds.
const DURATION: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0];
/// To commit or first content, seconds: fine where people notice.
const FIRST: &[f64] =
    &[0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0];
/// The gateway's own part, seconds.
const OVERHEAD: &[f64] =
    &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];
/// Attempts; nine targets with six retries each are the most.
const ATTEMPTS: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 9.0, 17.0, 33.0];
/// Budget left, seconds.
const LEFT: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0];
/// Waiting at a gate, seconds.
const WAIT: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// One call of a plugin, seconds.
const CALL: &[f64] = &[
    0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025,
    0.1,
];

/// All families.
#[derive(Debug)]
pub struct Families {
    pub requests: Family<IntCounter>,
    pub request_duration: Family<Histogram>,
    pub time_to_first_token: Family<Histogram>,
    pub overhead: Family<Histogram>,
    pub attempts: Family<IntCounter>,
    pub attempt_duration: Family<Histogram>,
    pub attempt_failures: Family<IntCounter>,
    pub attempts_per_request: Family<Histogram>,
    pub retries: Family<IntCounter>,
    pub retry_budget_denied: Family<IntCounter>,
    pub budget_left: Family<Histogram>,
    pub provider_events: Family<IntCounter>,
    pub streams_interrupted: Family<IntCounter>,
    pub malformed_events: Family<IntCounter>,
    pub breaker_transitions: Family<IntCounter>,
    pub gate_wait: Family<Histogram>,
    pub gate_refused: Family<IntCounter>,
    pub tokens: Family<IntCounter>,
    pub plugin_calls: Family<IntCounter>,
    pub plugin_call_duration: Family<Histogram>,
    pub plugin_reloads: Family<IntCounter>,
    pub config_reloads: Family<IntCounter>,
    pub records_dropped: Family<IntCounter>,
    pub records_written: Family<IntCounter>,
    pub spans_exported: Family<IntCounter>,
    pub spans_dropped: Family<IntCounter>,
}

fn counter(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
) -> prometheus::Result<Family<IntCounter>> {
    Family::new(name, help, labels, &[])
}

impl Families {
    /// All of them, without series.
    #[rustfmt::skip]
    pub fn new() -> prometheus::Result<Self> {
        let histogram = Family::<Histogram>::new;
        Ok(Self {
            requests: counter("sluice_requests_total", "Requests that have ended.",
                &["model", "served_model", "upstream", "status", "outcome", "fallback"])?,
            request_duration: histogram("sluice_request_duration_seconds", "From arrival to the end.",
                &["model", "outcome"], DURATION)?,
            time_to_first_token: histogram("sluice_time_to_first_token_seconds", "From arrival to first content, of streams that had some.",
                &["model", "fallback"], FIRST)?,
            overhead: histogram("sluice_gateway_overhead_seconds", "The gateway's own part of a request.",
                &["model"], OVERHEAD)?,
            attempts: counter("sluice_attempts_total", "Exchanges with a target that were begun and have ended.",
                &["target", "role", "result"])?,
            attempt_duration: histogram("sluice_attempt_duration_seconds", "From the begin of an attempt to its commit.",
                &["target", "role"], FIRST)?,
            attempt_failures: counter("sluice_attempt_failures_total", "Attempts that failed.",
                &["target", "kind", "status", "role"])?,
            attempts_per_request: histogram("sluice_attempts_per_request", "Attempts that a request took.",
                &["model"], ATTEMPTS)?,
            retries: counter("sluice_retries_total", "Further attempts on the same target.",
                &["target"])?,
            retry_budget_denied: counter("sluice_retry_budget_denied_total", "Retries and switches that the retry budget forbade.",
                &["target"])?,
            budget_left: histogram("sluice_budget_left_seconds", "Left until the deadline at each switch.",
                &["model"], LEFT)?,
            provider_events: counter("sluice_provider_events_total", "Events at targets, as the log has them.",
                &["event", "target"])?,
            streams_interrupted: counter("sluice_streams_interrupted_total", "Streams that broke after commit.",
                &["target", "reason"])?,
            malformed_events: counter("sluice_malformed_events_total", "Events of streams that could not be read.",
                &["target"])?,
            breaker_transitions: counter("sluice_breaker_transitions_total", "Changes of a breaker's state.",
                &["target", "to"])?,
            gate_wait: histogram("sluice_gate_wait_seconds", "Time in the queue of a gate.",
                &["gate"], WAIT)?,
            gate_refused: counter("sluice_gate_refused_total", "Calls that a gate refused.",
                &["gate", "reason"])?,
            tokens: counter("sluice_tokens_total", "Tokens of answers.",
                &["model", "served_model", "direction", "source"])?,
            plugin_calls: counter("sluice_plugin_calls_total", "Calls of plugins.",
                &["plugin", "kind", "result"])?,
            plugin_call_duration: histogram("sluice_plugin_call_duration_seconds", "Time of one call of a plugin.",
                &["plugin", "kind"], CALL)?,
            plugin_reloads: counter("sluice_plugin_reloads_total", "Changes of what runs from the plugins folder.",
                &["plugin", "result", "reason"])?,
            config_reloads: counter("sluice_config_reloads_total", "Configurations that were read again.",
                &["result", "reason"])?,
            records_dropped: counter("sluice_records_dropped_total", "Records that found no room.",
                &[])?,
            records_written: counter("sluice_records_written_total",
                "Records that are safe: in the store, or until it is back in the spool.", &["to"])?,
            spans_exported: counter("sluice_spans_exported_total", "Spans that the collector took.", &[])?,
            spans_dropped: counter("sluice_spans_dropped_total", "Spans that found no room or no collector.", &[])?,
        })
    }

    /// Calls `each` with every family.
    fn visit(
        &self,
        each: &mut dyn FnMut(&dyn AnyFamily) -> prometheus::Result<()>,
    ) -> prometheus::Result<()> {
        let all: [&dyn AnyFamily; 26] = [
            &self.requests,
            &self.request_duration,
            &self.time_to_first_token,
            &self.overhead,
            &self.attempts,
            &self.attempt_duration,
            &self.attempt_failures,
            &self.attempts_per_request,
            &self.retries,
            &self.retry_budget_denied,
            &self.budget_left,
            &self.provider_events,
            &self.streams_interrupted,
            &self.malformed_events,
            &self.breaker_transitions,
            &self.gate_wait,
            &self.gate_refused,
            &self.tokens,
            &self.plugin_calls,
            &self.plugin_call_duration,
            &self.plugin_reloads,
            &self.config_reloads,
            &self.records_dropped,
            &self.records_written,
            &self.spans_exported,
            &self.spans_dropped,
        ];
        all.into_iter().try_for_each(each)
    }

    /// Appends all of them in the text exposition format.
    pub fn render(&self, out: &mut String) -> prometheus::Result<()> {
        self.visit(&mut |family| family.render(out))
    }

    /// Drops the series whose labels `keep` does not want.
    pub fn retain(&self, keep: &dyn Fn(&str, &str) -> bool) {
        // The visit only fails where its closure does.
        let _ = self.visit(&mut |family| {
            family.retain(keep);
            Ok(())
        });
    }
}

/// A family whatever it is made of.
trait AnyFamily {
    fn render(&self, out: &mut String) -> prometheus::Result<()>;
    fn retain(&self, keep: &dyn Fn(&str, &str) -> bool);
}

impl<S: Series> AnyFamily for Family<S> {
    fn render(&self, out: &mut String) -> prometheus::Result<()> {
        Self::render(self, out)
    }

    fn retain(&self, keep: &dyn Fn(&str, &str) -> bool) {
        Self::retain(self, keep);
    }
}
