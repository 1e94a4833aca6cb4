//! Every way a request can end without an answer to show: status, code, type, outcome, and what a client is
//! told about trying again. One table; how it becomes bytes is in `respond`.

use std::time::Duration;

use http::StatusCode;
use sluice_core::kind::{FailureKind, Outcome, TransportError};
use sluice_core::lens::error::ProviderError;
use sluice_core::lens::request::BodyError;

/// Bytes of the list of what targets lack that are told: a route may have many.
const LACKS_SHOWN: usize = 1024;
/// The code of a request that a panic ended.
pub(super) const INTERNAL: &str = "internal_error";

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Failure {
    /// Callers have keys, and this one has none of them.
    InvalidApiKey {
        /// It sent something.
        sent: bool,
    },
    /// Its key is not for this route.
    RouteNotAllowed,
    /// A limit of its own.
    CallerLimit {
        /// Which.
        of: CallerLimit,
        /// Until it fits; none: it never will.
        wait: Option<Duration>,
    },
    /// Its money for today.
    CallerBudget {
        /// Until it fits; none: it never will.
        wait: Option<Duration>,
    },
    /// The body is not what it must be.
    Body(BodyError),
    /// A request header the gateway reads is not what it must be.
    Header {
        /// Name of the header.
        name: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// The body did not come in time or broke off.
    BodyIncomplete,
    /// The body is over the limit.
    BodyTooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// No route of that name.
    ModelNotFound {
        /// The requested name.
        model: String,
    },
    /// It came in plain text where TLS is spoken.
    TlsNeeded,
    /// No such path.
    NotFound,
    /// Not with this method.
    MethodNotAllowed {
        /// The methods that would do.
        allow: &'static str,
    },
    /// No target of the route can serve such a request.
    NoCapableTarget {
        /// What each of them lacks.
        lacks: String,
    },
    /// Routers excluded every target.
    ExcludedByPolicy,
    /// A plugin that must not fail did.
    PluginDenied,
    /// The queue of a gate was full.
    QueueFull,
    /// The wait in the queue of a gate was over.
    QueueTimeout,
    /// The gateway is going down.
    Draining,
    /// Targets are open, cooling or without credential.
    NoHealthyTarget {
        /// Until the first may be tried.
        wait: Option<Duration>,
    },
    /// All targets are cooling after rate limits or quota.
    RateLimited {
        /// Until the first may be tried.
        wait: Option<Duration>,
    },
    /// The credential of the first choice was refused a moment ago.
    CredentialDenied,
    /// The deadline came.
    BudgetExhausted,
    /// The gateway itself failed.
    Internal,
    /// The last attempt's failure is the answer.
    Upstream(Box<LastFault>),
}

/// What a caller has too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallerLimit {
    /// Calls at a time.
    InFlight,
    /// Requests a minute.
    Requests,
    /// Tokens a minute.
    Tokens,
}

/// The failure of the last attempt, as far as the client may know it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LastFault {
    /// What it was.
    pub kind: FailureKind,
    /// Status of the upstream.
    pub status: Option<u16>,
    /// What went wrong below HTTP.
    pub transport: Option<TransportError>,
    /// The upstream's error object.
    pub error: Option<ProviderError>,
    /// Status a classifier wants.
    pub client_status: Option<u16>,
    /// Until the first target of the route may be tried again.
    pub retry_after: Option<Duration>,
}

impl LastFault {
    /// The upstream's own words are passed on: the caller can do something about it.
    pub fn passes_on(&self) -> bool {
        matches!(
            self.kind,
            FailureKind::ContextLengthExceeded | FailureKind::ContentFiltered | FailureKind::InvalidRequest
        )
    }

    fn status(&self) -> u16 {
        if let Some(status) = self.client_status {
            return status;
        }
        let in_band = self.error.as_ref().and_then(|e| e.status);
        // An error inside a 200 says its own status.
        let upstream = self.status.filter(|status| !(200..300).contains(status)).or(in_band);
        match self.kind {
            FailureKind::RetryableTimeout => 504,
            FailureKind::RetryableRateLimit | FailureKind::QuotaExhausted => 429,
            FailureKind::RetryableUpstream if matches!(upstream, Some(503 | 529)) => 503,
            FailureKind::GatewaySaturated => 503,
            FailureKind::RetryableUpstream | FailureKind::ModelUnavailable | FailureKind::AuthDenied => 502,
            FailureKind::ContextLengthExceeded
            | FailureKind::ContentFiltered
            | FailureKind::InvalidRequest => {
                [self.status, in_band].into_iter().flatten().find(|s| (400..500).contains(s)).unwrap_or(400)
            }
        }
    }
}

impl Failure {
    /// Status for the client.
    pub fn status(&self) -> StatusCode {
        let status = match self {
            Self::InvalidApiKey { .. } => 401,
            Self::RouteNotAllowed => 403,
            Self::CallerLimit { .. } | Self::CallerBudget { .. } => 429,
            Self::Body(_)
            | Self::Header { .. }
            | Self::BodyIncomplete
            | Self::NoCapableTarget { .. }
            | Self::TlsNeeded => 400,
            Self::BodyTooLarge { .. } => 413,
            Self::ModelNotFound { .. } | Self::NotFound => 404,
            Self::MethodNotAllowed { .. } => 405,
            Self::ExcludedByPolicy => 403,
            Self::RateLimited { .. } => 429,
            Self::PluginDenied
            | Self::QueueFull
            | Self::QueueTimeout
            | Self::Draining
            | Self::NoHealthyTarget { .. } => 503,
            Self::CredentialDenied => 502,
            Self::BudgetExhausted => 504,
            Self::Internal => 500,
            Self::Upstream(fault) => fault.status(),
        };
        StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY)
    }

    /// `error.code`.
    pub fn code(&self) -> String {
        match self {
            Self::InvalidApiKey { .. } => "invalid_api_key",
            Self::RouteNotAllowed => "route_not_allowed",
            Self::CallerLimit { .. } => "caller_limit",
            Self::CallerBudget { .. } => "caller_budget",
            Self::Body(BodyError::Json(_)) => "invalid_json",
            Self::Body(_) | Self::Header { .. } | Self::BodyIncomplete | Self::TlsNeeded => "invalid_request",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::ModelNotFound { .. } => "model_not_found",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed { .. } => "method_not_allowed",
            Self::NoCapableTarget { .. } => "no_capable_target",
            Self::ExcludedByPolicy => "excluded_by_policy",
            Self::PluginDenied => "plugin_denied",
            Self::QueueFull => "queue_full",
            Self::QueueTimeout => "queue_timeout",
            Self::Draining => "draining",
            Self::NoHealthyTarget { .. } => "no_healthy_target",
            Self::RateLimited { .. } => "rate_limited",
            Self::CredentialDenied => FailureKind::AuthDenied.as_str(),
            Self::BudgetExhausted => "budget_exhausted",
            Self::Internal => INTERNAL,
            Self::Upstream(fault) => {
                let own = fault.error.as_ref().and_then(|e| e.code.clone());
                return own.filter(|_| fault.passes_on()).unwrap_or_else(|| fault.kind.as_str().to_owned());
            }
        }
        .to_owned()
    }

    /// `error.type`.
    pub fn kind(&self) -> &'static str {
        match self.status().as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        }
    }

    /// How the request ended.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Body(_)
            | Self::Header { .. }
            | Self::BodyIncomplete
            | Self::BodyTooLarge { .. }
            | Self::ModelNotFound { .. }
            | Self::TlsNeeded
            | Self::NotFound
            | Self::MethodNotAllowed { .. }
            | Self::NoCapableTarget { .. } => Outcome::InvalidRequest,
            Self::InvalidApiKey { .. }
            | Self::RouteNotAllowed
            | Self::CallerLimit { .. }
            | Self::CallerBudget { .. }
            | Self::ExcludedByPolicy
            | Self::PluginDenied => Outcome::Denied,
            Self::QueueFull | Self::QueueTimeout | Self::Draining => Outcome::Refused,
            Self::NoHealthyTarget { .. } | Self::RateLimited { .. } | Self::Internal => Outcome::Exhausted,
            Self::CredentialDenied => Outcome::RejectedUpstream,
            Self::BudgetExhausted => Outcome::BudgetExhausted,
            Self::Upstream(fault) if fault.passes_on() || fault.kind == FailureKind::AuthDenied => {
                Outcome::RejectedUpstream
            }
            Self::Upstream(_) => Outcome::Exhausted,
        }
    }

    /// `error.param`.
    pub fn param(&self) -> Option<String> {
        match self {
            Self::Body(BodyError::Field { field, .. }) => Some((*field).to_owned()),
            Self::Body(BodyError::Duplicate(key)) => Some(key.clone()),
            Self::ModelNotFound { .. } | Self::RouteNotAllowed => Some("model".to_owned()),
            Self::Upstream(fault) if fault.passes_on() => fault.error.as_ref().and_then(|e| e.param.clone()),
            _ => None,
        }
    }

    /// When the client may try again; every 429 and 503 says so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::NoHealthyTarget { wait } | Self::RateLimited { wait } => Some(wait.unwrap_or_default()),
            Self::CallerLimit { wait, .. } | Self::CallerBudget { wait } => {
                Some(wait.unwrap_or(Duration::MAX))
            }
            Self::Upstream(fault) if fault.retry_after.is_some() => fault.retry_after,
            _ => matches!(self.status().as_u16(), 429 | 503).then_some(Duration::from_secs(1)),
        }
    }

    /// Trying again would bring the same.
    pub fn is_final(&self) -> bool {
        match self {
            Self::CredentialDenied => true,
            Self::NoHealthyTarget { wait }
            | Self::RateLimited { wait }
            | Self::CallerLimit { wait, .. }
            | Self::CallerBudget { wait } => wait.is_none_or(|wait| wait > Duration::from_secs(60)),
            Self::Upstream(fault) => {
                fault.passes_on()
                    || matches!(fault.kind, FailureKind::AuthDenied | FailureKind::QuotaExhausted)
                    || fault.retry_after.is_some_and(|wait| wait > Duration::from_secs(60))
            }
            _ => false,
        }
    }

    /// `error.message`: what was expected, what came, what to do. Never a host, a key or an upstream's
    /// text, but for the kinds whose reason is passed on.
    pub fn message(&self) -> String {
        match self {
            Self::InvalidApiKey { sent: false } => {
                "an API key is needed; send it as \"authorization: Bearer KEY\"".to_owned()
            }
            Self::InvalidApiKey { sent: true } => "the API key is not known here".to_owned(),
            Self::RouteNotAllowed => {
                "the API key is not for this model; GET /v1/models lists those it is for".to_owned()
            }
            Self::CallerLimit { of, wait } => caller_message(*of, wait.is_none()).to_owned(),
            Self::CallerBudget { wait: None } => {
                "the request may cost more than the API key may spend on a day".to_owned()
            }
            Self::CallerBudget { wait: Some(_) } => {
                "what the API key may spend today leaves no room for the request".to_owned()
            }
            Self::Body(error) => error.to_string(),
            Self::Header { name, expected } => format!("{name}: expected {expected}"),
            Self::BodyIncomplete => "the request body did not arrive whole in time".to_owned(),
            Self::BodyTooLarge { limit } => format!("the request body is larger than {limit} bytes"),
            Self::ModelNotFound { model } => {
                let shown: String = model.chars().take(128).collect();
                format!("the model {shown:?} does not exist here; GET /v1/models lists those that do")
            }
            Self::TlsNeeded => {
                "this port speaks TLS: use https://, and treat a key that was sent without it as known to others".to_owned()
            }
            Self::NotFound => "there is nothing at this path".to_owned(),
            Self::MethodNotAllowed { allow } => format!("this path takes {allow}"),
            Self::NoCapableTarget { lacks } => {
                let mut shown = lacks.as_str();
                if shown.len() > LACKS_SHOWN {
                    let end = (0..=LACKS_SHOWN).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or(0);
                    shown = &shown[..end];
                }
                format!("no target of this model can take the request: {shown}")
            }
            Self::ExcludedByPolicy => "the routing policy excludes every target for this request".to_owned(),
            Self::PluginDenied => "a policy plugin that must decide could not".to_owned(),
            Self::QueueFull => "too many requests are waiting already".to_owned(),
            Self::QueueTimeout => "no place became free in time".to_owned(),
            Self::Draining => "the gateway is shutting down".to_owned(),
            Self::NoHealthyTarget { .. } => {
                "no healthy target: every target of this model is failing".to_owned()
            }
            Self::RateLimited { .. } => "every target of this model is rate limited".to_owned(),
            Self::CredentialDenied => "the upstream refuses the gateway's credential".to_owned(),
            Self::BudgetExhausted => "the time budget of the request is used up".to_owned(),
            Self::Internal => "the gateway failed; its log knows the request id".to_owned(),
            Self::Upstream(fault) => upstream_message(fault),
        }
    }
}

fn caller_message(of: CallerLimit, never: bool) -> &'static str {
    match (of, never) {
        (CallerLimit::InFlight, _) => "too many requests of the API key run at a time",
        (CallerLimit::Requests, _) => "the API key has used up its requests per minute",
        (CallerLimit::Tokens, false) => "the tokens per minute of the API key leave no room for the request",
        (CallerLimit::Tokens, true) => {
            "the request may take more tokens than the API key has per minute; shorten it or its output limit"
        }
    }
}

fn upstream_message(fault: &LastFault) -> String {
    if fault.passes_on()
        && let Some(message) = fault.error.as_ref().and_then(|e| e.message.as_deref())
    {
        return message.to_owned();
    }
    let what = match fault.kind {
        FailureKind::RetryableTimeout => "the upstream did not answer in time",
        FailureKind::RetryableRateLimit => "the upstream is rate limiting the gateway",
        FailureKind::RetryableUpstream => "the upstream failed",
        FailureKind::QuotaExhausted => "the quota of the gateway at the upstream is used up",
        FailureKind::ModelUnavailable => "the upstream does not serve the model",
        FailureKind::ContextLengthExceeded => "the request is longer than the model's context",
        FailureKind::ContentFiltered => "a content filter of the upstream refused the request",
        FailureKind::AuthDenied => "the upstream refuses the gateway's credential",
        FailureKind::InvalidRequest => "the upstream calls the request invalid",
        FailureKind::GatewaySaturated => "the gateway has no free place for the upstream",
    };
    match (fault.transport, fault.status) {
        (Some(class), _) => format!("{what}: {class}"),
        (None, Some(status)) => format!("{what}: status {status}"),
        (None, None) => what.to_owned(),
    }
}

#[cfg(test)]
mod tests;
