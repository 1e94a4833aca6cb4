//! Whether a JSON value says anything: the text, the tool call, the refusal. Read without keeping it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// False for null, an empty string, an empty list and what is absent; true for everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Presence {
    /// The value says something.
    pub says: bool,
    /// Length of the text in bytes, when it is a text.
    pub text: usize,
}

impl Presence {
    const fn of(says: bool) -> Self {
        Self { says, text: 0 }
    }
}

impl<'de> Deserialize<'de> for Presence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;

        impl<'de> Visitor<'de> for Look {
            type Value = Presence;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }

            fn visit_unit<E>(self) -> Result<Presence, E> {
                Ok(Presence::of(false))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Presence, E> {
                Ok(Presence::of(true))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Presence, E> {
                Ok(Presence::of(true))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Presence, E> {
                Ok(Presence::of(true))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Presence, E> {
                Ok(Presence::of(true))
            }

            fn visit_str<E>(self, text: &str) -> Result<Presence, E> {
                Ok(Presence { says: !text.is_empty(), text: text.len() })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Presence, A::Error> {
                let mut says = false;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    says = true;
                }
                Ok(Presence::of(says))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Presence, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Presence::of(true))
            }
        }

        deserializer.deserialize_any(Look)
    }
}
