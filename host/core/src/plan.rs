//! Which targets of a route can take a call, which of them is the first choice, and in what order they are
//! tried. Scores are the routers'; who may be scored at all is decided here.

use crate::kind::Role;

/// How one target of a route stands when the plan is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It can take the call now.
    Able,
    /// It could serve such a call, but not now: open, cooling, without credential.
    Unable,
    /// It can never serve such a call: capabilities, context, tasks.
    Unfit,
}

/// The order of a call's targets, by position in the route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Targets in the order they are to be tried.
    pub order: Vec<usize>,
    /// The target that counts as first choice; none when no target is fit and not excluded.
    pub first_choice: Option<usize>,
}

/// Why no plan has a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoTarget {
    /// No target of the route fits the call.
    Unfit,
    /// Routers excluded all that fit.
    Excluded,
    /// Somebody fits whom no router excluded, and all such are open, cooling or without credential.
    Unable,
}

impl Plan {
    /// Orders the able targets by score, ties by configured order. `scores` is by position in the route and
    /// holds a value for each able target that no router excluded; positions that were not asked about are
    /// neither excluded nor able.
    pub fn new(standings: &[Standing], scores: &[Option<f64>]) -> Self {
        let score = |i: usize| scores.get(i).copied().flatten();
        let mut order: Vec<usize> =
            (0..standings.len()).filter(|&i| standings[i] == Standing::Able && score(i).is_some()).collect();
        order.sort_by(|&a, &b| score(b).unwrap_or(0.0).total_cmp(&score(a).unwrap_or(0.0)));
        let someone_left_out = standings.contains(&Standing::Unable);
        let fit = |&i: &usize| match standings[i] {
            Standing::Able => score(i).is_some(),
            Standing::Unable => true,
            Standing::Unfit => false,
        };
        let first_choice =
            if someone_left_out { (0..standings.len()).find(fit) } else { order.first().copied() };
        Self { order, first_choice }
    }

    /// Why the order is empty. Routers are not asked about who is unable, so none of these is excluded: it may
    /// serve the same call later, which a policy that excludes all would not let it.
    pub fn why_empty(standings: &[Standing]) -> NoTarget {
        if standings.contains(&Standing::Unable) {
            NoTarget::Unable
        } else if standings.contains(&Standing::Able) {
            NoTarget::Excluded
        } else {
            NoTarget::Unfit
        }
    }

    /// Whether a target is tried as the first choice or in its place.
    pub fn role(&self, position: usize) -> Role {
        if self.first_choice == Some(position) { Role::Primary } else { Role::Fallback }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Standing::{Able, Unable, Unfit};

    #[test]
    fn order_and_first_choice() {
        let s = Some;
        type Case<'a> = (&'a str, &'a [Standing], &'a [Option<f64>], &'a [usize], Option<usize>);
        let cases: &[Case<'_>] = &[
            ("configured order on a tie", &[Able, Able], &[s(0.5), s(0.5)], &[0, 1], Some(0)),
            ("the head of the plan is the first choice", &[Able, Able], &[s(0.1), s(0.9)], &[1, 0], Some(1)),
            ("an open first target stays the first choice", &[Unable, Able], &[None, s(1.0)], &[1], Some(0)),
            (
                "an open later target: the configured first",
                &[Able, Able, Unable],
                &[s(0.1), s(0.9), None],
                &[1, 0],
                Some(0),
            ),
            ("an unfit target is never first", &[Unfit, Unable, Able], &[None, None, s(1.0)], &[2], Some(1)),
            (
                "an excluded target is never first",
                &[Able, Able, Unable],
                &[None, s(1.0), None],
                &[1],
                Some(1),
            ),
            ("all excluded", &[Able, Able], &[None, None], &[], None),
            ("nobody able", &[Unable, Unable], &[None, None], &[], Some(0)),
        ];
        for (name, standings, scores, order, first) in cases {
            let plan = Plan::new(standings, scores);
            assert_eq!((plan.order.as_slice(), plan.first_choice), (*order, *first), "{name}");
        }
    }

    #[test]
    fn why_there_is_nobody() {
        assert_eq!(Plan::why_empty(&[Unfit, Unfit]), NoTarget::Unfit);
        assert_eq!(Plan::why_empty(&[Unfit, Unable]), NoTarget::Unable);
        assert_eq!(Plan::why_empty(&[Able, Unfit]), NoTarget::Excluded);
        // Who is merely open was not excluded: the call may be made again when it is back.
        assert_eq!(Plan::why_empty(&[Able, Unable]), NoTarget::Unable);
    }
}
