//! What an operator can set.

/// Settings of the router.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How candidates are scored.
    pub mode: Mode,
    /// Shares of the parts of a weighted score; those that are not given keep their defaults.
    pub weights: Weights,
    /// Give the parts of each weighted score as its reason. Off by default: it doubles the cost of a call.
    pub explain: bool,
}

/// How candidates are scored.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The configured order.
    #[default]
    Priority,
    /// By health, latency, cost and quota.
    Weighted,
}

/// Shares of the parts. Only their proportions matter: a score is divided by their sum.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Weights {
    /// Share of the attempts of the last minute that were answered.
    pub health: f64,
    /// How much faster than the slowest candidate.
    pub latency: f64,
    /// How much cheaper than the dearest candidate.
    pub cost: f64,
    /// Share of the provider's quota that is left.
    pub quota: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { health: 0.35, latency: 0.25, cost: 0.25, quota: 0.15 }
    }
}

/// Largest weight. Proportions beyond it mean "only this part", which 0 for the others says better.
const MAX_WEIGHT: u32 = 1_000_000;

/// A number as JSON has it, which is where it came from. The standard library's way to write a fraction would be an
/// eighth of this plugin's code, all of it compiled at each start; the reader of settings has brought this one along.
fn written(number: f64) -> String {
    serde_json::Number::from_f64(number).map_or_else(|| "none".to_owned(), |number| number.to_string())
}

impl Weights {
    /// The weights divided by their sum.
    ///
    /// # Errors
    /// A weight out of range, or none over 0.
    pub fn shares(self) -> Result<Self, String> {
        let named =
            [("health", self.health), ("latency", self.latency), ("cost", self.cost), ("quota", self.quota)];
        for (name, weight) in named {
            if !(0.0..=f64::from(MAX_WEIGHT)).contains(&weight) {
                let came = written(weight);
                return Err(format!("settings.weights.{name}: expected 0 to {MAX_WEIGHT}, got {came}"));
            }
        }
        let sum: f64 = named.iter().map(|(_, weight)| weight).sum();
        if sum <= 0.0 {
            return Err("settings.weights: expected at least one weight over 0, got only 0".to_owned());
        }
        Ok(Self {
            health: self.health / sum,
            latency: self.latency / sum,
            cost: self.cost / sum,
            quota: self.quota / sum,
        })
    }
}
