//! Which targets can serve a request at all, and what those that cannot lack. What a model does not declare is
//! not held against it.

use sluice_core::facts::RequestFacts;

use crate::config::{Capability, RouteTarget};

/// Something a request needs and a target does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lack {
    /// A declared capability.
    Capability(Capability),
    /// Room: estimated input and asked-for output against the declared context.
    Context {
        /// Tokens of the request, about.
        needs: u64,
        /// Tokens of the model.
        has: u32,
    },
    /// The target is kept for other tasks.
    Task,
}

/// What this target lacks for the request; nothing: it can serve it. `later` in the configured order, it would
/// serve as a fallback, with its own output limit where it has one.
pub(super) fn lacks(target: &RouteTarget, later: bool, request: &RequestFacts) -> Vec<Lack> {
    let model = &target.target.facts;
    let mut lacks = Vec::new();
    if let Some(tasks) = &target.tasks
        && !request.task.as_ref().is_some_and(|task| tasks.contains(task))
    {
        lacks.push(Lack::Task);
    }
    if let Some(supports) = &model.supports {
        let needs = [
            (request.tools, Capability::Tools),
            (request.images, Capability::Images),
            (request.json_output, Capability::Json),
        ];
        let missing = |(needed, capability): &(bool, Capability)| *needed && !supports.contains(capability);
        lacks.extend(needs.into_iter().filter(missing).map(|(_, capability)| Lack::Capability(capability)));
    }
    if let Some(has) = model.context {
        let asked = request.max_output_tokens.unwrap_or(0);
        let output = target.fallback_max_tokens.filter(|_| later).map_or(asked, |limit| asked.min(limit));
        let needs = u64::from(request.input_tokens) + u64::from(output);
        if needs > u64::from(has) {
            lacks.push(Lack::Context { needs, has });
        }
    }
    lacks
}

/// What each target lacks, for the caller: `openai/small has no tools; target 2 …`.
pub(super) fn told<'a>(targets: impl Iterator<Item = (String, &'a [Lack])>) -> String {
    let one = |(name, lacks): (String, &[Lack])| {
        let lacks: Vec<String> = lacks.iter().map(Lack::to_string).collect();
        format!("{name} {}", lacks.join(" and "))
    };
    targets.map(one).collect::<Vec<_>>().join("; ")
}

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Capability(Capability::Tools) => f.write_str("has no tools"),
            Self::Capability(Capability::Images) => f.write_str("takes no images"),
            Self::Capability(Capability::Json) => f.write_str("has no json output"),
            Self::Context { needs, has } => {
                write!(f, "has a context of {has} tokens where about {needs} are needed")
            }
            Self::Task => f.write_str("is for other tasks"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The only target of a configuration with this model and these further keys of the target map.
    fn target(model: &str, map: &str) -> RouteTarget {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sluice.yaml");
        let text = format!(
            "upstreams: {{ a: {{ base_url: \"http://127.0.0.1:1\", models: {{ m: {model} }} }} }}\n\
             routes: {{ r: {{ targets: [ {{ target: a/m{map} }} ] }} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        crate::config::load_with(&file, &|_| None).unwrap().config.routes["r"].targets[0].clone()
    }

    #[test]
    fn only_declared_lacks_make_a_target_unfit() {
        let all = RequestFacts {
            tools: true,
            images: true,
            json_output: true,
            input_tokens: 900,
            max_output_tokens: Some(200),
            task: Some("summary".to_owned()),
            ..RequestFacts::default()
        };
        let cases = [
            ("{}", "", false, &all, ""),
            ("{ supports: [tools, images, json], context: 1100 }", "", false, &all, ""),
            ("{ supports: [json] }", "", false, &all, "has no tools and takes no images"),
            ("{ supports: [] }", "", false, &RequestFacts::default(), ""),
            (
                "{ context: 1099 }",
                "",
                false,
                &all,
                "has a context of 1099 tokens where about 1100 are needed",
            ),
            ("{ context: 1000 }", ", fallback_max_tokens: 100", true, &all, ""),
            (
                "{ context: 1000 }",
                ", fallback_max_tokens: 100",
                false,
                &all,
                "has a context of 1000 tokens where about 1100 are needed",
            ),
            ("{}", ", tasks: [summary]", false, &all, ""),
            ("{}", ", tasks: [extract, Summary]", false, &all, "is for other tasks"),
            ("{}", ", tasks: [summary]", false, &RequestFacts::default(), "is for other tasks"),
        ];
        for (model, map, later, request, want) in cases {
            let lacks = lacks(&target(model, map), later, request);
            let told = told([("t".to_owned(), lacks.as_slice())].into_iter());
            assert_eq!(told, format!("t {want}"), "{model} {map}");
        }
    }
}
