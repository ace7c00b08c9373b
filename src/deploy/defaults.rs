//! Handles the site's defaults: reads them for users who submit jobs, applies them to the jobs in a
//! run, and writes them for administrators.

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

/// Why a user cannot read the defaults of a marked namespace.
const FORBIDDEN: &str =
    "you are not allowed to `get configmaps/gpuctl-defaults` in namespace gpuctl-system";

/// Whether the site has defaults, and whether they apply.
#[derive(Debug, Default)]
pub(crate) enum Site {
    /// There are no defaults.
    #[default]
    None,
    Known(Box<SiteDefaults>),
    /// The defaults do not apply, because no administrator has marked their namespace. Holds the
    /// names of their fields.
    Unmarked(String),
    /// The defaults do not apply, because the user cannot see whether their namespace is marked.
    /// Holds the names of their fields.
    UnseenMark(String),
    /// The user cannot read the defaults, so it is unknown whether there are any.
    Hidden,
    /// The user cannot read the defaults of a namespace that is marked for all users.
    Forbidden,
    /// The defaults exist but cannot be read. Holds the reason.
    Unreadable(String),
}

impl Site {
    /// Reads the defaults and checks that an administrator marked their namespace.
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
        // Check the mark first: if anyone could have written the object, its content must not block
        // a submission.
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

    /// Handles the case that the user cannot read the defaults. If an administrator marked the
    /// namespace and it is not private, it may define limits for all users, so gpuctl submits
    /// nothing. In a namespace without a mark, there may be no defaults.
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

    /// Refuses to write jobs if the site's limits cannot be read, unless the user overrides this.
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

    /// If the site may have defaults that are not applied, reports why.
    pub(crate) fn report(&self, connection: Option<&Connection>, reporter: &dyn Reporter) {
        match self {
            Self::Unreadable(problem) => {
                reporter.warn(&not_applied(problem));
            }
            Self::Forbidden => reporter.warn(&not_applied(FORBIDDEN)),
            Self::UnseenMark(fields) => reporter.warn(&format!(
                "the site's defaults are not applied ({fields}): you are not allowed to see whether \
                 an administrator has marked the namespace gpuctl-system as trusted; ask your \
                 administrator for permission to `get clusterroles/gpuctl-home` and `get \
                 namespaces/gpuctl-system`",
            )),
            Self::Unmarked(fields) => reporter.warn(&format!(
                "the site's defaults are not applied ({fields}): no administrator has marked the \
                 namespace gpuctl-system as trusted; an administrator can run `gpuctl apply -f \
                 defaults.yaml --trust-namespace`",
            )),
            Self::Hidden => {
                // Report this once per cluster. Most of these clusters have no defaults.
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

    /// Applies the site's defaults to a job. Returns an error if the job exceeds the site's limits.
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

/// Lists the fields that the defaults set, for example `env, limits`.
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

/// Parses the stored defaults. If they cannot be read, the error is the reason.
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

/// Keeps the storage class of claims that already exist. The site's class is only for new claims,
/// because Kubernetes does not allow a claim's `storageClassName` to change.
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
        // Only an inherited class is replaced. A class in the file itself must match the claim.
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

/// Parses defaults in the form in which the cluster stores them.
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

/// Warns about values in the file that the site replaces, and about values from the site that the
/// job does not get.
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

/// Lists the values that a job got from the site.
pub(crate) fn inherited_values(job: &JobDocument) -> Vec<FromSite> {
    let value = |value: &spec::Inherited| FromSite {
        field: value.field.clone(),
        value: value.value.clone(),
        scope: value.scope.clone(),
        enforced: value.replaced,
    };
    job.site.inherited.iter().map(value).collect()
}

/// Adds the administrator's mark to the namespace that holds the definitions.
pub(crate) async fn trust_namespace(
    connection: &Connection,
    private: bool,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    // The mark contains the UID of the namespace, so the namespace must exist first.
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

/// How to write the defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DefaultsOptions {
    /// Changes the object if it already exists.
    pub change: bool,
    /// Takes over fields that other managers set.
    pub force: bool,
    /// Makes the namespace readable only by administrators.
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
        // Differences in labels and annotations, such as the author, do not count.
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

/// Deletes the defaults. Existing jobs keep the values that they got.
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
