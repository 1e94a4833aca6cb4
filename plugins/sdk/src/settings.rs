//! Reads settings so that a mistake comes back as a sentence an operator can act on: the setting, what was
//! expected, what came.

use serde::de::DeserializeOwned;

/// Settings of a plugin that has none: anything but `{}` is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoSettings {}

/// Reads a JSON object into `T`.
///
/// # Errors
/// A text that names the setting, by its path, with what was expected and what came.
pub(crate) fn read<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    if !json.trim_start().starts_with('{') {
        let start: String = json.chars().take(32).collect();
        return Err(format!("settings: expected an object, got `{start}`"));
    }
    let mut unknown = None;
    let mut keep_first = |path: serde_ignored::Path<'_>| {
        unknown.get_or_insert_with(|| path.to_string());
    };
    let mut text = serde_json::Deserializer::from_str(json);
    let watched = serde_ignored::Deserializer::new(&mut text, &mut keep_first);
    let settings = serde_path_to_error::deserialize(watched).map_err(|e| {
        // The last step of a path is not known where the fault is in the name itself.
        let path = e.path().to_string();
        let path = path.trim_end_matches('?').trim_end_matches('.');
        let cause = e.inner().to_string();
        refusal(path, without_position(&cause))
    })?;
    text.end().map_err(|e| {
        let cause = e.to_string();
        format!("settings: expected one object, got {}", without_position(&cause))
    })?;
    match unknown {
        None => Ok(settings),
        Some(path) => Err(refusal(&path, "this plugin has no such setting")),
    }
}

fn refusal(path: &str, cause: &str) -> String {
    let dot = if path.is_empty() { "" } else { "." };
    format!("settings{dot}{path}: {cause}")
}

/// Positions in a text that the host itself wrote mean nothing to the operator.
fn without_position(error: &str) -> &str {
    const POSITION: &[u8] = b" at line ";
    // By bytes: the search of a text within a text is two kilobytes of code in every plugin.
    let end = error.as_bytes().windows(POSITION.len()).rposition(|bytes| bytes == POSITION);
    end.and_then(|end| error.get(..end)).unwrap_or(error)
}

#[cfg(test)]
mod tests;
