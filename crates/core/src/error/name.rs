//! Names of errors, which scripts read from `error` in the JSON output. Each name belongs to one
//! kind and therefore has one exit code.

use std::fmt;

use super::ErrorKind;

const SIGTERM: u8 = 15;

/// Name of an error in CamelCase. The names are part of gpuctl's contract with scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorName {
    AlreadyExists,
    ClaimConflict,
    CommandFailed,
    CommandNotFound,
    CompletionFailed,
    ControlFailed,
    CopyFailed,
    FieldConflict,
    FileNotWritten,
    GpuTypeNotAllowed,
    Immutable,
    KindConflict,
    LabelConflict,
    LimitExceeded,
    ListenFailed,
    ManFailed,
    NamespaceNotMade,
    NamespaceTerminating,
    NoDefinition,
    NodeInOtherPool,
    NodeNotAnswering,
    NotConfirmed,
    NotInPool,
    NotOurs,
    NotRunning,
    NotScalable,
    NotifyFailed,
    OutputFailed,
    Paused,
    PodSecurity,
    PolicyDenied,
    PoolInUse,
    PortTaken,
    PriorityClassNotFound,
    PrometheusRefused,
    QuotaExceeded,
    RuntimeFailed,
    SelectionFailed,
    ServiceAccountNotFound,
    SessionFailed,
    Terminating,
    TextfileFailed,
    UserUnknown,
    WebhookDenied,
    WebhookFailed,
    InvalidKubeconfig,
    InvalidLabel,
    InvalidPrometheus,
    NamespaceConflict,
    ProtectedLabel,
    Usage,
    DuplicateName,
    FileTooLarge,
    InvalidSpecification,
    NameTooLong,
    NotConvertible,
    AmbiguousName,
    ContainerNotFound,
    FieldNotFound,
    FileNotFound,
    LabelNotFound,
    NoHistory,
    NoPreviousTry,
    NodeNotFound,
    NotFound,
    PodNotFound,
    PoolNotFound,
    QuotaNotFound,
    Forbidden,
    ReadOnly,
    Unauthenticated,
    AnswerTooLarge,
    EndlessList,
    ConnectionLost,
    MetricsOff,
    NoCluster,
    NotInBundle,
    NotKubernetes,
    NotPrometheus,
    PrometheusForbidden,
    PrometheusNotFound,
    PrometheusRedirect,
    PrometheusTimeout,
    PrometheusUnreachable,
    RequestTimeout,
    Unreachable,
    UnreadableObject,
    Timeout,
    JobEnded,
    Interrupted,
    Terminated,
    /// A reason reported by the API server, a pod or a specification. gpuctl does not define these.
    Reported {
        kind: ErrorKind,
        reason: Box<str>,
    },
}

impl ErrorName {
    /// Returns the kind of the name. The match is exhaustive, so every new name gets an exit code.
    #[expect(
        clippy::too_many_lines,
        reason = "a table that maps each name to its kind"
    )]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::AlreadyExists
            | Self::ClaimConflict
            | Self::CommandFailed
            | Self::CommandNotFound
            | Self::CompletionFailed
            | Self::ControlFailed
            | Self::CopyFailed
            | Self::FieldConflict
            | Self::FileNotWritten
            | Self::GpuTypeNotAllowed
            | Self::Immutable
            | Self::KindConflict
            | Self::LabelConflict
            | Self::LimitExceeded
            | Self::ListenFailed
            | Self::ManFailed
            | Self::NamespaceNotMade
            | Self::NamespaceTerminating
            | Self::NoDefinition
            | Self::NodeInOtherPool
            | Self::NotConfirmed
            | Self::NotInPool
            | Self::NotOurs
            | Self::NotRunning
            | Self::NotScalable
            | Self::NotifyFailed
            | Self::OutputFailed
            | Self::Paused
            | Self::PodSecurity
            | Self::PolicyDenied
            | Self::PoolInUse
            | Self::PortTaken
            | Self::PriorityClassNotFound
            | Self::PrometheusRefused
            | Self::QuotaExceeded
            | Self::RuntimeFailed
            | Self::SelectionFailed
            | Self::SessionFailed
            | Self::ServiceAccountNotFound
            | Self::Terminating
            | Self::TextfileFailed
            | Self::UserUnknown
            | Self::WebhookDenied
            | Self::WebhookFailed => ErrorKind::Request,
            Self::InvalidKubeconfig
            | Self::InvalidLabel
            | Self::InvalidPrometheus
            | Self::NamespaceConflict
            | Self::ProtectedLabel
            | Self::Usage => ErrorKind::Usage,
            Self::DuplicateName
            | Self::FileTooLarge
            | Self::InvalidSpecification
            | Self::NameTooLong
            | Self::NotConvertible => ErrorKind::Specification,
            Self::AmbiguousName
            | Self::ContainerNotFound
            | Self::FieldNotFound
            | Self::FileNotFound
            | Self::LabelNotFound
            | Self::NoHistory
            | Self::NoPreviousTry
            | Self::NodeNotFound
            | Self::NotFound
            | Self::PodNotFound
            | Self::PoolNotFound
            | Self::QuotaNotFound => ErrorKind::NotFound,
            Self::Forbidden
            | Self::PrometheusForbidden
            | Self::ReadOnly
            | Self::Unauthenticated => ErrorKind::Access,
            Self::AnswerTooLarge
            | Self::EndlessList
            | Self::ConnectionLost
            | Self::MetricsOff
            | Self::NoCluster
            | Self::NodeNotAnswering
            | Self::NotInBundle
            | Self::NotKubernetes
            | Self::NotPrometheus
            | Self::PrometheusNotFound
            | Self::PrometheusRedirect
            | Self::PrometheusTimeout
            | Self::PrometheusUnreachable
            | Self::RequestTimeout
            | Self::Unreachable
            | Self::UnreadableObject => ErrorKind::Unreachable,
            Self::Timeout => ErrorKind::Timeout,
            Self::JobEnded => ErrorKind::JobEnded,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::Terminated => ErrorKind::Terminated,
            Self::Reported { kind, .. } => *kind,
        }
    }

    /// Returns the name for a process that a signal ended. Its exit code is the one that shells use
    /// for the signal.
    pub fn from_signal(number: u8) -> Self {
        match number {
            SIGTERM => Self::Terminated,
            _ => Self::Interrupted,
        }
    }

    /// Wraps a reason that another program reported.
    pub fn reported(kind: ErrorKind, reason: &str) -> Self {
        Self::Reported {
            kind,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for ErrorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reported { reason, .. } => f.write_str(reason),
            // The names in the contract equal the variants' identifiers.
            known => write!(f, "{known:?}"),
        }
    }
}
