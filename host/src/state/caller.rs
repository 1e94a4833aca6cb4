//! What a caller uses: its gate, and its account of requests, tokens and money. What may be taken is decided by
//! the core; here is the account, and the guard that settles it on every path.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use sluice_core::allowance::{Allowance, Need, Now, Refusal, Shown, Taken};

use super::{Gate, StateWatch, lock};
use crate::{clock, config};

#[cfg(test)]
mod tests;

/// One caller, by its name.
pub struct CallerCell {
    gate: Arc<Gate>,
    allowance: Mutex<Allowance>,
}

impl CallerCell {
    pub(super) fn new(config: &config::Caller, watch: Arc<dyn StateWatch>) -> Self {
        Self {
            gate: Arc::new(Gate::new(&format!("caller:{}", config.name), config.gate, watch)),
            allowance: Mutex::new(Allowance::new(config.limits)),
        }
    }

    /// Takes new limits in place; what it has used counts, and calls above a lowered limit finish.
    pub(super) fn set(&self, config: &config::Caller) {
        self.gate.set(config.gate);
        lock(&self.allowance).set(config.limits);
    }

    /// How many of its calls run at a time.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Takes the estimate of a call, all of it or nothing.
    ///
    /// # Errors
    /// The limit it does not fit into.
    pub fn spend(self: &Arc<Self>, estimate: Need) -> Result<Spending, Refusal> {
        let taken = lock(&self.allowance).take(moment(), estimate)?;
        Ok(Spending { caller: self.clone(), state: Some(taken) })
    }

    /// Its limits a minute: requests, tokens.
    pub fn shown(&self) -> [Option<Shown>; 2] {
        let now = clock::now();
        let mut allowance = lock(&self.allowance);
        [allowance.requests(now), allowance.tokens(now)]
    }
}

/// What a call has taken of its caller's limits. Dropped, it is given back as if the call had not come.
#[must_use = "what is dropped is given back"]
pub struct Spending {
    caller: Arc<CallerCell>,
    state: Option<Taken>,
}

impl Spending {
    /// The call has ended, and this is what it was.
    pub fn settle(mut self, real: Need) {
        if let Some(taken) = self.state.take() {
            lock(&self.caller.allowance).settle(moment(), taken, real);
        }
    }
}

impl Drop for Spending {
    fn drop(&mut self) {
        if let Some(taken) = self.state.take() {
            lock(&self.caller.allowance).give_back(moment(), taken);
        }
    }
}

fn moment() -> Now {
    let wall = clock::wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Now { at: clock::now(), wall }
}
