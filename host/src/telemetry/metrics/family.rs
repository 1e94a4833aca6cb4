//! One metric name and its series.
//!
//! The vectors of the `prometheus` crate find a series by a hash over its label values run together, so that
//! (`ab`, `c`) and (`a`, `bc`) are one series. Names of models are free text here, so the values themselves
//! are the key. The series of a name that is gone can be taken out again, and a family without series is
//! still announced.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use prometheus::core::Metric;
use prometheus::proto::{MetricFamily, MetricType};
use prometheus::{Gauge, Histogram, HistogramOpts, IntCounter, Opts, TextEncoder};

/// What a family can be made of.
pub trait Series: Metric {
    /// The type as the exposition names it.
    const TYPE: MetricType;

    /// A new one at zero.
    fn make(opts: Opts, buckets: &[f64]) -> prometheus::Result<Self>;
}

impl Series for IntCounter {
    const TYPE: MetricType = MetricType::COUNTER;

    fn make(opts: Opts, _: &[f64]) -> prometheus::Result<Self> {
        Self::with_opts(opts)
    }
}

impl Series for Gauge {
    const TYPE: MetricType = MetricType::GAUGE;

    fn make(opts: Opts, _: &[f64]) -> prometheus::Result<Self> {
        Self::with_opts(opts)
    }
}

impl Series for Histogram {
    const TYPE: MetricType = MetricType::HISTOGRAM;

    fn make(opts: Opts, buckets: &[f64]) -> prometheus::Result<Self> {
        let mut histogram = HistogramOpts::from(opts);
        histogram.buckets = buckets.to_vec();
        Self::with_opts(histogram)
    }
}

/// A series that is looked up the first time it is needed and held from then on.
pub type Slot<S> = OnceLock<S>;

/// A metric name with its labels and all series of it.
#[derive(Debug)]
pub struct Family<S> {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    buckets: &'static [f64],
    series: RwLock<BTreeMap<Vec<Arc<str>>, S>>,
    /// Stands in where a series cannot be made, and is never shown. [`Family::new`] has made one with the
    /// same name, labels and buckets, so it is never used either.
    spare: S,
}

impl<S: Series> Family<S> {
    /// A family without series. Fails on a name, a label or buckets that no exposition may carry.
    pub fn new(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        buckets: &'static [f64],
    ) -> prometheus::Result<Self> {
        let blank = vec![""; labels.len()];
        let spare = S::make(opts(name, help, labels, &blank), buckets)?;
        Ok(Self { name, help, labels, buckets, series: RwLock::default(), spare })
    }

    /// The series with these label values, in the order of the labels; made at zero when it is new.
    pub fn with(&self, values: &[&str]) -> S {
        debug_assert_eq!(values.len(), self.labels.len(), "{}", self.name);
        let key: Vec<Arc<str>> = values.iter().map(|&v| v.into()).collect();
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = series.get(&key) {
            return found.clone();
        }
        match S::make(opts(self.name, self.help, self.labels, values), self.buckets) {
            Ok(made) => {
                series.insert(key, made.clone());
                made
            }
            Err(_) => self.spare.clone(),
        }
    }

    /// Drops every series for which `keep`, asked with each label and its value, says no once.
    pub fn retain(&self, keep: &dyn Fn(&str, &str) -> bool) {
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        series.retain(|values, _| self.labels.iter().zip(values).all(|(label, value)| keep(label, value)));
    }

    /// Appends the family in the text exposition format.
    pub fn render(&self, out: &mut String) -> prometheus::Result<()> {
        let metrics: Vec<_> = {
            let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
            series.values().map(Metric::metric).collect()
        };
        if metrics.is_empty() {
            let kind = format!("{:?}", S::TYPE).to_lowercase();
            out.push_str(&format!("# HELP {0} {1}\n# TYPE {0} {kind}\n", self.name, self.help));
            return Ok(());
        }
        let mut family = MetricFamily::default();
        family.set_name(self.name.to_owned());
        family.set_help(self.help.to_owned());
        family.set_field_type(S::TYPE);
        family.set_metric(metrics);
        TextEncoder::new().encode_utf8(&[family], out)
    }
}

fn opts(name: &str, help: &str, labels: &[&str], values: &[&str]) -> Opts {
    let mut opts = Opts::new(name, help);
    for (label, value) in labels.iter().zip(values) {
        opts = opts.const_label(*label, *value);
    }
    opts
}
