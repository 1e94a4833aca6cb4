//! From a fault to a verdict, and from the verdict to what breaker, credential and target learn.

use std::time::Instant;

use sluice_core::kind::FailureKind;
use sluice_core::verdict::{Action, BreakerEffect, Verdict};

use super::begin::Attempt;
use super::call::Call;
use super::error::Failure;
use super::fault::Fault;
use crate::generation::Target;
use crate::state::{AsideState, Lease};
use crate::telemetry::decisions::VerdictRow;

/// The verdict on a refusal by one of our own gates. No classifier is asked.
pub(super) fn saturation() -> Verdict {
    Verdict {
        kind: FailureKind::GatewaySaturated,
        action: Action::Switch,
        breaker: BreakerEffect::Ignore,
        cool_down: None,
        client_status: None,
    }
}

/// The verdict on an attempt that ran into a clock of ours.
pub(super) fn own_limit() -> Verdict {
    Verdict {
        kind: FailureKind::RetryableTimeout,
        action: Action::Switch,
        breaker: BreakerEffect::Count,
        cool_down: None,
        client_status: None,
    }
}

/// What a failed attempt came to.
pub(super) struct Judged {
    /// What it means.
    pub verdict: Verdict,
    /// What the client is told if this is the last word.
    pub failure: Failure,
    /// The credential it was made with.
    pub credential: Option<usize>,
}

impl AsRef<Verdict> for Judged {
    fn as_ref(&self) -> &Verdict {
        &self.verdict
    }
}

/// Judges a failed attempt, teaches whoever learns from it, and ends it.
///
/// # Errors
/// When a classifier that must decide could not: the attempt has failed, as far as its status says, and nobody is
/// blamed.
pub(super) async fn judge(
    call: &mut Call,
    attempt: Attempt,
    fault: &Fault,
    now: Instant,
) -> Result<Judged, Failure> {
    let credential = attempt.credential.as_ref().map(Lease::index);
    let verdict = if fault.by_deadline {
        let breaker = if fault.limit_over { BreakerEffect::Count } else { BreakerEffect::Ignore };
        Verdict { action: Action::GiveUp, breaker, ..own_limit() }
    } else {
        ask(call, &attempt, fault, now).await?
    };
    let target_position = attempt.position;
    if verdict.kind == FailureKind::ContextLengthExceeded {
        call.choice.outgrows(&call.route.targets[target_position]);
    }
    teach(call, attempt, &verdict, now);
    call.ledger.attempt_failed(verdict.kind, fault.status, fault.upstream_request_id.clone(), now);
    let mut failure = call.last_fault(fault, &verdict);
    if let Failure::Upstream(last) = &mut failure
        && matches!(last.kind, FailureKind::RetryableRateLimit | FailureKind::QuotaExhausted)
    {
        last.retry_after = Some(call.wait_for_first(now));
    }
    call.target(target_position).cell.observe_failure(verdict.kind);
    Ok(Judged { verdict, failure, credential })
}

async fn ask(call: &mut Call, attempt: &Attempt, fault: &Fault, now: Instant) -> Result<Verdict, Failure> {
    let route = call.route.clone();
    let target = &route.targets[attempt.position];
    let other = call.other_credential(target, attempt.credential.as_ref().map(Lease::index), now);
    let index = u32::try_from(target.config.index).unwrap_or(u32::MAX);
    let facts = fault.facts(index, now.saturating_duration_since(attempt.started), other);
    let moment = call.ledger.moment(attempt.number, now);
    let asked = route.policy.judge(&call.ledger.facts, moment, &facts).await;
    let (judgement, denied) = call.ledger.note_asked(asked);
    call.ledger.decision.verdicts.push(VerdictRow {
        n: attempt.number,
        plugin: judgement.by,
        kind: judgement.verdict.kind,
        action: judgement.verdict.action,
        breaker: judgement.verdict.breaker,
    });
    if denied {
        call.ledger.attempt_failed(
            judgement.verdict.kind,
            fault.status,
            fault.upstream_request_id.clone(),
            now,
        );
        return Err(Failure::PluginDenied);
    }
    Ok(judgement.verdict)
}

/// Ends the attempt with what is learnt from it.
fn teach(call: &mut Call, attempt: Attempt, verdict: &Verdict, now: Instant) {
    let route = call.route.clone();
    let target = &route.targets[attempt.position];
    let credential = attempt.credential.as_ref().map(Lease::index);
    set_aside(call, target, credential, verdict, now);
    let answered = matches!(
        verdict.kind,
        FailureKind::InvalidRequest | FailureKind::ContentFiltered | FailureKind::ContextLengthExceeded
    );
    let our_fault = verdict.kind == FailureKind::AuthDenied
        || (verdict.kind == FailureKind::RetryableTimeout && verdict.breaker == BreakerEffect::Ignore);
    if !our_fault {
        target.cell.observe_result(now, answered);
    }
    if attempt.ticket.is_probe() && verdict.breaker != BreakerEffect::Ignore {
        call.ledger.probe_failed(target, verdict.kind);
    }
    // Quota is the credential's, not the target's, where there is a credential to set aside.
    let of_credential = verdict.kind == FailureKind::QuotaExhausted && credential.is_some();
    match verdict.breaker {
        BreakerEffect::Count => attempt.ticket.failure(now),
        BreakerEffect::Open if !of_credential => attempt.ticket.open(now),
        BreakerEffect::Open | BreakerEffect::Ignore => attempt.ticket.neutral(),
    }
}

/// Sets the credential aside, or cools the target where the failure is not a credential's or there is none.
fn set_aside(call: &mut Call, target: &Target, credential: Option<usize>, verdict: &Verdict, now: Instant) {
    let max = call.ledger.generation().config.breaker.cooldown.max;
    let state = match verdict.kind {
        FailureKind::RetryableRateLimit => Some(AsideState::RateLimited),
        FailureKind::QuotaExhausted => Some(AsideState::Quota),
        FailureKind::AuthDenied => Some(AsideState::Denied),
        _ => None,
    };
    let several = target.config.target.upstream.credentials.len() > 1;
    let until = verdict.cool_down.map(|cool_down| now + cool_down.min(max));
    match (state, credential) {
        (Some(state), Some(index)) if several || state != AsideState::RateLimited => {
            call.failed_credentials.push((target.upstream.name().clone(), index));
            if let Some(until) = until {
                target.upstream.set_aside(index, until, state);
            }
        }
        _ => {
            if let Some(until) = until {
                target.cell.cool(until, verdict.kind);
            }
        }
    }
}
