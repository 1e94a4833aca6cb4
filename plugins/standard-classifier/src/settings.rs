//! What an operator can set: how long a target or credential is left alone.

/// Settings of the classifier.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Cool-downs in milliseconds.
    pub cooldown_ms: CoolDowns,
}

/// Cool-downs in milliseconds. 0: none.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CoolDowns {
    /// A credential after a rate limit that came without a hint, when there is another one.
    pub rate_limit: u32,
    /// A target whose model is not there.
    pub model: u32,
    /// A credential without quota or credit.
    pub quota: u32,
    /// A credential that was refused.
    pub auth: u32,
    /// The most that a hint of the upstream can ask for.
    pub max: u32,
}

impl Default for CoolDowns {
    fn default() -> Self {
        Self { rate_limit: 5_000, model: 30_000, quota: 600_000, auth: 60_000, max: 3_600_000 }
    }
}
