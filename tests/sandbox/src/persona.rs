//! The users of a cluster, each with a token of its own.

/// Who asks: one token each, so that every test meets real RBAC. Only `Admin` may do anything
/// unless a test binds a role; the others differ so that tests do not lend each other rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persona {
    Admin,
    Viewer,
    Alice,
    Bob,
    Carol,
    /// The name that single sign-on gives: it holds characters that no label value may.
    Dave,
    /// May read nodes where a test says so.
    Erin,
    /// Has only what roles of a test grant.
    Frank,
    /// May read one namespace.
    Grace,
    /// Has what roles of a test grant; every request of hers is in the audit log.
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

    /// The name of the kubeconfig and its context.
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

    /// The name by which the API server knows it.
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
