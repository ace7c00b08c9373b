//! `gpuctl auth check --emit-role`: prints roles and bindings without writing to the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use serde_json::Value;

use crate::cli::access::auth_check::{AuthCheck, NamedService, RoleExtent};
use crate::context::Context;
use crate::observe::metrics::{self, PrometheusPath};
use crate::verbs;
use gpuctl_cluster::{Connection, PrometheusService};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::contract::labels::HOME;
use gpuctl_core::model::contract::rights::{
    Need, PROXY, Right, RightScope, Task, UserRole, service_list,
};
use gpuctl_manifest::render::{BindingSubject, ProxyGrant, RoleSet, SubjectKind, dns_name, roles};
use gpuctl_view::format::objects::ObjectList;
use gpuctl_view::{Format, json, yaml};

/// Prints the roles as YAML documents or as a JSON list.
pub(super) async fn print(
    args: &AuthCheck,
    tasks: Option<Vec<&'static Task>>,
    extent: RoleExtent,
    context: &Context,
) -> Result<ExitCode, Error> {
    let person = person(extent);
    if let (Some(person), Some(_)) = (person, &tasks) {
        let word = person.word();
        let error = Error::usage(format!(
            "`--emit-role={word}` prints a role for users and accepts no commands"
        ));
        return Err(error.hint(format!(
            "run `gpuctl auth check --emit-role={word}`, or name the commands with --emit-role"
        )));
    }
    let connection = context.connect().await?;
    let namespace = (!context.all_namespaces && person != Some(UserRole::Operator))
        .then_some(connection.namespace.as_str());
    let (mut rights, mut remarks) = rights(tasks.as_deref(), extent);
    let proxy = match rights.remove(&PROXY) {
        true => proxy(args, &mut rights, &mut remarks, &connection, context).await?,
        false => None,
    };
    let has_home = connection.namespaces().exists(HOME).await?;
    check_home_rights(&mut rights, has_home, &mut remarks, context);
    let subjects = subjects(args, &connection, context).await?;
    let name = role_name(tasks.as_deref(), extent, namespace);
    let set = RoleSet {
        name: &name,
        rights: &rights,
        namespace,
        proxy: proxy.as_ref(),
        subjects: &subjects,
    };
    let objects = roles(&set);
    context.terminal.print(&match args.print.options().format {
        Format::Json => json(&ObjectList::new(&objects)),
        _ => commented_yaml(&remarks, &objects),
    })?;
    if tasks.is_none() && person.is_none() {
        let roles = "--emit-role=viewer, researcher or operator prints a role for users";
        context.terminal.warn(&format!(
            "this role allows every command, which only administrators need; {roles}"
        ));
    }
    context.terminal.hint(
        "review the roles, then apply them: gpuctl auth check … --emit-role | kubectl apply -f -",
    );
    Ok(ExitCode::SUCCESS)
}

/// Collects the rights that the role grants, with remarks for the administrator.
fn rights(tasks: Option<&[&'static Task]>, extent: RoleExtent) -> (BTreeSet<Right>, Vec<String>) {
    if let Some(person) = person(extent) {
        let remarks = vec![person.summary().to_owned()];
        return (person.rights(verbs::tasks()), remarks);
    }
    let selected: Vec<&Task> = match tasks {
        Some(tasks) => tasks.to_vec(),
        None => verbs::tasks().collect(),
    };
    let rights = match extent {
        RoleExtent::Full => selected.iter().flat_map(|task| task.complete()).collect(),
        _ => selected.iter().flat_map(|task| task.sufficient()).collect(),
    };
    let remarks = remarks(&selected, &rights);
    (rights, remarks)
}

/// Renders the objects as YAML, after the remarks as comments.
fn commented_yaml(remarks: &[String], objects: &[Value]) -> String {
    let comments: String = remarks
        .iter()
        .map(|remark| format!("# {remark}\n"))
        .collect();
    let documents = objects.iter().map(yaml).collect::<Vec<_>>().join("---\n");
    format!("{comments}{documents}")
}

fn person(extent: RoleExtent) -> Option<UserRole> {
    match extent {
        RoleExtent::Minimal | RoleExtent::Full => None,
        RoleExtent::Viewer => Some(UserRole::Viewer),
        RoleExtent::Researcher => Some(UserRole::Researcher),
        RoleExtent::Operator => Some(UserRole::Operator),
    }
}

/// Names the role. Roles with different rules have different names, so that applying one does not
/// change another user's permissions.
fn role_name(tasks: Option<&[&Task]>, extent: RoleExtent, namespace: Option<&str>) -> String {
    let commands = tasks.map(|tasks| {
        tasks
            .iter()
            .map(|task| task.words.replace(' ', "-"))
            .collect::<Vec<_>>()
            .join("-")
    });
    let mut name = "gpuctl".to_owned();
    for part in [
        commands.as_deref(),
        person(extent).map(UserRole::word),
        (extent == RoleExtent::Full).then_some("full"),
    ] {
        name = part.map_or(name.clone(), |part| format!("{name}-{part}"));
    }
    if namespace.is_none() && person(extent) != Some(UserRole::Operator) {
        name.push_str("-everywhere");
    }
    dns_name(&name)
}

/// Lists the rights that only some arguments need, so that an administrator can remove them.
fn remarks(tasks: &[&Task], rights: &BTreeSet<Right>) -> Vec<String> {
    let always_needed: BTreeSet<Right> = tasks.iter().flat_map(|task| task.needed()).collect();
    let mut uses_by_right: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for rule in tasks.iter().flat_map(|task| task.rules()) {
        let (Need::For(use_name) | Need::Optional(use_name)) = rule.need else {
            continue;
        };
        if rule
            .rights()
            .any(|right| rights.contains(&right) && !always_needed.contains(&right))
        {
            let separator = if rule.group.is_empty() { "" } else { "." };
            let scope = if rule.scope == RightScope::Namespace {
                ""
            } else {
                " outside the namespace"
            };
            uses_by_right
                .entry(format!(
                    "{} {}{separator}{}{scope}",
                    rule.verbs.join(", "),
                    rule.resource,
                    rule.group
                ))
                .or_default()
                .insert(use_name);
        }
    }
    if uses_by_right.is_empty() {
        return Vec::new();
    }
    let lines = uses_by_right.into_iter().map(|(right_text, use_names)| {
        let use_names: Vec<&str> = use_names.into_iter().collect();
        format!("  {right_text}: {}", use_names.join("; "))
    });
    std::iter::once(
        "Permissions that only some uses need; omit those that you do not want to grant:"
            .to_owned(),
    )
    .chain(lines)
    .collect()
}

/// Finds Prometheus' Service, to which the role grants access by name.
async fn proxy(
    args: &AuthCheck,
    rights: &mut BTreeSet<Right>,
    remarks: &mut Vec<String>,
    connection: &Connection,
    context: &Context,
) -> Result<Option<ProxyGrant>, Error> {
    let path = match &args.prometheus_service {
        Some(service) => service_path(service, connection).await?,
        None => metrics::find_path(context, connection, context.access.request_timeout).await,
    };
    let (service, needs_both_schemes) = match path {
        PrometheusPath::Url => {
            remarks.push("No permission for a Prometheus Service: your settings contain an address or disable metrics.".to_owned());
            return Ok(None);
        }
        PrometheusPath::Service { service, is_exact } => (service, !is_exact),
        PrometheusPath::Unknown(reason) => {
            let advice = "--prometheus-service NAMESPACE/NAME:PORT adds it";
            remarks.push(format!(
                "No permission to query Prometheus: its Service is unknown. {advice}."
            ));
            context.terminal.warn(&format!(
                "the role does not allow querying Prometheus: {reason}; {advice}"
            ));
            return Ok(None);
        }
    };
    if !service.is_well_known() {
        // Without this right, gpuctl tries only the usual names of the Service.
        rights.insert(service_list());
        remarks.push("list services outside the namespace: finds Prometheus, whose Service has an unusual name".to_owned());
    }
    let mut names = vec![service.proxy_name()];
    // RBAC checks proxy requests for a resource name that includes the Service's scheme. Grant both
    // names if the scheme is unknown.
    if needs_both_schemes {
        names.push(
            PrometheusService {
                secure: !service.secure,
                ..service.clone()
            }
            .proxy_name(),
        );
    }
    Ok(Some(ProxyGrant {
        namespace: service.namespace,
        names,
    }))
}

/// Resolves `--prometheus-service`, and looks up the port if the user omits it.
async fn service_path(
    service_args: &NamedService,
    connection: &Connection,
) -> Result<PrometheusPath, Error> {
    let NamedService {
        namespace,
        name,
        port,
    } = service_args;
    if let Some(port) = port {
        let service = PrometheusService::new(namespace, name, *port);
        return Ok(PrometheusPath::Service {
            service,
            is_exact: false,
        });
    }
    match connection
        .metrics()
        .prometheus_service(namespace, name)
        .await
    {
        Ok(Some(service)) => Ok(PrometheusPath::Service {
            service,
            is_exact: true,
        }),
        Ok(None) => {
            let error = Error::new(
                ErrorName::NotFound,
                format!("Service `{namespace}/{name}` does not exist or has no port"),
            );
            Err(error.hint("specify its port: --prometheus-service NAMESPACE/NAME:PORT"))
        }
        Err(failure) if failure.is_forbidden() => {
            let error = Error::usage(format!(
                "you are not allowed to read the Service `{namespace}/{name}`, so its port is unknown"
            ));
            Err(error.hint("specify its port: --prometheus-service NAMESPACE/NAME:PORT"))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Drops reads of a missing namespace, because kubectl could not create the role there.
fn check_home_rights(
    rights: &mut BTreeSet<Right>,
    exists: bool,
    remarks: &mut Vec<String>,
    context: &Context,
) {
    if exists || !rights.iter().any(|right| right.scope == RightScope::Home) {
        return;
    }
    let writes = rights.iter().any(|right| {
        right.scope == RightScope::Home && !matches!(right.verb, "get" | "list" | "watch")
    });
    if writes {
        let message = format!(
            "namespace {HOME} does not exist yet; apply its role after the first pool is created"
        );
        remarks.push(message.clone());
        context.terminal.warn(&message);
    } else {
        rights.retain(|right| right.scope != RightScope::Home);
    }
}

/// The subjects of the bindings: those given by flags, or else the current user.
async fn subjects(
    args: &AuthCheck,
    connection: &Connection,
    context: &Context,
) -> Result<Vec<BindingSubject>, Error> {
    let subject = |kind, name: &String| BindingSubject {
        kind,
        name: name.clone(),
    };
    let mut subjects: Vec<BindingSubject> = args
        .users
        .iter()
        .map(|name| subject(SubjectKind::User, name))
        .collect();
    subjects.extend(
        args.groups
            .iter()
            .map(|name| subject(SubjectKind::Group, name)),
    );
    subjects.extend(args.service_accounts.iter().map(|(namespace, name)| {
        let kind = SubjectKind::ServiceAccount {
            namespace: namespace.clone(),
        };
        subject(kind, name)
    }));
    if !subjects.is_empty() {
        for subject in subjects
            .iter()
            .filter(|subject| subject.includes_everyone())
        {
            context.terminal.warn(&format!(
                "`{}` is not a single user: the bindings grant the roles to all of its members",
                subject.name
            ));
        }
        return Ok(subjects);
    }
    let user = connection.discovery().user().await?;
    match &user {
        Some(user) => {
            context.terminal.note(&format!(
                "the bindings are for you ({user}); use --user, --group or --serviceaccount for \
                 others"
            ));
        }
        None => {
            context.terminal.warn(
                "no bindings are printed, because your user name is unknown; set it with --user \
                 NAME",
            );
        }
    }
    Ok(user
        .into_iter()
        .map(|name| BindingSubject {
            kind: SubjectKind::User,
            name,
        })
        .collect())
}
