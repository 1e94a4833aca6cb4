//! stub
use sluice_core::facts::*;
#[derive(Clone)]
pub struct Policy;
impl Policy {
    pub async fn rank(&self, _: &RequestFacts, _: Moment, c: &[Candidate]) -> Asked<Ranking> { Asked { advice: Ranking { scores: vec![Some(1.0); c.len()], votes: vec![] }, by: vec![], denied: false } }
    pub async fn judge(&self, _: &RequestFacts, _: Moment, f: &FailureFacts) -> Asked<Judgement> { let _ = f; unimplemented!() }
    pub async fn tag(&self, _: &RequestFacts, _: Moment, _: &AnswerFacts) -> Asked<Vec<Tag>> { Asked { advice: vec![], by: vec![], denied: false } }
    pub fn wants_record_tags(&self) -> bool { false }
}
pub fn policy_line(_: u64, _: &[PluginRef]) -> String { String::new() }
