//! Code generated from the contract, one module for each exported interface.
//!
//! A module carries a world with that one export. The linker merges the worlds of a component, so a
//! plugin exports exactly the interfaces it asks for, alone or together. The records of `types` are
//! generated once and shared.
#![allow(missing_docs, reason = "generated; the contract documents the items")]
#![allow(clippy::all, reason = "generated")]

pub mod plugin {
    wit_bindgen::generate!({
        path: "../../wit/0.1.0",
        inline: "
            package sluice:sdk;
            world plugin {
                import sluice:policy/log@0.1.0;
                export sluice:policy/plugin@0.1.0;
            }
        ",
        world: "sluice:sdk/plugin",
        generate_all,
        additional_derives: [PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_plugin",
        default_bindings_module: "sluice_sdk::bindings::plugin",
    });
}

pub mod router {
    wit_bindgen::generate!({
        path: "../../wit/0.1.0",
        inline: "
            package sluice:sdk;
            world router { export sluice:policy/router@0.1.0; }
        ",
        world: "sluice:sdk/router",
        with: { "sluice:policy/types@0.1.0": crate::bindings::plugin::sluice::policy::types },
        additional_derives: [PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_router",
        default_bindings_module: "sluice_sdk::bindings::router",
    });
}

pub mod classifier {
    wit_bindgen::generate!({
        path: "../../wit/0.1.0",
        inline: "
            package sluice:sdk;
            world classifier { export sluice:policy/classifier@0.1.0; }
        ",
        world: "sluice:sdk/classifier",
        with: { "sluice:policy/types@0.1.0": crate::bindings::plugin::sluice::policy::types },
        additional_derives: [PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_classifier",
        default_bindings_module: "sluice_sdk::bindings::classifier",
    });
}

pub mod tagger {
    wit_bindgen::generate!({
        path: "../../wit/0.1.0",
        inline: "
            package sluice:sdk;
            world tagger { export sluice:policy/tagger@0.1.0; }
        ",
        world: "sluice:sdk/tagger",
        with: { "sluice:policy/types@0.1.0": crate::bindings::plugin::sluice::policy::types },
        additional_derives: [PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_tagger",
        default_bindings_module: "sluice_sdk::bindings::tagger",
    });
}
