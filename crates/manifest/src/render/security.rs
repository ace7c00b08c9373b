//! As whom a pod runs: the contexts that Pod Security asks for, and the group that may write to its
//! claims.

use k8s_openapi::api::core::v1::{
    Capabilities, PodSecurityContext, SeccompProfile, SecurityContext,
};

use crate::spec::{JobDocument, WorkdirSource};

/// The group of fresh claims where nothing else is said. A volume that was just made belongs to
/// root, and images of notebooks run as somebody else.
const GROUP: i64 = 1000;

/// Returns the security context of the pod.
pub(super) fn of_pod(job: &JobDocument) -> Option<PodSecurityContext> {
    let security = &job.security;
    let fs_group = security
        .fs_group
        .map(i64::from)
        .or_else(|| default_group(job));
    let context = PodSecurityContext {
        run_as_user: security.run_as.map(i64::from),
        run_as_non_root: security.restricted.then_some(true),
        fs_group,
        // Whole volumes are walked through only when their first folder is not the group's.
        fs_group_change_policy: fs_group.map(|_| "OnRootMismatch".to_owned()),
        seccomp_profile: security.restricted.then(|| SeccompProfile {
            localhost_profile: None,
            type_: "RuntimeDefault".to_owned(),
        }),
        ..PodSecurityContext::default()
    };
    (context != PodSecurityContext::default()).then_some(context)
}

/// Claims that were there before may hold the files of others, which are not given away unasked.
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

/// Returns the security context of the job's container.
pub(super) fn of_container(job: &JobDocument) -> Option<SecurityContext> {
    job.security.restricted.then(|| SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            add: None,
            drop: Some(vec!["ALL".to_owned()]),
        }),
        ..SecurityContext::default()
    })
}
