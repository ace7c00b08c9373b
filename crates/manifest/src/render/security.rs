//! Builds security contexts: the fields that Pod Security requires, and the group that can write to
//! volumes.

use k8s_openapi::api::core::v1::{
    Capabilities, PodSecurityContext, SeccompProfile, SecurityContext,
};

use crate::spec::{JobDocument, WorkdirSource};

/// Default group of new volumes, which otherwise belong to root. Notebook images run as another
/// user.
const GROUP: i64 = 1000;

/// Builds the pod's security context.
pub(super) fn pod_context(job: &JobDocument) -> Option<PodSecurityContext> {
    let security = &job.security;
    let fs_group = security
        .fs_group
        .map(i64::from)
        .or_else(|| default_group(job));
    let context = PodSecurityContext {
        run_as_user: security.run_as.map(i64::from),
        run_as_non_root: security.restricted.then_some(true),
        fs_group,
        // By default the kubelet changes the group of every file on each mount. `OnRootMismatch`
        // skips a volume whose root directory already has the group.
        fs_group_change_policy: fs_group.map(|_| "OnRootMismatch".to_owned()),
        seccomp_profile: security.restricted.then(|| SeccompProfile {
            localhost_profile: None,
            type_: "RuntimeDefault".to_owned(),
        }),
        ..PodSecurityContext::default()
    };
    (context != PodSecurityContext::default()).then_some(context)
}

/// Returns the group of the volumes if the file sets none: the configured user's ID. Without a
/// user, only new volumes get a group, because existing volumes may contain files of other users.
fn default_group(job: &JobDocument) -> Option<i64> {
    let mut claims = job
        .workdirs
        .iter()
        .filter(|workdir| {
            matches!(
                workdir.source,
                WorkdirSource::Claim { .. } | WorkdirSource::Size { .. }
            )
        })
        .peekable();
    claims.peek()?;
    match job.security.run_as {
        Some(0) => None,
        Some(user) => Some(user.into()),
        None => claims
            .all(|workdir| matches!(workdir.source, WorkdirSource::Size { .. }))
            .then_some(GROUP),
    }
}

/// Builds the container's security context.
pub(super) fn container_context(job: &JobDocument) -> Option<SecurityContext> {
    job.security.restricted.then(|| SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            add: None,
            drop: Some(vec!["ALL".to_owned()]),
        }),
        ..SecurityContext::default()
    })
}
