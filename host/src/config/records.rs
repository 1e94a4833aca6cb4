//! `records`: the store of records. Absent or without a value there is none; an empty map is a SQLite file under
//! `state_dir`.

use std::path::Path;
use std::time::Duration;

use secrecy::ExposeSecret;

use super::checked::{RecordPlace, Records, Spool};
use super::field::{Field, Map};

/// Thirty days.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

pub(super) fn read(field: &Field<'_>, state_dir: &Path) -> Option<Records> {
    field.node().filter(|node| !node.is_null())?;
    Some(field.map(|m| {
        Records {
            place: place(m, state_dir),
            retention: m
                .get("retention")
                .duration_or(
                    "off",
                    "a duration such as 720h (a whole number and ms, s, m or h) or off",
                    Duration::from_secs(1),
                )
                .unwrap_or(Some(KEPT)),
            spool: m.get("spool").map(|m| Spool {
                dir: m.get("dir").path().unwrap_or_else(|| state_dir.join("records-spool")),
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
            if !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
                postgres.error(
                    "the secret is no PostgreSQL URL; one looks like postgres://USER:PASSWORD@HOST/DATABASE",
                );
            }
            RecordPlace::Postgres(url)
        }
        None => RecordPlace::Sqlite(path.unwrap_or_else(|| state_dir.join("records.sqlite"))),
    }
}
