use std::time::Duration;

use sluice_core::facts::PluginKind;
use wasmtime::Engine;

use super::support::*;
use crate::plugin::engine::Host;
use crate::plugin::{PluginState, Reason};

/// The eight bytes every component begins with are a component with nothing in it.
const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const EMPTY_MODULE: &[u8] = b"\0asm\x01\0\0\0";

#[tokio::test]
async fn every_file_that_cannot_run_is_refused_for_its_own_reason_and_the_rest_runs() {
    let engine: &Engine = &Host::get().unwrap().engine;
    let router = || bundled(PluginKind::Router);
    let mut half = router();
    half.truncate(half.len() / 2);
    let cases: Vec<(&str, Vec<u8>, Reason, &str)> = vec![
        ("cut.wasm", half, Reason::Parse, "at byte"),
        ("none.wasm", Vec::new(), Reason::Size, "empty"),
        ("large.wasm", vec![0; 4 << 20], Reason::Size, "4194304"),
        ("text.wasm", b"hello, this is text".to_vec(), Reason::Magic, "68 65 6c 6c 6f"),
        ("core.wasm", EMPTY_MODULE.to_vec(), Reason::Magic, "core module"),
        (
            "native.wasm",
            engine.precompile_component(&router()).unwrap(),
            Reason::Precompiled,
            "compiled machine code",
        ),
        ("named.cwasm", router(), Reason::Precompiled, "compiled machine code"),
        ("nothing.wasm", EMPTY_COMPONENT.to_vec(), Reason::Contract, "exports nothing"),
        (
            "newer.wasm",
            patched(router(), "@0.1.0", "@0.2.0"),
            Reason::Contract,
            "0.2.0; this host accepts 0.1.0",
        ),
        (
            "policy.wasm",
            patched(router(), "sluice:policy/types@", "sluice:policy/typos@"),
            Reason::Import,
            "sluice:policy/typos@",
        ),
        (
            "files.wasm",
            patched(router(), "wasi:cli/exit@", "wasi:cli/exec@"),
            Reason::Import,
            "wasi:cli/exec@",
        ),
        (
            "old-wasi.wasm",
            patched(router(), "wasi:io/error@0.2", "wasi:io/error@0.3"),
            Reason::Import,
            "@0.3",
        ),
        ("a name.wasm", router(), Reason::NameConflict, "A-Z a-z"),
        ("twice.wasm", router(), Reason::NameConflict, "twice.WASM"),
        (
            "beside.wasm",
            router(),
            Reason::Sidecar,
            "beside.yaml:2:11: on_error: expected \"bundled\" or \"deny\"",
        ),
        ("alone.yaml", b"{}".to_vec(), Reason::Sidecar, "`alone.wasm` beside it"),
        ("short.yml", b"{}".to_vec(), Reason::Sidecar, "`short.yaml`"),
        ("pinned.wasm", router(), Reason::Digest, "expected sha256 00000000"),
    ];
    let mut bench = Bench::with_folder();
    bench.settings.max_file = 2 << 20;
    for (file, bytes, ..) in &cases {
        bench.put(file, bytes);
    }
    bench.put("twice.WASM", &variant(PluginKind::Tagger, 2));
    bench.put("beside.yaml", b"weight: 2\non_error: maybe\n");
    bench.put("pinned.yaml", format!("sha256: {}\n", "0".repeat(64)).as_bytes());
    std::fs::create_dir(bench.path("folder.wasm")).unwrap();
    std::fs::File::create(bench.path("huge.wasm")).unwrap().set_len(2 << 30).unwrap();
    bench.put("fine.wasm", &variant(PluginKind::Router, 1));
    bench.put("README.md", b"not a plugin");
    bench.put("left.wasm~", b"not one either");

    let registry = bench.start().await;
    for (file, _, reason, words) in &cases {
        let entry = entry(&registry, file);
        let rejection = entry.rejection.unwrap_or_else(|| panic!("{file} runs"));
        assert_eq!(
            (entry.state, rejection.reason),
            (PluginState::Rejected, *reason),
            "{file}: {}",
            rejection.message
        );
        assert!(rejection.message.contains(words), "{file}: {}", rejection.message);
        let name = file.rsplit_once('.').unwrap().0;
        assert!(
            bench.recorder.count(&format!("rejected {name} {}", reason.as_str())) == 1,
            "{file} is told once"
        );
    }
    assert_eq!(
        entry(&registry, "folder.wasm").rejection.map(|rejection| rejection.reason),
        Some(Reason::Read)
    );
    assert_eq!(
        entry(&registry, "huge.wasm").rejection.map(|rejection| rejection.reason),
        Some(Reason::Size),
        "two gigabytes are not read"
    );
    assert_eq!(entry(&registry, "fine.wasm").state, PluginState::Active);
    assert_eq!(entry(&registry, "twice.WASM").state, PluginState::Active);
    let files = registry.status().iter().filter(|entry| entry.file.is_some()).count();
    assert_eq!(files, cases.len() + 4, "README and left-overs are no plugins");
    assert_eq!(registry.current().active().len(), 2);
}

#[tokio::test]
async fn a_plugin_that_needs_more_memory_than_its_limit_is_refused_before_it_is_compiled() {
    let mut bench = Bench::with_folder();
    bench.put("big.wasm", &variant(PluginKind::Router, 3));
    let registry = bench.start().await;
    assert_eq!(entry(&registry, "big.wasm").state, PluginState::Active);
    bench.stop.cancel();

    bench.settings.memory = 64 << 10;
    let Err(error) = bench.try_start(Default::default()).await else {
        panic!("a bundled plugin fits into one page")
    };
    assert!(error.to_string().contains("initial memory"), "{error}");
}

#[tokio::test]
async fn a_refused_file_is_told_once_however_often_it_is_looked_at() {
    let mut bench = Bench::with_folder();
    bench.settings.rescan = Duration::from_millis(20);
    bench.put("bad.wasm", b"no plugin at all");
    let registry = bench.start().await;
    // Each of these is a whole new look; the last one is known to have happened when it loads.
    bench.put("one.wasm", &variant(PluginKind::Router, 1));
    bench.recorder.wait_for("loaded one", 1).await;
    bench.put("bad.wasm", b"no plugin at all");
    bench.put("two.wasm", &variant(PluginKind::Router, 2));
    bench.recorder.wait_for("loaded two", 1).await;
    assert_eq!(bench.recorder.count("rejected bad"), 1, "{:#?}", bench.recorder.lines());
    assert_eq!(entry(&registry, "bad.wasm").state, PluginState::Rejected);
}
