//! Handles the site's defaults: reads them and applies them to the jobs of a run, and writes them
//! for administrators.

use crate::deploy::events::{DeployEvent, Reporter};
use crate::deploy::inputs::InputDocument;
use crate::deploy::pools::report_namespace_access;
use gpuctl_cluster::{Connection, HomeMark, StoredDefaults};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::contract::labels::PRIVATE;
use gpuctl_core::model::contract::submission::{FromSite, Made};
use gpuctl_local::cache::Cache;
use gpuctl_manifest::render::{self, Object, claim_name};
use gpuctl_manifest::spec::{
    self, Document, JobDocument, Problems, SiteDefaults, WorkdirSource, inherit, over_limits,
};

/// Message for users who cannot read the defaults of a marked namespace.
const FORBIDDEN: &str =
    "you are not allowed to `get configmaps/gpuctl-defaults` in namespace gpuctl-system";

/// The site's defaults, or the reason why they do not apply.
#[derive(Debug, Default)]
pub(crate) enum Site {
    /// There are no defaults.
    #[default]
    None,
    Known(Box<SiteDefaults>),
    /// No administrator has marked the namespace of the defaults, so they do not apply. Contains
    /// the names of the fields that they set.
    Unmarked(String),
    /// The user cannot see whether the namespace of the defaults is marked, so they do not apply.
    /// Contains the names of the fields that they set.
    UnseenMark(String),
    /// The user cannot read the defaults, which may not exist.
    Hidden,
    /// The user cannot read the defaults, although their namespace is marked and not private.
    Forbidden,
    /// The defaults exist but cannot be parsed. Contains the reason.
    Unreadable(String),
}

impl Site {
    /// Reads the defaults, and checks that an administrator has marked their namespace.
    pub(crate) async fn read(connection: &Connection) -> Result<Self, Error> {
        let (stored, mark) =
            futures::future::join(connection.site().defaults(), connection.site().home_mark())
                .await;
        let stored = match stored {
            Ok(None) => return Ok(Self::None),
            Ok(Some(stored)) => stored,
            Err(failure) if failure.is_forbidden() => return Self::hidden(connection, mark?).await,
            Err(failure) => return Err(failure.into()),
        };
        // Check the mark before the content. Without a mark, any user may have written the object,
        // and its content must not prevent submissions.
        let mark = mark?;
        let site = read(&stored);
        let fields = site
            .as_ref()
            .map_or_else(|_| "unreadable".to_owned(), field_names);
        Ok(match (mark, site) {
            (HomeMark::Hidden, _) => Self::UnseenMark(fields),
            (HomeMark::Unmarked, _) => Self::Unmarked(fields),
            (HomeMark::Marked, Ok(site)) => Self::Known(Box::new(site)),
            (HomeMark::Marked, Err(problem)) => Self::Unreadable(problem.to_string()),
        })
    }

    /// Handles defaults that the user cannot read. A marked namespace that is not private may
    /// contain limits for all users, so gpuctl submits nothing. Without a mark, the defaults would
    /// not apply.
    async fn hidden(connection: &Connection, mark: HomeMark) -> Result<Self, Error> {
        if mark != HomeMark::Marked {
            return Ok(Self::Hidden);
        }
        let home = connection.site().home().await?;
        let is_private =
            home.is_none_or(|home| home["metadata"]["annotations"][PRIVATE].is_string());
        Ok(if is_private {
            Self::Hidden
        } else {
            Self::Forbidden
        })
    }

    /// Fails if the site's limits cannot be read, unless the user ignores them.
    pub(crate) fn require_readable(&self, ignore: bool) -> Result<(), Error> {
        let (cause, hint) = match self {
            Self::Unreadable(problem) => (
                problem.as_str(),
                "ask your administrator; `gpuctl describe defaults` shows the problem, and a \
                 newer gpuctl may be able to read them",
            ),
            Self::Forbidden => (
                FORBIDDEN,
                "ask your administrator for permission to `get configmaps/gpuctl-defaults` in \
                 namespace gpuctl-system",
            ),
            _ => return Ok(()),
        };
        if ignore {
            return Ok(());
        }
        let error = Error::new(
            ErrorName::InvalidSpecification,
            "cannot read the site's defaults, so nothing was submitted",
        );
        let error = error.cause(cause).hint(hint);
        Err(error.hint(
            "use `--ignore-defaults` to submit without them; the site's limits and enforced values \
             then do not apply",
        ))
    }

    /// Reports why defaults that the site may have are not applied.
    pub(crate) fn report(&self, connection: Option<&Connection>, reporter: &dyn Reporter) {
        match self {
            Self::Unreadable(problem) => {
                reporter.warn(&not_applied(problem));
            }
            Self::Forbidden => reporter.warn(&not_applied(FORBIDDEN)),
            Self::UnseenMark(fields) => reporter.warn(&format!(
                "the site's defaults are not applied ({fields}): you are not allowed to see whether \
                 namespace gpuctl-system is marked as trusted; ask your administrator for permission \
                 to `get clusterroles/gpuctl-home` and `get namespaces/gpuctl-system`",
            )),
            Self::Unmarked(fields) => reporter.warn(&format!(
                "the site's defaults are not applied ({fields}): no administrator has marked the \
                 namespace gpuctl-system as trusted; an administrator can run `gpuctl apply -f \
                 defaults.yaml --trust-namespace`",
            )),
            Self::Hidden => {
                // Report this only once per cluster and hour, because most of these clusters have
                // no defaults.
                let cache = Cache::hourly_rows();
                let key = connection.map(|c| format!("hidden defaults of {}", c.server()));
                let message = "you are not allowed to read the site's defaults in gpuctl-system, \
                               so none are applied";
                match key.filter(|key| cache.get(key).is_none()) {
                    Some(key) => {
                        reporter.note(message);
                        cache.put(&key, &true);
                    }
                    None => reporter.report(DeployEvent::Detail(message)),
                }
            }
            Self::None | Self::Known(_) => {}
        }
    }

    /// Applies the defaults to a job. Returns an error if the job exceeds the site's limits.
    pub(crate) fn fill(&self, input: &mut InputDocument) -> Option<Error> {
        let (Self::Known(site), Document::Job(job)) = (self, &mut input.document) else {
            return None;
        };
        inherit(job, site);
        let list = over_limits(job, site);
        let problems = Problems {
            file: input.file.clone(),
            text: input.text.clone(),
            list,
        };
        (!problems.list.is_empty()).then(|| Error::over_limits(problems))
    }
}

/// Lists the fields that the defaults set, such as `env, limits`.
fn field_names(site: &SiteDefaults) -> String {
    let mut fields: Vec<&str> = site.rows().iter().map(|row| row.field).collect();
    fields.sort_unstable();
    fields.dedup();
    if fields.is_empty() {
        "no fields".to_owned()
    } else {
        fields.join(", ")
    }
}

/// Parses the stored defaults. The error contains the reason if this version cannot read them.
pub(crate) fn parse_stored(
    data: Option<StoredDefaults>,
) -> Result<Option<(SiteDefaults, StoredDefaults)>, Error> {
    let Some(data) = data else { return Ok(None) };
    let error = |problem| {
        let error = Error::new(
            ErrorName::InvalidSpecification,
            "this version cannot read the site's defaults",
        );
        error
            .cause(problem)
            .hint("use a newer gpuctl; `gpuctl version` shows your version")
    };
    read(&data).map(|site| Some((site, data))).map_err(error)
}

/// Keeps the storage class of existing claims. The site's class is only for new claims, because
/// Kubernetes does not allow changes to a claim's `storageClassName`.
pub(crate) async fn keep_classes(
    connection: &Connection,
    namespace: &str,
    job: &mut JobDocument,
) -> Result<(), Error> {
    let id = job.id().to_owned();
    for workdir in &mut job.workdirs {
        let WorkdirSource::Size { storage_class, .. } = &mut workdir.source else {
            continue;
        };
        let field = format!("storage.workdirs[{}].storageClass", workdir.path);
        // Replace only an inherited class. A class in the file must match the claim.
        if !job.site.inherited.iter().any(|value| value.field == field) {
            continue;
        }
        let claim_class = connection
            .storage()
            .class_of_claim(namespace, &claim_name(&id, &workdir.path))
            .await?;
        if let Some(class) = claim_class.filter(|class| class != storage_class) {
            *storage_class = class;
            job.site.inherited.retain(|value| value.field != field);
        }
    }
    Ok(())
}

fn not_applied(problem: &str) -> String {
    format!("the site's defaults are not applied, because they cannot be read: {problem}")
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StoredDefaultsError {
    /// The first problem of the document.
    #[error("{0}")]
    Invalid(String),
    #[error("the object does not contain a document of `kind: defaults`")]
    NoDocument,
}

/// Parses defaults in their stored form.
pub(crate) fn read(stored: &StoredDefaults) -> Result<SiteDefaults, StoredDefaultsError> {
    let parsed = spec::parse(SiteDefaults::NAME, &stored.text).map_err(|problems| {
        let first = problems.list.first();
        StoredDefaultsError::Invalid(
            first.map_or_else(|| problems.to_string(), |problem| problem.message.clone()),
        )
    })?;
    let site_defaults = parsed
        .documents
        .into_iter()
        .find_map(|document| match document {
            Document::Defaults(site) => Some(*site),
            _ => None,
        });
    site_defaults.ok_or(StoredDefaultsError::NoDocument)
}

/// Warns about values of the file that the site replaces, and about values of the site that the job
/// does not get.
pub(crate) fn replaced(input: &InputDocument) -> Vec<String> {
    let Document::Job(job) = &input.document else {
        return Vec::new();
    };
    let message = |value: &spec::Inherited| {
        format!(
            "`{}` is {} instead of the value in the file: the site enforces it (defaults, {})",
            value.field, value.value, value.scope
        )
    };
    job.site
        .inherited
        .iter()
        .filter(|value| value.replaced)
        .map(message)
        .chain(job.site.withheld.iter().cloned())
        .collect()
}

/// Lists the values that a job inherited from the site.
pub(crate) fn inherited_values(job: &JobDocument) -> Vec<FromSite> {
    let value = |value: &spec::Inherited| FromSite {
        field: value.field.clone(),
        value: value.value.clone(),
        scope: value.scope.clone(),
        enforced: value.replaced,
    };
    job.site.inherited.iter().map(value).collect()
}

/// Marks the namespace of the definitions, for administrators.
pub(crate) async fn trust_namespace(
    connection: &Connection,
    private: bool,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    // The mark contains the namespace's UID, so the namespace must exist first.
    connection.pools().ensure_home(private).await?;
    if connection.site().mark_home(private).await? {
        reporter.note("namespace gpuctl-system is now trusted: its defaults apply to all jobs");
        return Ok(());
    }
    let error = Error::new(
        ErrorName::Forbidden,
        "you are not allowed to mark the namespace gpuctl-system as trusted",
    );
    Err(error.hint(
        "the mark is a ClusterRole `gpuctl-home` and its binding, which a cluster \
         administrator can create",
    ))
}

/// Options for writing the defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DefaultsOptions {
    /// Whether to change an existing object.
    pub change: bool,
    /// Whether to take over fields that other managers own.
    pub force: bool,
    /// Whether only administrators can read the namespace.
    pub private: bool,
    pub dry_run: bool,
}

/// Builds the object that stores the defaults, with the current user as its author.
pub(crate) async fn object(connection: &Connection, site: &SiteDefaults) -> Result<Object, Error> {
    let user = connection.discovery().user().await?;
    Ok(render::defaults(site, user.as_deref()))
}

/// Writes the defaults of a file.
pub(crate) async fn create(
    connection: &Connection,
    site: &SiteDefaults,
    options: DefaultsOptions,
    reporter: &dyn Reporter,
) -> Result<Made, Error> {
    let object = object(connection, site).await?;
    let result = |status, message: &str| {
        let name = SiteDefaults::NAME.to_owned();
        Ok(Made {
            kind: "defaults",
            name,
            status,
            message: message.to_owned(),
            dry_run: options.dry_run,
        })
    };
    let live = connection.writes().live(&object).await?;
    let status = match &live {
        // Ignore differences in labels and annotations, such as the author.
        Some(live) if live["data"] == object.body["data"] => {
            return result("unchanged", "match the file");
        }
        Some(_) if !options.change => {
            let error = Error::new(
                ErrorName::AlreadyExists,
                "the site already has defaults, and they differ from the file",
            );
            return Err(error.hint(
                "use `gpuctl apply -f` to update them; `gpuctl diff -f` shows the differences",
            ));
        }
        Some(_) => "updated",
        None => "created",
    };
    if options.dry_run {
        return result(status, "would be set for all jobs submitted from now on");
    }
    report_namespace_access(
        connection.pools().ensure_home(options.private).await?,
        options.private,
        reporter,
    );
    connection
        .writes()
        .apply_with(&object, false, options.force)
        .await?;
    result(status, "set for all jobs submitted from now on")
}

/// Deletes the defaults. Existing jobs keep their inherited values.
pub(crate) async fn delete(
    connection: &Connection,
    ignore_not_found: bool,
) -> Result<Option<String>, Error> {
    if connection.site().remove_defaults().await? {
        return Ok(Some("existing jobs keep their values".to_owned()));
    }
    if ignore_not_found {
        Ok(None)
    } else {
        Err(none())
    }
}

pub(crate) fn none() -> Error {
    Error::new(ErrorName::NotFound, "this site has no defaults")
        .hint("`gpuctl init defaults` prints a starter file")
}

#[cfg(test)]
mod tests;
