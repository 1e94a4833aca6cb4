//! Secrets by reference: `env:NAME` and `file:PATH`. The reference may be shown, what it leads to never.

use secrecy::SecretString;
use sha2::{Digest as _, Sha256};

use super::checked::Credential;
use super::field::Field;

/// Keys are a few hundred bytes; a file that is larger is another file.
const MAX_SECRET: u64 = 64 << 10;

impl Field<'_> {
    /// A key by reference.
    pub(super) fn credential(&self) -> Option<Credential> {
        let what = "a secret by reference: \"env:NAME\" or \"file:PATH\"";
        let reference = self.text(what)?;
        if !is_reference(reference) {
            self.error(format!("expected {what}; the file itself holds no secrets"));
            return None;
        }
        let key = self.resolve(reference)?;
        Some(Credential { key, reference: reference.to_owned() })
    }

    /// The value of a fixed header: text, or a secret by reference.
    pub(super) fn header_value(&self) -> Option<SecretString> {
        let text = self.text("the value of a header, or \"env:NAME\" or \"file:PATH\"")?;
        if is_reference(text) {
            return self.resolve(text);
        }
        match flaw(text) {
            Some(flaw) => {
                self.error(format!("a header value {flaw}"));
                None
            }
            None => Some(SecretString::from(text)),
        }
    }

    fn resolve(&self, reference: &str) -> Option<SecretString> {
        let found = match reference.split_once(':') {
            Some(("env", name)) => self.variable(name),
            Some((_, path)) => self.secret_file(path),
            None => Err("is no reference".to_owned()),
        };
        let value = match found {
            Ok(value) => value,
            Err(text) => {
                self.error(text);
                return None;
            }
        };
        let value =
            value.strip_suffix('\n').map_or(value.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
        if let Some(flaw) = flaw(value) {
            self.error(format!("the secret of {} {flaw}", reference.escape_debug()));
            return None;
        }
        Some(SecretString::from(value))
    }

    fn variable(&self, name: &str) -> Result<String, String> {
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty()
            || name.len() > 128
            || name.as_bytes()[0].is_ascii_digit()
            || !name.bytes().all(word)
        {
            return Err("expected the name of an environment variable after \"env:\"".to_owned());
        }
        if !self.follows_secrets() {
            return Ok(stand_in(name));
        }
        (self.cx.env)(name).ok_or_else(|| format!("environment variable {name} is not set"))
    }

    fn secret_file(&self, path: &str) -> Result<String, String> {
        if path.is_empty() || path.contains('\0') {
            return Err("expected a path after \"file:\"".to_owned());
        }
        if !self.follows_secrets() {
            return Ok(stand_in(path));
        }
        let shown = path.escape_debug();
        let bytes =
            self.cx.read(&self.cx.at(path), MAX_SECRET).map_err(|text| format!("file {shown} {text}"))?;
        String::from_utf8(bytes).map_err(|_| format!("the secret of file:{shown} is not text"))
    }
}

/// A key for whoever must not see one: another for each reference, and nothing of what it leads to.
fn stand_in(of: &str) -> String {
    let digest = Sha256::digest(of.as_bytes());
    digest.iter().take(16).fold("stand-in-".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

pub(super) fn is_reference(text: &str) -> bool {
    text.starts_with("env:") || text.starts_with("file:")
}

/// Why a value cannot go into a header as it is.
fn flaw(value: &str) -> Option<&'static str> {
    if value.is_empty() {
        Some("is empty")
    } else if value.trim() != value {
        Some("has white space at its start or end")
    } else if !value.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        Some("holds characters that a header cannot carry")
    } else {
        None
    }
}
