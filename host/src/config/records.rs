//! `records`: the store of records. Absent or without a value there is none; an empty map is a SQLite file under
//! `state_dir`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::ExposeSecret;

use super::checked::Credential;
use super::field::{Field, Map};

/// Thirty days.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// `records`.
#[derive(Debug, Clone, PartialEq)]
pub struct Records {
    /// The store.
    pub place: RecordPlace,
    /// Older ones are deleted; none: never.
    pub retention: Option<Duration>,
    /// Where they wait while the store is away.
    pub spool: Spool,
}

/// A store of records.
#[derive(Debug, Clone)]
pub enum RecordPlace {
    /// A file.
    Sqlite(PathBuf),
    /// A server, by URL.
    Postgres(Credential),
}

/// `records.spool`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spool {
    /// Folder of its files.
    pub dir: PathBuf,
    /// Bytes of all of them.
    pub max: u64,
}

impl PartialEq for RecordPlace {
    /// By what the secret is, not by where it stands.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sqlite(one), Self::Sqlite(two)) => one == two,
            (Self::Postgres(one), Self::Postgres(two)) => one.key.expose_secret() == two.key.expose_secret(),
            (Self::Sqlite(_), Self::Postgres(_)) | (Self::Postgres(_), Self::Sqlite(_)) => false,
        }
    }
}

impl Records {
    /// What lies in the one `state_dir` by default lies in the other.
    pub fn follow_state_dir(&mut self, from: &Path, to: &Path) {
        let follow = |path: &mut PathBuf, default: fn(&Path) -> PathBuf| {
            if *path == default(from) {
                *path = default(to);
            }
        };
        if let RecordPlace::Sqlite(path) = &mut self.place {
            follow(path, sqlite_by_default);
        }
        follow(&mut self.spool.dir, spool_by_default);
    }
}

fn sqlite_by_default(state_dir: &Path) -> PathBuf {
    state_dir.join("records.sqlite")
}

fn spool_by_default(state_dir: &Path) -> PathBuf {
    state_dir.join("records-spool")
}

pub(super) fn read(field: &Field<'_>, state_dir: &Path) -> Option<Records> {
    field.node().filter(|node| !node.is_null())?;
    Some(field.map(|m| {
        Records {
            place: place(m, state_dir),
            retention: m
                .get("retention")
                .duration_or(
                    ("off", None),
                    Some,
                    "a duration such as 720h (a whole number and ms, s, m or h) or off",
                    Duration::from_secs(1),
                )
                .unwrap_or(Some(KEPT)),
            spool: m.get("spool").map(|m| Spool {
                dir: m.get("dir").path().unwrap_or_else(|| spool_by_default(state_dir)),
                max: m.get("max").size(64 * KIB..=TIB).unwrap_or(256 * MIB),
            }),
        }
    }))
}

fn place(m: &Map<'_>, state_dir: &Path) -> RecordPlace {
    let (sqlite, postgres) = (m.get("sqlite"), m.get("postgres"));
    let path = sqlite.path();
    let url = postgres.credential();
    if sqlite.is_set() && postgres.is_set() {
        postgres.error("\"sqlite\" and \"postgres\" exclude each other: records go to one store");
    }
    match url {
        Some(url) => {
            let text = url.key.expose_secret();
            let real = postgres.follows_secrets();
            if real && !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
                postgres.error(
                    "the secret is no PostgreSQL URL; one looks like postgres://USER:PASSWORD@HOST/DATABASE",
                );
            }
            RecordPlace::Postgres(url)
        }
        None => RecordPlace::Sqlite(path.unwrap_or_else(|| sqlite_by_default(state_dir))),
    }
}
