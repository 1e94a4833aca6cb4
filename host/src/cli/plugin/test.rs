//! `sluice plugin test`: asks a component what the cases say, and compares.
//!
//! Each case is put to a new instance, and once more to one that has answered the cases before it. The two must
//! agree: a gateway throws instances away at any time, so an answer must not depend on earlier calls.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use super::Exit;
use super::cases::{self, Case, Cases, CasesError, said};
use super::lines::Lines;
use super::setup::{Setup, seen, setup};
use crate::plugin::{Author, Instances, Overrides, Plugin, Reason, Rejection};

/// How it went so far.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

/// Runs every case of every file of `dir` against the component `file`; [`Exit::No`] when one differs.
///
/// # Errors
/// Only what writing to `out` and `err` gives.
pub async fn test(file: &Path, dir: &Path, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Exit> {
    if !seen(file, err)? {
        return Ok(Exit::Usage);
    }
    let read = |dir: &Path| -> Result<Vec<_>, CasesError> {
        cases::files(dir)?.into_iter().map(|file| cases::read(&file).map(|cases| (file, cases))).collect()
    };
    // All of them before the first is run: a mistake in the last should not wait for the others.
    let files = match read(dir) {
        Ok(files) => files,
        Err(error) => {
            writeln!(err, "sluice: {error}")?;
            return Ok(Exit::Usage);
        }
    };
    let Setup { author, .. } = match setup(None, err).await? {
        Ok(setup) => setup,
        Err(exit) => return Ok(exit),
    };
    let mut tally = Tally::default();
    for (path, cases) in &files {
        let shown = path.display().to_string();
        run_file(&author, file, &shown, cases, &mut tally, out).await?;
    }
    let Tally { passed, failed } = tally;
    writeln!(out, "\n{} cases, {failed} failed", passed + failed)?;
    Ok(if failed == 0 { Exit::Done } else { Exit::No })
}

async fn run_file(
    author: &Author,
    file: &Path,
    shown: &str,
    cases: &Cases,
    tally: &mut Tally,
    out: &mut dyn Write,
) -> io::Result<()> {
    let lines = Arc::new(Lines::default());
    let targets: Arc<[_]> = cases.targets.clone().into();
    let admit = async |instances| {
        let overrides = Overrides { settings_json: cases.settings_json.clone(), instances: Some(instances) };
        author.admit(file, &targets, Some(&overrides), lines.clone()).await
    };
    let both = match admit(Instances::Fresh).await {
        Ok(fresh) => admit(Instances::Warm).await.map(|warm| (fresh, warm)),
        Err(rejection) => Err(rejection),
    };
    let trouble = match (&cases.refused, &both) {
        (None, Ok(_)) => None,
        (None, Err(rejection)) => Some(format!("rejected ({}): {rejection}", rejection.reason().as_str())),
        (Some(words), Ok(_)) => Some(format!("expected to be refused with `{words}`, but it was admitted")),
        (Some(words), Err(rejection)) => refused_otherwise(words, rejection),
    };
    if trouble.is_some() || cases.refused.is_some() {
        let name = "its settings";
        report(out, tally, shown, name, &trouble.into_iter().collect::<Vec<_>>())?;
        return if tally.failed > 0 { lines.show(out) } else { Ok(()) };
    }
    let Ok((fresh, warm)) = both else { return Ok(()) };
    lines.take();
    for case in &cases.cases {
        let wrong = run_case(case, &fresh, &warm).await;
        report(out, tally, shown, &case.name, &wrong)?;
        let written = lines.take();
        if !wrong.is_empty() {
            written.iter().try_for_each(|line| writeln!(out, "       {line}"))?;
        }
    }
    Ok(())
}

fn refused_otherwise(words: &str, rejection: &Rejection) -> Option<String> {
    let reason = rejection.reason();
    let as_expected = reason == Reason::Configure && rejection.to_string().contains(words);
    (!as_expected)
        .then(|| format!("expected to be refused with `{words}`, got ({}): {rejection}", reason.as_str()))
}

/// What is wrong with the answers to one case.
async fn run_case(case: &Case, fresh: &Plugin, warm: &Plugin) -> Vec<String> {
    let ask = case.question.ask();
    if !fresh.kinds().contains(&ask.kind()) {
        return vec![format!("it is no {}", ask.kind().as_str())];
    }
    let answer = match fresh.ask(ask).await {
        Ok(answer) => answer,
        Err(error) => return vec![format!("no answer: {error}")],
    };
    let mut wrong = case.expect.differences(&case.question, &answer);
    if !wrong.is_empty() {
        wrong.push(format!("it said {}", said(&answer)));
    }
    match warm.ask(ask).await {
        Ok(again) if again == answer => {}
        Ok(again) => wrong.push(format!(
            "an instance that had answered other cases said something else: {}; nothing that matters may be kept \
             between calls",
            said(&again)
        )),
        Err(error) => wrong.push(format!("no answer of an instance that had answered other cases: {error}")),
    }
    wrong
}

fn report(
    out: &mut dyn Write,
    tally: &mut Tally,
    file: &str,
    case: &str,
    wrong: &[String],
) -> io::Result<()> {
    if wrong.is_empty() {
        tally.passed += 1;
        return writeln!(out, "ok   {file}: {case}");
    }
    tally.failed += 1;
    writeln!(out, "FAIL {file}: {case}")?;
    wrong.iter().try_for_each(|line| writeln!(out, "       {line}"))
}
