//! Keeps what belongs together on one target, so that the provider's prompt cache pays, and leaves that target when it
//! is unwell.
//!
//! Each pair of session and target gets a number (rendezvous hashing): the highest wins, and when targets come or go
//! only the sessions of those move. The session is the request's affinity key: its cache key, else its session, else
//! its user. The number depends on the name of a target and not on its position, so replicas and restarts agree. A
//! target's `weight` in the route is its share of the sessions.
//!
//! A target that answers too little, or is full, comes behind all that are well: its sessions move to their own second
//! choice, and come back when it recovers. Requests without an affinity key keep the configured order.

use sluice_sdk::prelude::*;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Share of answered attempts, 0 to 1, below which sessions leave a target.
    min_health: f64,
    /// Attempts in the last minute before that share is believed.
    min_samples: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { min_health: 0.5, min_samples: 5 }
    }
}

struct StickySession {
    settings: Settings,
    targets: Vec<TargetFacts>,
    names: Vec<u64>,
}

impl Plugin for StickySession {
    type Settings = Settings;

    fn configure(settings: Settings, targets: Vec<TargetFacts>) -> Result<Self, String> {
        if !(0.0..=1.0).contains(&settings.min_health) {
            return Err(format!("settings.min_health: expected 0 to 1, got {}", settings.min_health));
        }
        let names = targets.iter().map(|t| hash(format!("{}/{}", t.upstream, t.model).as_bytes())).collect();
        Ok(Self { settings, targets, names })
    }
}

impl StickySession {
    fn is_well(&self, candidate: &Candidate) -> bool {
        let known = candidate.samples >= self.settings.min_samples;
        candidate.in_flight < candidate.capacity && !(known && candidate.health < self.settings.min_health)
    }

    /// The number of this session and this target, 0 to 1. Raised to one over the weight, so that a target with
    /// twice the weight wins twice as often.
    fn draw(&self, session: u64, route: &str, candidate: &Candidate) -> f64 {
        let at = candidate.target as usize;
        let name = self.names.get(at).copied().unwrap_or_default();
        let place = self.targets.get(at).and_then(|target| target.place(route));
        let number = (mix(session ^ name) >> 11) as f64 / (1_u64 << 53) as f64;
        match place.map_or(1.0, |place| place.weight) {
            weight if weight > 0.0 => number.powf(1.0 / weight),
            _ => 0.0,
        }
    }
}

impl Router for StickySession {
    fn score(&self, request: &RequestFacts, candidates: &[Candidate]) -> Vec<Vote> {
        Vote::each(candidates, |candidate| {
            let draw = request.affinity.map_or(0.0, |session| self.draw(session, &request.model, candidate));
            if self.is_well(candidate) { Vote::score(0.5 + draw / 2.0) } else { Vote::score(draw / 2.0) }
        })
    }
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Spreads every bit over all others.
fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    number = (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}

sluice_sdk::plugin!(StickySession: Router);

#[cfg(test)]
mod tests;
