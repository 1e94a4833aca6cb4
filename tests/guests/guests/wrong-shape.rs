//! A router whose exports have the right names and the wrong shape: its candidates have no health.

mod bindings {
    #![allow(clippy::all, reason = "generated")]
    wit_bindgen::generate!({
        inline: "
            package sluice:policy@0.1.0;
            interface plugin {
                record description { name: string, version: string, tags-head: bool, tags-record: bool }
                describe: func() -> description;
                configure: func(settings: string, targets: list<string>) -> result<_, string>;
            }
            interface router {
                record candidate { target: u32, in-flight: u32 }
                record vote { score: option<f64>, reason: option<string> }
                score: func(request: string, candidates: list<candidate>) -> list<vote>;
            }
            world router-plugin { export plugin; export router; }
        ",
        world: "router-plugin",
    });
}

use bindings::exports::sluice::policy::{plugin, router};

struct WrongShape;

impl plugin::Guest for WrongShape {
    fn describe() -> plugin::Description {
        let (name, version) = ("wrong-shape".to_owned(), "0.1.0".to_owned());
        plugin::Description { name, version, tags_head: false, tags_record: false }
    }

    fn configure(_: String, _: Vec<String>) -> Result<(), String> {
        Ok(())
    }
}

impl router::Guest for WrongShape {
    fn score(_: String, candidates: Vec<router::Candidate>) -> Vec<router::Vote> {
        candidates.iter().map(|_| router::Vote { score: Some(0.5), reason: None }).collect()
    }
}

#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code, reason = "generated")]
const _: () = {
    bindings::export!(WrongShape with_types_in bindings);
};
