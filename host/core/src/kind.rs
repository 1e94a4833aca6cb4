//! The closed sets the host owns: failure kinds, stages, outcomes, and how each is spelled in metrics,
//! headers and records. Nothing here depends on a provider's wording.

/// Declares a fieldless enum together with the one spelling of each of its values.
#[macro_export]
macro_rules! spelled {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vmeta])* $variant,)+ }

        impl $name {
            /// Every value, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The spelling used in metrics, headers and records.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

spelled! {
    /// What a failed attempt was.
    FailureKind {
        /// Connect, headers or first content came too late; 408, 504, 524.
        RetryableTimeout = "retryable_timeout",
        /// 429 or 425.
        RetryableRateLimit = "retryable_rate_limit",
        /// The upstream failed, or its 200 was no completion.
        RetryableUpstream = "retryable_upstream",
        /// The account has nothing left.
        QuotaExhausted = "quota_exhausted",
        /// The upstream does not know the model.
        ModelUnavailable = "model_unavailable",
        /// The input does not fit.
        ContextLengthExceeded = "context_length_exceeded",
        /// A content filter refused.
        ContentFiltered = "content_filtered",
        /// Our credential was refused.
        AuthDenied = "auth_denied",
        /// The request itself is at fault.
        InvalidRequest = "invalid_request",
        /// A gate of ours refused.
        GatewaySaturated = "gateway_saturated",
    }
}

spelled! {
    /// How far an attempt had come when it failed.
    Stage {
        /// No connection.
        Connect = "connect",
        /// No complete response head.
        Head = "head",
        /// Error body, or a plain answer that was no completion.
        Body = "body",
        /// A stream without first content.
        FirstEvent = "first_event",
        /// After commit.
        Stream = "stream",
    }
}

spelled! {
    /// What went wrong below HTTP.
    TransportError {
        /// Nobody listens.
        Refused = "refused",
        /// The peer reset the connection.
        Reset = "reset",
        /// The peer closed before the message was complete.
        Closed = "closed",
        /// The name does not resolve.
        Dns = "dns",
        /// Handshake or certificate.
        Tls = "tls",
        /// No route, or out of local resources.
        Unreachable = "unreachable",
        /// One of our clocks fired.
        Timeout = "timeout",
        /// Bytes that are not HTTP.
        Protocol = "protocol",
    }
}

spelled! {
    /// How a request ended. Disjoint; they add up to the total.
    Outcome {
        /// The first choice answered.
        Success = "success",
        /// Another target answered.
        FallbackSuccess = "fallback_success",
        /// Broken after commit.
        Interrupted = "interrupted",
        /// Every possible attempt failed.
        Exhausted = "exhausted",
        /// The deadline ended it.
        BudgetExhausted = "budget_exhausted",
        /// The upstream refused the request for good.
        RejectedUpstream = "rejected_upstream",
        /// The caller's mistake.
        InvalidRequest = "invalid_request",
        /// The caller may not.
        Denied = "denied",
        /// A gate refused.
        Refused = "refused",
        /// The client left.
        ClientCancelled = "client_cancelled",
    }
}

spelled! {
    /// Whether a target was tried as the first choice or as a replacement.
    Role {
        /// The first choice.
        Primary = "primary",
        /// Any other.
        Fallback = "fallback",
    }
}
