//! A good component that is no plugin: it exports something else.

mod bindings {
    #![allow(clippy::all, reason = "generated")]
    wit_bindgen::generate!({
        inline: "
            package example:other@1.0.0;
            interface greeting { greet: func(name: string) -> string; }
            world other { export greeting; }
        ",
        world: "other",
    });
}

struct Other;

impl bindings::exports::example::other::greeting::Guest for Other {
    fn greet(name: String) -> String {
        format!("Hello, {name}")
    }
}

#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code, reason = "generated")]
const _: () = {
    bindings::export!(Other with_types_in bindings);
};
