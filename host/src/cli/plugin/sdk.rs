//! What a new plugin needs and nobody can download: the SDK and the contract, as they are in the repository this
//! binary was built from. They are written beside the plugin, so that it builds alone.

/// A file of the binary and where it goes in a new plugin.
pub struct Carried {
    /// Below the folder of the plugin.
    pub path: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! carried {
    ($($from:literal => $to:literal,)+) => {
        &[$(Carried { path: $to, text: include_str!(concat!("../../../../", $from)) },)+]
    };
}

/// The SDK finds the contract at `../../wit/0.1.0`, as in the repository.
pub const FILES: &[Carried] = carried! {
    "rustfmt.toml" => "rustfmt.toml",
    "wit/0.1.0/classifier.wit" => "wit/0.1.0/classifier.wit",
    "wit/0.1.0/plugin.wit" => "wit/0.1.0/plugin.wit",
    "wit/0.1.0/router.wit" => "wit/0.1.0/router.wit",
    "wit/0.1.0/tagger.wit" => "wit/0.1.0/tagger.wit",
    "wit/0.1.0/types.wit" => "wit/0.1.0/types.wit",
    "wit/0.1.0/worlds.wit" => "wit/0.1.0/worlds.wit",
    "plugins/sdk/Cargo.toml" => "vendor/sluice-sdk/Cargo.toml",
    "plugins/sdk/src/bindings.rs" => "vendor/sluice-sdk/src/bindings.rs",
    "plugins/sdk/src/export.rs" => "vendor/sluice-sdk/src/export.rs",
    "plugins/sdk/src/export/tests.rs" => "vendor/sluice-sdk/src/export/tests.rs",
    "plugins/sdk/src/lib.rs" => "vendor/sluice-sdk/src/lib.rs",
    "plugins/sdk/src/log.rs" => "vendor/sluice-sdk/src/log.rs",
    "plugins/sdk/src/prelude.rs" => "vendor/sluice-sdk/src/prelude.rs",
    "plugins/sdk/src/settings.rs" => "vendor/sluice-sdk/src/settings.rs",
    "plugins/sdk/src/settings/tests.rs" => "vendor/sluice-sdk/src/settings/tests.rs",
    "plugins/sdk/src/testing.rs" => "vendor/sluice-sdk/src/testing.rs",
    "plugins/sdk/src/values.rs" => "vendor/sluice-sdk/src/values.rs",
    "plugins/sdk/src/values/tests.rs" => "vendor/sluice-sdk/src/values/tests.rs",
};

/// Exact versions and digests of everything the SDK depends on.
const LOCK: &str = include_str!("../../../../plugins/Cargo.lock");

/// The lock file of a plugin that depends on the SDK and on serde: the versions the bundled plugins were built with.
pub fn lock(name: &str) -> String {
    let (head, packages) = LOCK.split_once("\n\n").unwrap_or((LOCK, ""));
    let own = format!(
        "[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\ndependencies = [\n \"serde\",\n \"sluice-sdk\",\n]"
    );
    // Those without a source are members of the repository's workspace.
    let kept = packages
        .split("\n\n")
        .map(|package| package.trim_end().to_owned())
        .filter(|package| package.contains("\nsource = ") || package_name(package) == "sluice-sdk");
    let mut packages: Vec<String> = kept.chain([own]).collect();
    packages.sort_by_key(|package| package_name(package).to_owned());
    format!("{head}\n\n{}\n", packages.join("\n\n"))
}

fn package_name(package: &str) -> &str {
    let line = package.lines().find_map(|line| line.strip_prefix("name = \""));
    line.map_or("", |rest| rest.trim_end_matches('"'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn files(below: &Path, root: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(below).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, root, found);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
            }
        }
    }

    #[test]
    fn every_file_of_the_sdk_and_the_contract_is_carried() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (folder, to) in [("plugins/sdk", "vendor/sluice-sdk"), ("wit/0.1.0", "wit/0.1.0")] {
            let mut there = BTreeSet::new();
            files(&root.join(folder), &root.join(folder), &mut there);
            let carried: BTreeSet<String> = FILES
                .iter()
                .filter_map(|file| file.path.strip_prefix(to)?.strip_prefix('/'))
                .map(str::to_owned)
                .collect();
            assert_eq!(carried, there, "{folder}");
        }
    }

    #[test]
    fn the_lock_file_has_the_plugin_the_sdk_and_no_other_member() {
        let lock = lock("my-router");
        let names: Vec<&str> = lock.split("\n\n").skip(1).map(package_name).collect();
        assert!(names.is_sorted() && names.contains(&"wit-bindgen"), "{names:?}");
        let without_source: Vec<&str> = lock
            .split("\n\n")
            .skip(1)
            .filter(|package| !package.contains("source = "))
            .map(package_name)
            .collect();
        assert_eq!(without_source, ["my-router", "sluice-sdk"]);
    }
}
