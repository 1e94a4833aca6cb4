//! `traces`: where spans go, and of which share of the requests.

use super::checked::BaseUrl;
use super::field::Field;

/// What the OTLP specification puts behind a base URL.
const PATH: &str = "/v1/traces";

/// `traces`.
#[derive(Debug, Clone, PartialEq)]
pub struct Traces {
    /// The collector, as OTLP over HTTP has it.
    pub otlp: BaseUrl,
    /// Share of the traces that begin here, 0 to 1.
    pub sample: f64,
}

impl Traces {
    /// The URL that spans are sent to.
    #[must_use]
    pub fn endpoint(&self) -> String {
        let BaseUrl { tls, authority, path, .. } = &self.otlp;
        format!("{}://{authority}{path}{PATH}", if *tls { "https" } else { "http" })
    }
}

/// None: no traces, which is also what an empty section says.
pub(super) fn read(field: &Field<'_>) -> Option<Traces> {
    field.map(|m| {
        let (otlp, sample) = (m.get("otlp"), m.get("sample"));
        let share = sample.decimal(0.0..=1.0);
        if !otlp.is_set() && !sample.is_set() {
            return None;
        }
        let url = m.require("otlp").base_url()?;
        if url.query.is_some() {
            otlp.error("the URL of a collector has no query; a key for it goes into the variable OTEL_EXPORTER_OTLP_HEADERS");
        }
        if url.path.ends_with(PATH) {
            otlp.error(format!("expected the base URL of a collector: {PATH} is put behind it"));
        }
        Some(Traces { otlp: url, sample: share.unwrap_or(1.0) })
    })
}
