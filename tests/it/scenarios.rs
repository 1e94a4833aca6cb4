//! What the sixteen failover scenarios share: a streaming call for sixty words, a primary with one fault, a
//! backup, and three ways in which it may end. A truncated answer shown as success, or a hang, is none of them.
//!
//! Times are those of the scenarios, at a tenth: thirty seconds for an attempt, eight to the first token,
//! ninety for everything.

use std::time::Duration;

use harness::prelude::*;

/// Of every time of a scenario.
const SCALE: f64 = 0.1;
/// Whatever is not over by then hangs: twice the budget.
const HANG: Duration = ms(18_000);
/// Words of the answer, one a token.
const WORDS: usize = 60;

/// Both rules of when a stream is shown.
pub const RULES: [Rule; 2] = [Rule::FirstContent, Rule::Complete];

/// When a stream is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// At its first content.
    FirstContent,
    /// When it has ended well.
    Complete,
}

impl Rule {
    /// A gateway with this rule, and a backup that is well.
    pub async fn start(self, more: impl FnOnce(Setup) -> Setup) -> Case {
        let setup = Setup::new()
            .scale(SCALE)
            .set("/defaults/budget", ms(90_000))
            .set("/defaults/reserve", ms(3000))
            .set("/defaults/connect", ms(20_000))
            .set("/defaults/attempt", ms(30_000))
            .set("/defaults/first_content", ms(8000))
            .set("/defaults/min_budget", ms(4500))
            .set("/defaults/idle", ms(20_000))
            .set("/defaults/retry", json!({"upstream": 2, "rate_limit": 1}))
            .set("/breaker/open", ms(10_000))
            .set("/breaker/open_max", ms(10_000))
            .set("/defaults/commit", if self == Self::Complete { "complete" } else { "first_content" });
        let x = more(setup).start().await;
        x.a.play(whole());
        x.b.play(whole());
        x
    }

    /// A fault that this rule makes good, and the other can only show.
    #[track_caller]
    pub fn after_content(self, r: &Response) {
        judged(r, if self == Self::Complete { Verdict::Whole } else { Verdict::CleanError });
    }
}

/// How an answer may end, and how not.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All sixty words, and a good end.
    Whole,
    /// An error that every client takes for one.
    CleanError,
    /// Anything else that ends: half an answer, or another, that looks whole.
    TruncatedAsSuccess,
    /// It does not end.
    Hang,
}

/// What became of a call.
fn verdict(r: &Response) -> Verdict {
    let told = |error: &Value| error["message"].is_string() && error["type"].is_string();
    match (r.end, r.status) {
        (End::Open, _) => Verdict::Hang,
        (End::Complete, 200) if r.errors().is_empty() => {
            let good = r.dones() == 1 && r.finish().as_deref() == Some("stop") && r.text() == text(WORDS);
            if good { Verdict::Whole } else { Verdict::TruncatedAsSuccess }
        }
        (End::Complete, 200) => {
            let ended = r.dones() > 0 || r.finish().is_some() || r.errors().len() > 1;
            if told(&r.error()) && !ended { Verdict::CleanError } else { Verdict::TruncatedAsSuccess }
        }
        (End::Complete, 400..) if told(&r.error()) => Verdict::CleanError,
        _ => Verdict::TruncatedAsSuccess,
    }
}

/// The call ended so and not otherwise.
#[track_caller]
pub fn judged(r: &Response, want: Verdict) {
    assert_eq!(verdict(r), want, "{r:?}");
}

/// One streaming call that wants to know its usage.
pub async fn ask(x: &Case) -> Response {
    let call = x.call("chat").set("stream_options", json!({"include_usage": true}));
    call.begin().await.finish_within(HANG).await
}

/// The first words of the answer.
pub fn text(words: usize) -> String {
    (1..=words).map(word).collect()
}

fn word(n: usize) -> String {
    format!("word{n} ")
}

/// These tokens, a little apart.
pub fn tokens(from: usize, to: usize) -> Vec<Step> {
    (from..=to).flat_map(|n| [TXT(&word(n)), SLEEP(20)]).collect()
}

/// The role and the first tokens.
pub fn begun(words: usize) -> Vec<Step> {
    [vec![ROLE], tokens(1, words)].concat()
}

/// The whole answer.
pub fn whole() -> Script {
    [begun(WORDS), vec![FIN("stop"), USAGE, DONE]].concat().into()
}

/// An error of the provider in its usual form.
pub fn provider_error(status: u16, kind: &str, code: &str, message: &str) -> Script {
    JSON(status, &json!({"error": {"message": message, "type": kind, "param": null, "code": code}}))
}

/// Attempts at the primary within so long of its first.
pub fn within(x: &Case, window: Duration) -> usize {
    let attempts = x.a.attempts();
    attempts.iter().filter(|attempt| attempt.at - attempts[0].at < window).count()
}

/// A judge that takes anything for good would make the scenarios worthless.
#[tokio::test]
async fn the_judge_tells_whole_from_half() {
    let up = Upstream::start("A", SCALE).await;
    let error = ERR("x");
    let half = begun(40);
    let silent = [&half[..], &[SILENT]].concat();
    let table: [(Script, Verdict); 9] = [
        (whole(), Verdict::Whole),
        ([&half[..], &[FIN("stop"), DONE]].concat().into(), Verdict::TruncatedAsSuccess),
        ([&half[..], &[DONE]].concat().into(), Verdict::TruncatedAsSuccess),
        ([&half[..], &[CUT]].concat().into(), Verdict::TruncatedAsSuccess),
        (half.clone().into(), Verdict::TruncatedAsSuccess),
        ([&half[..], std::slice::from_ref(&error)].concat().into(), Verdict::CleanError),
        ([&half[..], &[error, DONE]].concat().into(), Verdict::TruncatedAsSuccess),
        (STATUS(503), Verdict::CleanError),
        (silent.into(), Verdict::Hang),
    ];
    for (script, want) in table {
        up.play(script.clone());
        let mut client = Client::open(up.addr()).await;
        let body = json!({"model": "m", "stream": true}).to_string();
        let head = format!("POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
        client.send(format!("{head}{body}").as_bytes()).await;
        // Only what never ends is not waited for.
        let patience = if want == Verdict::Hang { ms(500) } else { HANG };
        assert_eq!(verdict(&client.finish_within(patience).await), want, "{script:?}");
    }
}
