//! Reads all contexts of the kubeconfig for `--all-contexts`. Contexts are read concurrently, and
//! one that cannot be read is a warning.

use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use gpuctl_cluster::{Access, Connection, KubeContext};
use gpuctl_core::error::{Error, ErrorName};

/// Maximum number of contexts that are read at the same time.
const MAX_CONCURRENT: usize = 16;

/// Lists the contexts to read, with their access. Contexts that share a server are read once, as
/// the current context if it is one of them.
///
/// Fails if an option selects a single cluster.
pub(crate) fn all_contexts(context: &Context) -> Result<Vec<(String, Access)>, Error> {
    refuse_one_cluster(context)?;
    let contexts = Connection::kube_contexts(&context.access)?;
    if contexts.is_empty() {
        let error = Error::usage("`--all-contexts` needs a kubeconfig with contexts");
        return Err(error.hint("`kubectl config get-contexts` lists the contexts"));
    }
    let current = context.current_context();
    let selected = distinct(&contexts, current.as_deref());
    for SharedServer { read, others } in &selected {
        if !others.is_empty() {
            context.terminal.note(&format!(
                "context {read} is read once, because these contexts have the same server: {}",
                others.join(", ")
            ));
        }
    }
    let default_namespace = context.default_namespace()?;
    let access_to = |server: SharedServer<'_>| {
        let access = Access {
            context: Some(server.read.to_owned()),
            default_namespace: default_namespace.clone(),
            ..context.access.clone()
        };
        (server.read.to_owned(), access)
    };
    Ok(selected.into_iter().map(access_to).collect())
}

/// Refuses options that select one cluster, its credentials or its Prometheus.
fn refuse_one_cluster(context: &Context) -> Result<(), Error> {
    let overrides = &context.access.overrides;
    let refused = [
        ("--context", context.access.context.is_some()),
        ("--cluster", overrides.cluster.is_some()),
        ("--server", overrides.server.is_some()),
        ("--user", overrides.user.is_some()),
        // Sending one cluster's token to another would reveal it.
        ("--token", overrides.token.is_some()),
        (
            "--certificate-authority",
            overrides.certificate_authority.is_some(),
        ),
    ];
    if let Some((option, _)) = refused.into_iter().find(|(_, is_given)| *is_given) {
        let message = format!("`{option}` and `--all-contexts` cannot be used together");
        let error = Error::usage(message);
        return Err(error.hint(match option {
            "--token" => "remove one; GPUCTL_TOKEN also sets `--token`",
            _ => "remove one",
        }));
    }
    if context.has_one_address()? {
        let error =
            Error::usage("`--all-contexts` cannot be combined with a single Prometheus address");
        return Err(error.hint(
            "remove the address so that gpuctl finds one in each cluster, or set one for each \
             context in the config file (`contexts.NAME.prometheus.url`)",
        ));
    }
    Ok(())
}

/// The context that is read for a server, and the other contexts of this server.
#[derive(Debug, PartialEq, Eq)]
struct SharedServer<'k> {
    read: &'k str,
    others: Vec<&'k str>,
}

/// Selects a context for each server, in the order of the kubeconfig.
fn distinct<'k>(contexts: &'k [KubeContext], current: Option<&str>) -> Vec<SharedServer<'k>> {
    let mut selected: Vec<(Option<&str>, SharedServer<'k>)> = Vec::new();
    for KubeContext { name, server } in contexts {
        let server = server.as_deref();
        let same = selected
            .iter_mut()
            .find(|(other, _)| server.is_some() && *other == server);
        match same {
            Some((_, shared)) if current == Some(name.as_str()) => {
                shared
                    .others
                    .push(std::mem::replace(&mut shared.read, name.as_str()));
            }
            Some((_, shared)) => shared.others.push(name),
            None => selected.push((
                server,
                SharedServer {
                    read: name,
                    others: Vec::new(),
                },
            )),
        }
    }
    selected.into_iter().map(|(_, shared)| shared).collect()
}

/// Reads all contexts concurrently and returns the results with the names of the contexts, in the
/// order of the kubeconfig. Warns about each context that cannot be read.
///
/// Fails with the first error if no context can be read.
pub(crate) async fn read_all<T>(
    context: &Context,
    read: impl AsyncFn(&Context) -> Result<T, Error>,
) -> Result<Vec<(String, T)>, Error> {
    let selected: Vec<(String, Context)> = all_contexts(context)?
        .into_iter()
        .map(|(name, access)| {
            // Several programs cannot prompt at the same time.
            let access = Access {
                interactive: false,
                ..access
            };
            let own = context.for_kube_context(&name, access);
            (name, own)
        })
        .collect();
    // No login program prompts, so the waiting line may be drawn.
    context.terminal.allow_waiting_line();
    let work = selected.iter().map(|(_, own)| read(own));
    let results = OrderedConcurrent::new(work, MAX_CONCURRENT).all().await;
    let (mut values, mut first_error) = (Vec::new(), None);
    let count = selected.len();
    for ((name, _), result) in selected.iter().zip(results) {
        match result {
            Ok(value) => values.push((name.clone(), value)),
            Err(error) => {
                context
                    .terminal
                    .warn(&format!("skipping context {name}: {error}"));
                first_error = first_error.or(Some(error));
            }
        }
    }
    match first_error {
        Some(error) if values.is_empty() => Err(error.note(match count {
            1 => "the only context cannot be read".to_owned(),
            _ => format!("none of the {count} contexts can be read"),
        })),
        _ => Ok(values),
    }
}

/// Builds the error for a name that no context has.
pub(crate) fn missing_everywhere(kind: &str, name: &str) -> Error {
    let message = format!("{kind} `{name}` does not exist in any context that was read");
    Error::new(ErrorName::NotFound, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_of_one_server_are_read_once() {
        let context = |name: &str, server: Option<&str>| KubeContext {
            name: name.to_owned(),
            server: server.map(ToOwned::to_owned),
        };
        let contexts = [
            context("prod", Some("https://prod")),
            context("lab", Some("https://lab")),
            context("prod-admin", Some("https://prod")),
            // Without a server, nothing shows that two contexts are the same cluster.
            context("broken", None),
            context("empty", None),
        ];
        let read = |current| -> Vec<(&str, Vec<&str>)> {
            distinct(&contexts, current)
                .into_iter()
                .map(|SharedServer { read, others }| (read, others))
                .collect()
        };
        let expected = |read, others| {
            vec![
                (read, vec![others]),
                ("lab", Vec::new()),
                ("broken", Vec::new()),
                ("empty", Vec::new()),
            ]
        };
        assert_eq!(read(Some("lab")), expected("prod", "prod-admin"));
        assert_eq!(read(Some("prod-admin")), expected("prod-admin", "prod"));
    }
}
