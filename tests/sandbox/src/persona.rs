//! The users of a cluster, each with their own token.

/// A user of the API server, subject to real RBAC. Only `Admin` has permissions by default; tests
/// bind roles to the others. There are several, so that one test's roles do not affect another
/// test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persona {
    Admin,
    Viewer,
    Alice,
    Bob,
    Carol,
    /// Has a user name from single sign-on, which contains characters that are invalid in label
    /// values.
    Dave,
    /// Can read nodes if a test allows it.
    Erin,
    /// Has only the permissions that a test's roles grant.
    Frank,
    /// Can read one namespace.
    Grace,
    /// Like `Frank`, but the audit log records all her requests.
    Heidi,
}

impl Persona {
    pub(crate) const ALL: [Self; 10] = [
        Self::Admin,
        Self::Viewer,
        Self::Alice,
        Self::Bob,
        Self::Carol,
        Self::Dave,
        Self::Erin,
        Self::Frank,
        Self::Grace,
        Self::Heidi,
    ];

    /// Name of the kubeconfig and of its context.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Viewer => "viewer",
            Self::Alice => "alice",
            Self::Bob => "bob",
            Self::Carol => "carol",
            Self::Dave => "dave",
            Self::Erin => "erin",
            Self::Frank => "frank",
            Self::Grace => "grace",
            Self::Heidi => "heidi",
        }
    }

    /// User name that the API server sees.
    pub fn user(self) -> &'static str {
        match self {
            Self::Dave => "oidc:dave@example.com",
            other => other.name(),
        }
    }

    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::Admin => "system:masters",
            Self::Viewer => "viewers",
            _ => "engineers",
        }
    }

    pub(crate) fn token(self) -> String {
        format!("{}-sandbox-token", self.name())
    }
}
