//! The seam between the life of a request and the plugins.
//!
//! A request asks three questions: which target is best, what does this failure mean, what is written on the
//! answer. Who answers is decided here: the plugins of the folder, the bundled policy in the place of one
//! that fails, and, if even that cannot, the host's own last resort. An answer always comes.

mod last_resort;
mod lineup;
mod tags;

use std::fmt::Write as _;
use std::sync::Arc;

use sluice_core::facts::{
    AnswerFacts, Asked, Candidate, FailureFacts, Judgement, Moment, PluginKind, PluginRef, Ranking,
    RequestFacts, Tag, TagPhase, Vote,
};

use crate::plugin::{Ask, CallError, LogLevel, LogLine, LogSource, OnError, Plugin, PluginSet, Said};
use lineup::Lineup;

/// The policy of one generation for one route. Cheap to clone; a request keeps the one it began with.
#[derive(Debug, Clone)]
pub struct Policy {
    set: Arc<PluginSet>,
    lineup: Arc<Lineup>,
    generation: u64,
    /// What [`Policy::line`] says when each router has answered and nothing has failed.
    usual_line: Arc<str>,
}

/// How one plugin fared that was asked for a `T`.
enum Answer<T> {
    Said(T),
    Failed,
    Denied,
}

impl Policy {
    /// The policy of `set` as generation `generation`, for routes that ask whoever is there.
    pub fn new(set: Arc<PluginSet>, generation: u64) -> Self {
        Self::with(Lineup::new(&set, |_| None), set, generation)
    }

    fn with(lineup: Lineup, set: Arc<PluginSet>, generation: u64) -> Self {
        let routers =
            lineup.of(PluginKind::Router).iter().map(|router| Named::new(router, PluginKind::Router));
        let usual_line = policy_line(generation, routers.chain(lineup.taggers(true))).into();
        Self { lineup: Arc::new(lineup), set, generation, usual_line }
    }

    /// The same for a route with lists of its own: the names of the plugins of a kind that it asks, in that order,
    /// or none for whoever is there.
    #[must_use]
    pub fn listed<'a>(&self, list: impl Fn(PluginKind) -> Option<&'a [Arc<str>]>) -> Self {
        Self::with(Lineup::new(&self.set, list), self.set.clone(), self.generation)
    }

    /// Number of the generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The plugins behind it.
    pub fn set(&self) -> &Arc<PluginSet> {
        &self.set
    }

    /// Whether the bundled plugin of a kind is one of those that are asked.
    pub fn asks_bundled(&self, kind: PluginKind) -> bool {
        self.lineup.of(kind).iter().any(|plugin| is_bundled(plugin))
    }

    /// Whether any router is asked about so many candidates. With one there is nothing to choose, but a router that
    /// must decide may exclude it.
    pub fn asks_routers(&self, candidates: usize) -> bool {
        candidates > 1 || (candidates == 1 && self.routers(1).next().is_some())
    }

    fn routers(&self, candidates: usize) -> impl Iterator<Item = &Arc<Plugin>> {
        let all = self.lineup.of(PluginKind::Router).iter();
        all.filter(move |router| candidates > 1 || router.options().on_error == OnError::Deny)
    }

    /// Which candidate is best. Only those that must decide are asked when there is nothing to choose.
    pub async fn rank(
        &self,
        request: &RequestFacts,
        moment: Moment,
        candidates: &[Candidate],
    ) -> Asked<Ranking> {
        let mut asked =
            nobody_asked(Ranking { scores: vec![Some(0.0); candidates.len()], votes: Vec::new() });
        asked.denied = self.denies();
        if asked.denied {
            return asked;
        }
        let question = Ask::Score(request, moment, candidates);
        // Where among the votes those of the bundled router are, once it was asked.
        let mut in_place: Option<usize> = None;
        for plugin in self.routers(candidates.len()) {
            // None: the bundled router's are taken, in its own place or in that of one that failed.
            let own = match is_bundled(plugin) {
                true => None,
                false => match self.put(plugin, question, &mut asked.by, Said::votes).await {
                    Answer::Said(votes) => Some((plugin.name().clone(), votes)),
                    Answer::Failed => None,
                    Answer::Denied => {
                        asked.denied = true;
                        return asked;
                    }
                },
            };
            let (name, votes) = match (own, in_place) {
                (Some(own), _) => own,
                (None, Some(at)) => asked.advice.votes[at].clone(),
                (None, None) => {
                    in_place = Some(asked.advice.votes.len());
                    self.bundled_votes(question, candidates.len(), &mut asked.by).await
                }
            };
            add(&mut asked.advice, plugin.options().weight, name, votes);
        }
        asked
    }

    /// What a failure means: the first classifier with an opinion, the bundled one last.
    pub async fn judge(
        &self,
        request: &RequestFacts,
        moment: Moment,
        failure: &FailureFacts,
    ) -> Asked<Judgement> {
        let mut asked = nobody_asked(Judgement { verdict: last_resort::verdict(failure), by: None });
        let question = Ask::Classify(request, moment, failure);
        for plugin in self.lineup.of(PluginKind::Classifier) {
            match self.put(plugin, question, &mut asked.by, Said::verdict).await {
                Answer::Said(Some(verdict)) => {
                    asked.advice = Judgement { verdict, by: Some(plugin.name().clone()) };
                    return asked;
                }
                Answer::Denied => {
                    asked.denied = true;
                    return asked;
                }
                Answer::Said(None) | Answer::Failed => {}
            }
        }
        self.set.watch().last_resort(PluginKind::Classifier);
        asked
    }

    /// What is written on the answer, or, in the record phase, into the record. Every tag is one that may be
    /// written as it is: header values are visible ASCII, and a tag for both sinks comes as two.
    pub async fn tag(&self, request: &RequestFacts, moment: Moment, answer: &AnswerFacts) -> Asked<Vec<Tag>> {
        let mut asked = nobody_asked(Vec::new());
        let question = Ask::Tag(request, moment, answer);
        let head = answer.phase == TagPhase::Head;
        let (mut in_place, mut bundled_asked) = (false, false);
        for plugin in self.lineup.of(PluginKind::Tagger).iter().filter(|plugin| plugin.wants_tags(head)) {
            if is_bundled(plugin) {
                bundled_asked = true;
                self.bundled_tags(question, head, &mut asked).await;
                continue;
            }
            match self.put(plugin, question, &mut asked.by, Said::tags).await {
                Answer::Said(tags) => self.accept(plugin, tags, head, &mut asked.advice),
                Answer::Denied => {
                    asked.denied = true;
                    return asked;
                }
                Answer::Failed => in_place = true,
            }
        }
        if in_place && !bundled_asked && self.set.bundled(PluginKind::Tagger).wants_tags(head) {
            self.bundled_tags(question, head, &mut asked).await;
        }
        asked
    }

    /// What the bundled tagger alone writes on the head of an answer: on the refusal that follows when a tagger
    /// that must answer could not.
    pub async fn tag_refusal(
        &self,
        request: &RequestFacts,
        moment: Moment,
        answer: &AnswerFacts,
    ) -> Asked<Vec<Tag>> {
        let mut asked = nobody_asked(Vec::new());
        self.bundled_tags(Ask::Tag(request, moment, answer), true, &mut asked).await;
        asked
    }

    async fn bundled_tags(&self, question: Ask<'_>, head: bool, asked: &mut Asked<Vec<Tag>>) {
        let bundled = self.set.bundled(PluginKind::Tagger);
        match self.put(bundled, question, &mut asked.by, Said::tags).await {
            Answer::Said(tags) => self.accept(bundled, tags, head, &mut asked.advice),
            Answer::Failed | Answer::Denied => self.set.watch().last_resort(PluginKind::Tagger),
        }
    }

    /// Whether anybody wants to be asked at the end of a request.
    pub fn wants_record_tags(&self) -> bool {
        self.lineup.of(PluginKind::Tagger).iter().any(|plugin| plugin.wants_tags(false))
    }

    /// A plugin that must decide does not run, so that every request is refused.
    pub fn denies(&self) -> bool {
        self.lineup.denies()
    }

    /// The value of `x-sluice-policy`: those that were asked so far, and the taggers that are about to be.
    pub fn line(&self, asked: &[PluginRef], head: bool) -> Arc<str> {
        let routers = self.lineup.of(PluginKind::Router);
        let is = |(asked, router): (&PluginRef, &Arc<Plugin>)| {
            asked.kind == PluginKind::Router
                && Arc::ptr_eq(&asked.name, router.name())
                && Arc::ptr_eq(&asked.digest, router.digest())
        };
        // Nearly every answer; its line need not be written again.
        if head && asked.len() == routers.len() && asked.iter().zip(routers).all(is) {
            return self.usual_line.clone();
        }
        policy_line(self.generation, asked.iter().map(Named::from).chain(self.lineup.taggers(head))).into()
    }

    /// Asks one plugin. One that is set aside is not asked and does not appear among those that were.
    /// `read` takes from what is said the answer to such a question.
    async fn put<T>(
        &self,
        plugin: &Plugin,
        question: Ask<'_>,
        by: &mut Vec<PluginRef>,
        read: impl FnOnce(Said) -> Option<T>,
    ) -> Answer<T> {
        let outcome = plugin.ask(question).await;
        if !matches!(outcome, Err(CallError::SetAside)) {
            by.push(plugin.named(question.kind()));
        }
        match outcome.ok().and_then(read) {
            Some(said) => Answer::Said(said),
            None if plugin.options().on_error == OnError::Deny => Answer::Denied,
            None => Answer::Failed,
        }
    }

    async fn bundled_votes(
        &self,
        question: Ask<'_>,
        candidates: usize,
        by: &mut Vec<PluginRef>,
    ) -> (Arc<str>, Vec<Vote>) {
        let bundled = self.set.bundled(PluginKind::Router);
        if let Answer::Said(votes) = self.put(bundled, question, by, Said::votes).await {
            return (bundled.name().clone(), votes);
        }
        self.set.watch().last_resort(PluginKind::Router);
        ("last-resort".into(), last_resort::votes(candidates))
    }

    /// Takes the tags that may be written.
    fn accept(&self, plugin: &Plugin, new: Vec<Tag>, head: bool, all: &mut Vec<Tag>) {
        all.reserve(new.len());
        for tag in new {
            if let Err(refused) = tags::accept(tag, head, all) {
                self.set.watch().log_line(&LogLine {
                    plugin: plugin.name(),
                    digest: plugin.digest(),
                    source: LogSource::Host,
                    level: LogLevel::Warn,
                    text: &refused.to_string(),
                });
            }
        }
    }
}

const fn nobody_asked<T>(advice: T) -> Asked<T> {
    Asked { advice, by: Vec::new(), denied: false }
}

/// One of the binary, as opposed to one of the folder.
fn is_bundled(plugin: &Plugin) -> bool {
    plugin.file().is_none()
}

/// Adds the votes of one router. A candidate that any of them excludes stays excluded.
fn add(ranking: &mut Ranking, weight: f64, name: Arc<str>, votes: Vec<Vote>) {
    for (sum, vote) in ranking.scores.iter_mut().zip(&votes) {
        *sum = match (*sum, vote.score) {
            (Some(sum), Some(score)) => Some(sum + weight * score),
            (None, _) | (_, None) => None,
        };
    }
    ranking.votes.push((name, votes));
}

/// A plugin as the policy line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'a> {
    /// What it was asked for.
    pub kind: PluginKind,
    /// Its name.
    pub name: &'a str,
    /// SHA-256 of its bytes, in hex.
    pub digest: &'a str,
}

impl<'a> Named<'a> {
    fn new(plugin: &'a Plugin, kind: PluginKind) -> Self {
        Self { kind, name: plugin.name(), digest: plugin.digest() }
    }
}

impl<'a> From<&'a PluginRef> for Named<'a> {
    fn from(plugin: &'a PluginRef) -> Self {
        Self { kind: plugin.kind, name: &plugin.name, digest: &plugin.digest }
    }
}

/// The value of `x-sluice-policy`: `g7 router=NAME@8hex classifier=… tagger=…`, those that were asked, each
/// once.
pub fn policy_line<'a>(generation: u64, asked: impl Iterator<Item = Named<'a>> + Clone) -> String {
    let mut line = String::with_capacity(128);
    // Writing to a string cannot fail.
    let _ = write!(line, "g{generation}");
    for kind in PluginKind::ALL {
        for (at, plugin) in asked.clone().enumerate().filter(|(_, plugin)| plugin.kind == kind) {
            if asked.clone().take(at).any(|before| before == plugin) {
                continue;
            }
            let digest = plugin.digest.get(..8).unwrap_or(plugin.digest);
            for part in [" ", kind.as_str(), "=", plugin.name, "@", digest] {
                line.push_str(part);
            }
        }
    }
    line
}

#[cfg(test)]
mod tests;
