//! The instances of one plugin: a bounded number runs, those that answered wait for the next call.
//!
//! An instance is taken out for a call and put back only after an answer, so a trap, a deadline or a dropped
//! call is the end of it without any further rule.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::call::{Ask, CallError, Said};
use super::contract::Description;
use super::instance::{Instance, NoInstance, Spec};
use super::options::PluginOptions;
use crate::clock;

/// The instances of one plugin.
pub struct Pool {
    spec: Spec,
    places: Semaphore,
    #[allow(clippy::vec_box, reason = "they move in and out for every call")]
    idle: Mutex<Vec<Box<Instance>>>,
}

impl Pool {
    /// Without any instance yet.
    pub fn new(spec: Spec) -> Self {
        let places =
            usize::try_from(spec.options.concurrency.max(1)).unwrap_or(1).min(Semaphore::MAX_PERMITS);
        Self { spec, places: Semaphore::new(places), idle: Mutex::new(Vec::new()) }
    }

    /// What its instances are made of.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    fn options(&self) -> &PluginOptions {
        &self.spec.options
    }

    /// Makes an instance ahead of the first call.
    pub async fn warm(&self) -> Result<Description, NoInstance> {
        let (instance, description) = Instance::new(&self.spec).await?;
        self.put_back(Box::new(instance));
        Ok(description)
    }

    /// Asks one instance, at most `concurrency` at a time; a further call waits at most its deadline.
    pub async fn ask(&self, ask: Ask<'_>, began: Instant) -> Result<Said, CallError> {
        let deadline = self.options().deadline;
        let (_place, now) = match self.places.try_acquire() {
            Ok(place) => (place, began),
            Err(_) => (Box::pin(self.place()).await?, clock::now()),
        };
        let mut instance = match self.take() {
            Some(instance) if !instance.is_spent(self.options(), now) => instance,
            // Dropped here, in the place of the one that takes over. Boxed, because it is rare and large: every
            // future around this one would have room for it, and be moved with it.
            Some(_) | None => Box::new(Box::pin(Instance::new(&self.spec)).await?.0),
        };
        let said = instance.ask(ask, deadline, now).await?;
        if instance.is_spent(self.options(), now) {
            drop(instance);
        } else {
            self.put_back(instance);
        }
        Ok(said)
    }

    pub(super) async fn place(&self) -> Result<SemaphorePermit<'_>, CallError> {
        if let Ok(place) = self.places.try_acquire() {
            return Ok(place);
        }
        match tokio::time::timeout(self.options().deadline, self.places.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(CallError::Saturated),
        }
    }

    fn take(&self) -> Option<Box<Instance>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put_back(&self, instance: Box<Instance>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(instance);
    }

    /// Lets go of instances that wait and have served long enough: the ones below are not taken for a call
    /// again after a burst, and would keep their place in the engine.
    pub fn sweep(&self, now: Instant) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let spent: Vec<_> = idle.extract_if(.., |instance| instance.is_spent(self.options(), now)).collect();
        drop(idle);
        drop(spent);
    }

    /// Lets go of instances that wait.
    pub fn clear(&self) {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        drop(idle);
    }

    /// Instances alive, running and waiting.
    pub fn live(&self) -> usize {
        self.spec.live.load(Ordering::Relaxed)
    }
}
