//! What follows a failure: another try at the same target, the next target, or the end.
//!
//! A verdict advises; the rules here are the host's own and no advice bends them: switches and retries are
//! counted, nothing starts that the deadline cannot hold, storms are stopped by the retry budget.

use std::time::Duration;

use crate::kind::FailureKind;
use crate::verdict::{Action, Verdict};

/// Where a request stands when an attempt has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation {
    /// Left until the deadline.
    pub left: Duration,
    /// Switches that may still be made.
    pub switches_left: u32,
    /// Retries of the failed target that its route still allows, by what failed.
    pub retries_left: RetriesLeft,
    /// Longest wait that is sat out.
    pub wait_max: Duration,
    /// Pause before a retry that names none.
    pub pause: Duration,
    /// An unused credential of the same upstream is there.
    pub other_credential: bool,
    /// The retry budget would allow one more.
    pub budget_allows: bool,
    /// The request may be kept waiting. Not any more where the gateway goes down.
    pub may_wait: bool,
    /// There is a target that was not tried, is able now and [may follow](may_follow).
    pub next: bool,
}

/// Same-target retries that are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetriesLeft {
    /// After a rate limit with a hint.
    pub rate_limit: u32,
    /// After any other failure.
    pub upstream: u32,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The same target after a pause, with another credential or the same.
    Retry {
        /// Pause before it.
        after: Duration,
        /// Which allowance pays for it.
        paid_by: RetryAllowance,
    },
    /// The next target.
    Switch,
    /// The failure is the answer.
    End {
        /// The retry budget alone stood in the way.
        budget_denied: bool,
    },
}

/// Which allowance a retry uses up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAllowance {
    /// Each credential once.
    Credential,
    /// `retry.rate_limit`.
    RateLimit,
    /// `retry.upstream`.
    Upstream,
}

/// Whether retries and switches after this kind come out of the retry budget.
pub const fn takes_from_budget(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::RetryableTimeout | FailureKind::RetryableRateLimit | FailureKind::RetryableUpstream
    )
}

/// Whether a request may switch to a target, by what the target needs of the time that is left, and by its declared context
/// against the largest one that this request did not fit into. Who declares none is not known to have more.
pub fn may_follow(left: Duration, min_budget: Duration, context: Option<u32>, outgrown: Option<u32>) -> bool {
    left >= min_budget && outgrown.is_none_or(|outgrown| context.is_some_and(|context| context > outgrown))
}

/// Decides. Pure: what is chosen is paid for by the caller.
pub fn next(verdict: &Verdict, at: &Situation) -> Next {
    let may_pay = at.budget_allows || !takes_from_budget(verdict.kind);
    if let Some(retry) = retry(verdict, at) {
        return if may_pay { retry } else { Next::End { budget_denied: true } };
    }
    if verdict.action == Action::GiveUp || at.switches_left == 0 || !at.next {
        return Next::End { budget_denied: false };
    }
    if may_pay { Next::Switch } else { Next::End { budget_denied: true } }
}

/// Whether a limit of the attempt that fires now has anywhere to switch to; if not, the attempt goes on.
pub fn could_switch(at: &Situation) -> bool {
    at.budget_allows && at.switches_left > 0 && at.next
}

fn retry(verdict: &Verdict, at: &Situation) -> Option<Next> {
    let Action::RetrySame(wait) = verdict.action else { return None };
    let by_credential = matches!(
        verdict.kind,
        FailureKind::QuotaExhausted | FailureKind::AuthDenied | FailureKind::RetryableRateLimit
    ) && at.other_credential;
    let (after, paid_by) = match verdict.kind {
        _ if by_credential => (Duration::ZERO, RetryAllowance::Credential),
        FailureKind::QuotaExhausted | FailureKind::AuthDenied => return None,
        FailureKind::RetryableRateLimit => {
            let wait = wait.filter(|wait| *wait <= at.wait_max && at.retries_left.rate_limit > 0)?;
            (wait, RetryAllowance::RateLimit)
        }
        _ if at.retries_left.upstream > 0 => (wait.unwrap_or(at.pause), RetryAllowance::Upstream),
        _ => return None,
    };
    // A pause that the deadline would cut short is not begun. `min_budget` is for switches only.
    let fits = after < at.left && (at.may_wait || after.is_zero());
    fits.then_some(Next::Retry { after, paid_by })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::FailureKind as K;
    use crate::verdict::BreakerEffect;
    use RetryAllowance::{Credential, RateLimit, Upstream};
    use proptest::prelude::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn verdict(kind: K, action: Action) -> Verdict {
        Verdict { kind, action, breaker: BreakerEffect::Count, cool_down: None, client_status: None }
    }

    const AT: Situation = Situation {
        left: ms(5000),
        switches_left: 1,
        retries_left: RetriesLeft { rate_limit: 0, upstream: 0 },
        wait_max: ms(5000),
        pause: ms(200),
        other_credential: false,
        budget_allows: true,
        may_wait: true,
        next: true,
    };

    const END: Next = Next::End { budget_denied: false };
    const DENIED: Next = Next::End { budget_denied: true };

    const SAME: Action = Action::RetrySame(None);
    const ONE: RetriesLeft = RetriesLeft { rate_limit: 1, upstream: 1 };

    const fn hint(wait: u64) -> Action {
        Action::RetrySame(Some(ms(wait)))
    }

    const fn retry(after: u64, paid_by: RetryAllowance) -> Next {
        Next::Retry { after: ms(after), paid_by }
    }

    /// Cases of: what it is, kind of the failure, what the classifier wants, how it stands, what follows.
    const RULES: &[(&str, K, Action, Situation, Next)] = &[
        ("switch", K::RetryableUpstream, Action::Switch, AT, Next::Switch),
        ("no switch left", K::RetryableUpstream, Action::Switch, Situation { switches_left: 0, ..AT }, END),
        ("nobody left", K::RetryableUpstream, Action::Switch, Situation { next: false, ..AT }, END),
        ("storm", K::RetryableUpstream, Action::Switch, Situation { budget_allows: false, ..AT }, DENIED),
        (
            "free of the budget",
            K::ModelUnavailable,
            Action::Switch,
            Situation { budget_allows: false, ..AT },
            Next::Switch,
        ),
        ("give up", K::InvalidRequest, Action::GiveUp, AT, END),
        ("no retries: switch", K::RetryableUpstream, SAME, AT, Next::Switch),
        ("retry", K::RetryableUpstream, SAME, Situation { retries_left: ONE, ..AT }, retry(200, Upstream)),
        (
            "retry would not fit",
            K::RetryableUpstream,
            SAME,
            Situation { retries_left: ONE, left: ms(200), ..AT },
            Next::Switch,
        ),
        (
            "retry that just fits, whatever a switch would need",
            K::RetryableUpstream,
            SAME,
            Situation { retries_left: ONE, left: ms(201), next: false, ..AT },
            retry(200, Upstream),
        ),
        (
            "no pause while going down",
            K::RetryableUpstream,
            SAME,
            Situation { retries_left: ONE, may_wait: false, ..AT },
            Next::Switch,
        ),
        (
            "no pause while going down, and nobody else",
            K::RetryableRateLimit,
            hint(1000),
            Situation { retries_left: ONE, may_wait: false, next: false, ..AT },
            END,
        ),
        (
            "another credential takes no pause",
            K::RetryableRateLimit,
            hint(1000),
            Situation { other_credential: true, may_wait: false, ..AT },
            retry(0, Credential),
        ),
        (
            "hint",
            K::RetryableRateLimit,
            hint(1000),
            Situation { retries_left: ONE, ..AT },
            retry(1000, RateLimit),
        ),
        (
            "hint too long",
            K::RetryableRateLimit,
            hint(5001),
            Situation { retries_left: ONE, ..AT },
            Next::Switch,
        ),
        (
            "hint past the deadline",
            K::RetryableRateLimit,
            hint(5000),
            Situation { retries_left: ONE, ..AT },
            Next::Switch,
        ),
        ("hint not waited out", K::RetryableRateLimit, hint(1000), AT, Next::Switch),
        (
            "other credential first",
            K::RetryableRateLimit,
            hint(9000),
            Situation { other_credential: true, ..AT },
            retry(0, Credential),
        ),
        (
            "quota, other credential",
            K::QuotaExhausted,
            SAME,
            Situation { other_credential: true, budget_allows: false, ..AT },
            retry(0, Credential),
        ),
        ("quota, none", K::QuotaExhausted, SAME, AT, Next::Switch),
    ];

    #[test]
    fn the_hosts_rules() {
        for (name, kind, action, at, expected) in RULES {
            assert_eq!(next(&verdict(*kind, *action), at), *expected, "{name}");
        }
    }

    #[test]
    fn who_may_follow() {
        let cases = [
            ("nothing is asked of it", 5000, None, None, true),
            ("too late", 99, None, None, false),
            ("just in time", 100, None, None, true),
            ("larger", 5000, Some(4001), Some(4000), true),
            ("no larger", 5000, Some(4000), Some(4000), false),
            ("not known to be larger", 5000, None, Some(4000), false),
            ("larger, and too late", 99, Some(4001), Some(4000), false),
        ];
        for (name, left, context, outgrown, expected) in cases {
            assert_eq!(may_follow(ms(left), ms(100), context, outgrown), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn nothing_starts_that_the_deadline_cannot_hold(
            kind in prop::sample::select(K::ALL.to_vec()), wait in prop::option::of(0u64..9000), left in 0u64..6000,
            retries in 0u32..3, switches in 0u32..3, other in any::<bool>(), allows in any::<bool>(), may_wait in any::<bool>(), next_there in any::<bool>(), which in 0..3,
        ) {
            let action = match which { 0 => Action::GiveUp, 1 => Action::Switch, _ => Action::RetrySame(wait.map(ms)) };
            let at = Situation {
                left: ms(left), retries_left: RetriesLeft { rate_limit: retries, upstream: retries },
                switches_left: switches, other_credential: other, budget_allows: allows, may_wait, next: next_there, ..AT
            };
            match next(&verdict(kind, action), &at) {
                Next::Retry { after, .. } => prop_assert!(
                    after < at.left && (may_wait || after.is_zero()) && action != Action::GiveUp
                ),
                Next::Switch => prop_assert!(switches > 0 && next_there && action != Action::GiveUp),
                Next::End { budget_denied } => prop_assert!(!budget_denied || !allows),
            }
        }
    }
}
