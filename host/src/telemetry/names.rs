//! The closed sets of telemetry, and the one way to declare them.

/// Declares a fieldless enum together with the one spelling of each of its values, which is also what is
/// serialized.
macro_rules! closed {
    ($(#[$meta:meta])* $name:ident { $($variants:tt)+ }) => {
        sluice_core::spelled! { $(#[$meta])* $name { $($variants)+ } }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}
pub(crate) use closed;

closed! {
    /// What came of one call of a plugin.
    CallResult {
        /// An answer.
        Ok = "ok",
        /// It had no opinion.
        None = "none",
        /// It trapped.
        Trap = "trap",
        /// It ran past its deadline.
        Timeout = "timeout",
        /// It wanted more memory than it may have.
        Memory = "memory",
        /// It ran out of stack.
        Stack = "stack",
        /// Its answer was nonsense.
        Invalid = "invalid",
        /// Too many calls of it ran already.
        Saturated = "saturated",
        /// It pauses, and was not asked.
        SetAside = "set_aside",
    }
}

closed! {
    /// Why a gate refused.
    GateRefusal {
        /// No place to wait.
        QueueFull = "queue_full",
        /// The wait was too long.
        QueueTimeout = "queue_timeout",
    }
}

closed! {
    /// Why a stream ended early.
    Interruption {
        /// The upstream closed or reset.
        UpstreamInterrupted = "upstream_interrupted",
        /// No content for too long.
        StreamStalled = "stream_stalled",
        /// It ran for as long as a stream may.
        StreamMax = "stream_max",
        /// An event that cannot be read, where that ends the stream.
        MalformedEvent = "malformed_event",
        /// An event larger than one may be.
        EventTooLarge = "event_too_large",
        /// The gateway is going away.
        Draining = "draining",
        /// The upstream said why, in words of its own.
        Other = "other",
    }
}

closed! {
    /// Where records are safe.
    RecordsTo {
        /// In the store.
        Database = "database",
        /// On disk, until the store is back.
        Spool = "spool",
    }
}

impl Interruption {
    /// The label for a code as the client sees it; an upstream's own code is [`Self::Other`].
    pub fn of_code(code: &str) -> Self {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == code).unwrap_or(Self::Other)
    }
}
