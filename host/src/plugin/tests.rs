//! The bundled components through the whole of the plugin host: folder, admission, calls, reloads.
//!
//! What a host of plugins must survive, and the test that holds it. Without a path: here; `it`: among the scenarios.
//!
//! | failure | test |
//! |---|---|
//! | a file half written, or empty for a moment | `folder_changes::a_file_written_in_two_halves…`, `…::junk_keeps…` |
//! | a file renamed over another | `folder_changes::a_file_that_is_renamed_into_place…` |
//! | an editor that renames, writes, deletes | `folder_changes::an_editor_that_renames…` |
//! | a mounted configuration that swaps its data link | `folder_changes::a_mounted_configuration…` |
//! | the folder deleted and made again | `folder_changes::a_folder_that_is_deleted_and_made_again…` |
//! | the folder gone or empty for a moment | `folder_changes::a_folder_that_goes_away…`, `…::a_folder_that_was_not_there…` |
//! | events that were lost | `events::tests::reading_and_neighbours_are_no_hint_and_a_lost_event_is` |
//! | a file system without events | `folder_changes::the_timer_finds_what_no_event_told` |
//! | no watches left in the system | `events::tests::a_folder_that_cannot_be_watched…` |
//! | no component: text, a core module, compiled code, two gigabytes | `refusals::every_file_that_cannot_run…` |
//! | another contract, a missing export, an import | `refusals::every_file_that_cannot_run…`, `it::plugins_admission` |
//! | the right names with another shape | `it::plugins_admission::guests_that_misbehave…` |
//! | a compile without an end | `compiled::tests::a_compile_that_does_not_end…` |
//! | a trap or a loop in the start function or `configure` | `it::plugins_admission::guests_that_misbehave…` |
//! | a version that fails real calls | `it::plugins_faults::a_version_that_fails…`, `…::a_sidecar_that_makes_a_plugin_fail…` |
//! | a query of death | `it::cases_plugins::b095_…`, `aside` in the core for the pauses |
//! | a loop in a call | `it::plugins_faults::looping_calls…`, `it::cases_plugins::b092_…`, `engine` tests itself at start |
//! | a guest that waits in the host | `it::plugins_faults::nothing_that_a_guest_may_call…` |
//! | memory to its limit; growth over days | `it::plugins_faults::every_fault…`, `running::a_warm_instance…`, `…::instances_that_no_call…` |
//! | a leak with each reload | `running::a_thousand_new_instances…` |
//! | the text of a panic inside the runtime | `it::plugins_faults::every_fault…` |
//! | a call that is dropped half-way | `it::plugins_faults::a_call_that_is_dropped…` |
//! | poison in answers | `check::tests`, `it::plugins_faults::a_flood_of_lines…`, `it::plugins_together::all_taggers_write…` |
//! | no room in the engine | `it::cases_plugins::more_plugins_than_the_engine_has_room_for…`, `seam` |
//! | one bad plugin or sidecar beside good ones; a sidecar alone | `folder_changes::one_bad_plugin…`, `sidecars` |
//! | the same bytes again and again; two files of one name; an older file | `folder_changes::the_same_bytes…`, `refusals` (`twice.wasm`), `folder_changes::an_older_file…` |
//! | a configuration and a sidecar that change together | `versions::a_plugin_and_the_targets…` |
//! | a failing version that is to deny; one that failed before a restart | `versions::a_failing_version…`, `…::what_failed…` |
//! | a file deleted while it is admitted | `keeper::tests` |
//! | a restart with a bad file | `folder_changes::a_restart…`, `sidecars::a_restart_runs_what_last_ran_as_it_last_ran` |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod bench;
mod folder_changes;
mod refusals;
mod running;
mod seam;
mod sidecars;
pub(super) mod support;
mod versions;

/// What the bench is over.
mod sut {
    pub use crate::{config, plugin};
}
