//! Why a plugin file is not run: one variant for each reason, each saying what was expected and what came.

use super::call::CallError;
use crate::config::ConfigErrors;

/// `reason` of a rejected plugin: metric label and page value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The file cannot be read.
    Read,
    /// Too large or empty.
    Size,
    /// Not a component.
    Magic,
    /// Broken Wasm.
    Parse,
    /// Compiled code.
    Precompiled,
    /// An import that is not there.
    Import,
    /// Not the contract, or another version of it.
    Contract,
    /// Needs more than its limits.
    Resources,
    /// Does not compile.
    Compile,
    /// Does not start.
    Instantiate,
    /// Refused its settings.
    Configure,
    /// Failed a sample call.
    Probe,
    /// Not the pinned bytes.
    Digest,
    /// Its sidecar is wrong.
    Sidecar,
    /// Its name cannot be used.
    NameConflict,
}

impl Reason {
    /// Every value, in order of declaration.
    pub const ALL: [Self; 15] = [
        Self::Read,
        Self::Size,
        Self::Magic,
        Self::Parse,
        Self::Precompiled,
        Self::Import,
        Self::Contract,
        Self::Resources,
        Self::Compile,
        Self::Instantiate,
        Self::Configure,
        Self::Probe,
        Self::Digest,
        Self::Sidecar,
        Self::NameConflict,
    ];

    /// Spelling for metrics and pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Size => "size",
            Self::Magic => "magic",
            Self::Parse => "parse",
            Self::Precompiled => "precompiled",
            Self::Import => "import",
            Self::Contract => "contract",
            Self::Resources => "resources",
            Self::Compile => "compile",
            Self::Instantiate => "instantiate",
            Self::Configure => "configure",
            Self::Probe => "probe",
            Self::Digest => "digest",
            Self::Sidecar => "sidecar",
            Self::NameConflict => "name_conflict",
        }
    }
}

/// Why a plugin file is not run.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum Rejection {
    /// The file cannot be read.
    #[error("expected a readable file: {0}")]
    Read(String),
    /// Too large.
    #[error("expected a file of at most {max} bytes, it has {size}")]
    TooLarge {
        /// Its size, as far as it was read.
        size: u64,
        /// The limit.
        max: u64,
    },
    /// Nothing in it.
    #[error("expected a Wasm component, the file is empty")]
    Empty,
    /// Other bytes.
    #[error("expected a Wasm component (it begins with 00 61 73 6d 0d 00 01 00), it begins with {0}")]
    Magic(String),
    /// A core module.
    #[error(
        "expected a Wasm component, it is a core module; build it for wasm32-wasip2, or make it one with a \
         component encoder"
    )]
    CoreModule,
    /// Compiled code.
    #[error(
        "expected Wasm, it is compiled machine code (.cwasm), which is never accepted; put the .wasm there instead"
    )]
    Precompiled,
    /// Broken Wasm.
    #[error("expected a valid component: at byte {offset}: {message}")]
    Parse {
        /// Where.
        offset: u64,
        /// What the validator says.
        message: String,
    },
    /// An import that is not on the list.
    #[error(
        "imports `{0}`, which plugins cannot have; allowed are sluice:policy/log, wasi:io and the standard streams, environment, exit and terminals of wasi:cli at 0.2"
    )]
    Import(String),
    /// An allowed import of another shape.
    #[error("its imports do not have the shape that is offered: {0}")]
    ImportShape(String),
    /// No contract at all.
    #[error(
        "exports nothing of sluice:policy; expected plugin@{accepted} and at least one of router, classifier, tagger"
    )]
    NoContract {
        /// Versions this host accepts.
        accepted: String,
    },
    /// Another version.
    #[error("was built for sluice:policy@{found}; this host accepts {accepted}")]
    Version {
        /// Its version.
        found: String,
        /// Versions this host accepts.
        accepted: String,
    },
    /// Something is not exported.
    #[error(
        "exports {found}; expected plugin and at least one of router, classifier, tagger of sluice:policy@{version}"
    )]
    Exports {
        /// What is exported of the contract.
        found: String,
        /// The version.
        version: String,
    },
    /// An export of another shape.
    #[error("an export does not have the shape of sluice:policy@{version}: {message}")]
    Shape {
        /// The version.
        version: String,
        /// What differs.
        message: String,
    },
    /// Needs too much.
    #[error("needs {what}: {found}, at most {max} allowed")]
    Resources {
        /// Of what.
        what: &'static str,
        /// How much it needs.
        found: String,
        /// The limit.
        max: u64,
    },
    /// Does not compile.
    #[error("does not compile: {0}")]
    Compile(String),
    /// Others that do not end have every place.
    #[error("could not be compiled within {0:?}: others are being compiled for long; it is tried again")]
    NoCompiler(std::time::Duration),
    /// Does not start.
    #[error("does not start: {0}")]
    Instantiate(CallError),
    /// `describe` or `configure` failed.
    #[error("`{call}` failed: {error}")]
    ConfigureCall {
        /// Which call.
        call: &'static str,
        /// How.
        error: CallError,
    },
    /// It refused its settings.
    #[error("refused its settings: {0}")]
    Configure(String),
    /// A sample call failed.
    #[error("failed a sample call ({sample}): {error}")]
    Probe {
        /// Which sample.
        sample: String,
        /// How.
        error: CallError,
    },
    /// It failed real calls in its first minutes.
    #[error("failed real calls in a row within its first {0:?}; the version before it runs again")]
    RolledBack(std::time::Duration),
    /// Not the pinned bytes.
    #[error("expected sha256 {expected}, it has {found}")]
    Digest {
        /// As pinned.
        expected: String,
        /// Of the bytes.
        found: String,
    },
    /// Its sidecar is wrong: one line for each mistake.
    #[error("{0}")]
    Sidecar(Box<ConfigErrors>),
    /// A sidecar of nothing.
    #[error("{0}")]
    SidecarAlone(String),
    /// Its name cannot be used.
    #[error("{0}")]
    NameConflict(String),
}

impl Rejection {
    /// As metrics and pages have it.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Read(_) => Reason::Read,
            Self::TooLarge { .. } | Self::Empty => Reason::Size,
            Self::Magic(_) | Self::CoreModule => Reason::Magic,
            Self::Precompiled => Reason::Precompiled,
            Self::Parse { .. } => Reason::Parse,
            Self::Import(_) | Self::ImportShape(_) => Reason::Import,
            Self::NoContract { .. } | Self::Version { .. } | Self::Exports { .. } | Self::Shape { .. } => {
                Reason::Contract
            }
            Self::Resources { .. } => Reason::Resources,
            Self::Compile(_) | Self::NoCompiler(_) => Reason::Compile,
            Self::Instantiate(_) => Reason::Instantiate,
            Self::ConfigureCall { .. } | Self::Configure(_) => Reason::Configure,
            Self::Probe { .. } | Self::RolledBack(_) => Reason::Probe,
            Self::Digest { .. } => Reason::Digest,
            Self::Sidecar(_) | Self::SidecarAlone(_) => Reason::Sidecar,
            Self::NameConflict(_) => Reason::NameConflict,
        }
    }

    /// The file may be one that is still being written, or one of two that has come first: what is wrong is what
    /// half of it looks like.
    pub const fn may_be_unfinished(&self) -> bool {
        matches!(
            self,
            Self::Empty
                | Self::Magic(_)
                | Self::Parse { .. }
                | Self::Read(_)
                | Self::Sidecar(_)
                | Self::SidecarAlone(_)
        )
    }

    /// It says nothing about the bytes: trying the same ones again may end otherwise.
    pub const fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Read(_)
                | Self::NoCompiler(_)
                | Self::Instantiate(CallError::Saturated)
                | Self::Probe { error: CallError::Saturated, .. }
        )
    }
}
