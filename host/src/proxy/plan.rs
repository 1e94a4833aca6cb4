//! Planning: how each target stands, what the routers say, and what a client is told when nobody is left.

use std::time::{Duration, Instant};

use sluice_core::facts::Candidate;
use sluice_core::kind::{FailureKind, Role};
use sluice_core::machine::Course;
use sluice_core::plan::{NoTarget, Plan, Standing};

use super::call::Call;
use super::error::Failure;
use super::fit::{self, Lack};
use super::judge::Judged;
use crate::generation::Target;
use crate::state::{Able, AsideState};
use crate::telemetry::decisions::ScoreRow;
use crate::telemetry::record;

/// What the plan of a call said.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Positions in the order they are to be tried.
    pub order: Vec<usize>,
    /// The one that counts as first choice.
    pub first_choice: Option<usize>,
    /// The largest context that the call did not fit into. Whatever fails after that, it fits into none that is not larger.
    pub outgrown: Option<u32>,
}

impl Choice {
    /// First choice or not.
    pub fn role(&self, position: usize) -> Role {
        if self.first_choice == Some(position) { Role::Primary } else { Role::Fallback }
    }

    /// The call did not fit into the context of a target. Of one that declares none nobody is known to be larger.
    pub fn outgrows(&mut self, target: &Target) {
        self.outgrown = self.outgrown.max(target.config.target.facts.context.or(Some(u32::MAX)));
    }
}

/// Why a target cannot take a call now.
enum Blocked {
    Open(Option<Instant>),
    Cooling(Instant, FailureKind),
    Aside(Instant, AsideState),
}

impl Blocked {
    fn of(target: &Target, now: Instant) -> Option<Self> {
        match target.cell.able(now) {
            Able::Open { until } => Some(Self::Open(until)),
            Able::Cooling { until, kind } => Some(Self::Cooling(until, kind)),
            Able::Yes | Able::Probe => {
                target.upstream.all_aside(now).map(|aside| Self::Aside(aside.until, aside.state))
            }
        }
    }

    fn until(&self) -> Option<Instant> {
        match self {
            Self::Open(until) => *until,
            Self::Cooling(until, _) | Self::Aside(until, _) => Some(*until),
        }
    }

    /// The failure it stands for, where that is known.
    fn kind(&self) -> Option<FailureKind> {
        match self {
            Self::Open(_) => None,
            Self::Cooling(_, kind) => Some(*kind),
            Self::Aside(_, state) => Some(state.kind()),
        }
    }

    fn by_rate_limit(&self) -> bool {
        matches!(
            self,
            Self::Cooling(_, FailureKind::RetryableRateLimit | FailureKind::QuotaExhausted)
                | Self::Aside(_, AsideState::RateLimited | AsideState::Quota)
        )
    }
}

impl std::fmt::Display for Blocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open(_) => f.write_str("its breaker is open"),
            Self::Cooling(_, kind) => write!(f, "it is cooling after {kind}"),
            Self::Aside(_, state) => write!(f, "all its credentials are set aside after {}", state.kind()),
        }
    }
}

/// Whether a target can take a call now.
pub(super) fn is_free(target: &Target, now: Instant) -> bool {
    Blocked::of(target, now).is_none()
}

impl Call {
    /// Makes the plan, once, before the first attempt.
    ///
    /// # Errors
    /// When there is nobody to try.
    pub async fn plan(&mut self, now: Instant) -> Result<(), Failure> {
        if self.route.policy.denies() {
            return Err(Failure::PluginDenied);
        }
        let blocked: Vec<Option<Blocked>> = self.route.targets.iter().map(|t| Blocked::of(t, now)).collect();
        let standing = |(position, blocked): (usize, &Option<Blocked>)| match blocked {
            _ if !self.lacks(position).is_empty() => Standing::Unfit,
            Some(_) => Standing::Unable,
            None => Standing::Able,
        };
        let standings: Vec<Standing> = blocked.iter().enumerate().map(standing).collect();
        let able: Vec<usize> = (0..standings.len()).filter(|&i| standings[i] == Standing::Able).collect();
        let mut scores = vec![None; standings.len()];
        for (&position, score) in able.iter().zip(self.scores(&able, true, now).await?) {
            scores[position] = score;
        }
        let plan = Plan::new(&standings, &scores);
        self.choice.first_choice = plan.first_choice;
        self.choice.order = plan.order;
        for (position, standing) in standings.iter().enumerate() {
            if *standing == Standing::Unable {
                self.ledger.skipped(self.target(position));
            }
        }
        // Also where the upstream wants no credential and still refused us: a switch would hide either.
        if let Some(position) = plan.first_choice
            && let Some(blocked) = &blocked[position]
        {
            let last = self.target(position).cell.last_failure_kind();
            self.ledger.first_choice_left_out(blocked.kind().or(last));
        }
        let denied = |p: usize| {
            matches!(
                blocked[p],
                Some(Blocked::Aside(_, AsideState::Denied) | Blocked::Cooling(_, FailureKind::AuthDenied))
            )
        };
        if plan.first_choice.is_some_and(denied) {
            return Err(Failure::CredentialDenied);
        }
        if self.choice.order.is_empty() {
            return Err(match Plan::why_empty(&standings) {
                NoTarget::Unfit => self.no_capable_target(),
                NoTarget::Excluded => Failure::ExcludedByPolicy,
                NoTarget::Unable => self.nobody(now),
            });
        }
        Ok(())
    }

    /// The position to try next. After a failed attempt, the routers are asked again when there is still
    /// something to choose.
    pub async fn next_position(
        &mut self,
        course: &Course<Judged>,
        now: Instant,
    ) -> Result<Option<usize>, Failure> {
        // Without a failure it is no switch: the first attempt is made whatever is left.
        let may = |p: &usize| match course.last() {
            None => course.is_untried(*p) && is_free(self.target(*p), now),
            Some(_) => self.may_switch_to(*p, course, now),
        };
        let mut order = self.choice.order.iter().copied();
        if self.ledger.attempts() == 0 {
            // What routers said of them still holds: nobody is asked again before something was tried.
            return Ok(order.find(may));
        }
        let mut left: Vec<usize> = order.filter(may).collect();
        if self.route.policy.asks_routers(left.len()) {
            let scores = Box::pin(self.scores(&left, false, now)).await?;
            let mut scored: Vec<(usize, f64)> =
                left.iter().copied().zip(scores).filter_map(|(p, s)| Some((p, s?))).collect();
            scored.sort_by(|a, b| b.1.total_cmp(&a.1));
            let scored: Vec<usize> = scored.into_iter().map(|(p, _)| p).collect();
            // What is excluded now stays excluded when it alone is left, and nobody is asked.
            self.choice.order.retain(|p| !left.contains(p) || scored.contains(p));
            left = scored;
        }
        Ok(left.first().copied())
    }

    /// A score for each position; all equal where nobody is asked.
    async fn scores(
        &mut self,
        positions: &[usize],
        first: bool,
        now: Instant,
    ) -> Result<Vec<Option<f64>>, Failure> {
        if !self.route.policy.asks_routers(positions.len()) {
            return Ok(vec![Some(1.0); positions.len()]);
        }
        let candidates: Vec<Candidate> =
            positions.iter().map(|&p| self.target(p).cell.candidate_numbers(now)).collect();
        let moment = self.ledger.moment(self.ledger.attempts() + 1, now);
        let asked = self.route.policy.rank(&self.ledger.facts, moment, &candidates).await;
        let (ranking, denied) = self.ledger.note_asked(asked);
        let key = |i: usize| self.route.targets[positions[i]].config.target.key.clone();
        if first {
            let row = |(i, facts): (usize, Candidate)| record::Choice {
                target: key(i),
                score: ranking.scores.get(i).copied().flatten(),
                reason: ranking.votes.iter().find_map(|(_, votes)| votes.get(i)?.reason.clone()),
                facts,
            };
            self.ledger.choices = Some(candidates.into_iter().enumerate().map(row).collect());
        }
        for (router, votes) in ranking.votes {
            self.ledger.decision.scores.extend(votes.into_iter().enumerate().map(|(i, vote)| ScoreRow {
                target: key(i),
                router: router.clone(),
                score: vote.score,
                reason: vote.reason,
            }));
        }
        if denied {
            return Err(Failure::PluginDenied);
        }
        let mut scores = ranking.scores;
        scores.resize(positions.len(), None);
        Ok(scores)
    }

    /// What a client is told when every target that fits is open, cooling or without credential.
    pub fn nobody(&self, now: Instant) -> Failure {
        let blocked: Vec<Blocked> = self.fit().filter_map(|p| Blocked::of(self.target(p), now)).collect();
        let first = blocked.iter().filter_map(Blocked::until).min().map(|until| until - now.min(until));
        // A probe that is out may end any moment, and a target that is free again may be tried now.
        let soon = blocked.is_empty() || blocked.iter().any(|b| b.until().is_none());
        let wait = if soon { Some(Duration::ZERO) } else { first };
        if !blocked.is_empty() && blocked.iter().all(Blocked::by_rate_limit) {
            Failure::RateLimited { wait }
        } else {
            Failure::NoHealthyTarget { wait }
        }
    }

    /// Why a target cannot take the call now, in words: what it lacks for good, else what keeps it off at the moment.
    pub fn left_out(&self, position: usize, now: Instant) -> Vec<String> {
        let lacks = self.lacks(position);
        if lacks.is_empty() {
            Blocked::of(self.target(position), now).iter().map(Blocked::to_string).collect()
        } else {
            lacks.iter().map(Lack::to_string).collect()
        }
    }

    /// The positions of the targets that can take the call, now or later.
    fn fit(&self) -> impl Iterator<Item = usize> {
        (0..self.route.targets.len()).filter(|&position| self.lacks(position).is_empty())
    }

    fn lacks(&self, position: usize) -> Vec<Lack> {
        fit::lacks(&self.target(position).config, position > 0, &self.ledger.facts)
    }

    fn no_capable_target(&self) -> Failure {
        let exposed = self.ledger.generation().config.tags.expose_upstream;
        let all: Vec<(String, Vec<Lack>)> = (0..self.route.targets.len())
            .map(|position| {
                let key = &self.target(position).config.target.key;
                let name = if exposed { key.to_string() } else { format!("target {}", position + 1) };
                (name, self.lacks(position))
            })
            .collect();
        let lacks = fit::told(all.iter().map(|(name, lacks)| (name.clone(), lacks.as_slice())));
        Failure::NoCapableTarget { lacks }
    }

    /// Until the first target that can take the call may be tried again; zero: one may be now.
    pub fn wait_for_first(&self, now: Instant) -> Duration {
        let until = |t: &Target| match Blocked::of(t, now) {
            None => Some(now),
            Some(blocked) => blocked.until(),
        };
        self.fit()
            .filter_map(|p| until(self.target(p)))
            .min()
            .map_or_else(Default::default, |at| at - now.min(at))
    }
}
