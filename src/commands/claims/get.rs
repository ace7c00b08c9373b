//! `gpuctl get claims`: lists the volume claims of existing and deleted jobs.

use std::cmp::Reverse;
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::claims::get::{ClaimSortKey, GetClaims};
use crate::context::Context;
use crate::lookup;
use crate::observe::list;
use crate::observe::rows::{ListRow, listing, read_namespaces};
use gpuctl_core::error::Error;
use gpuctl_core::model::Claim;
use gpuctl_core::model::values::natural::{self, Natural};
use gpuctl_core::model::values::quantity;
use gpuctl_core::model::values::text::count;
use gpuctl_view::Format;
use gpuctl_view::jobs::claims;

pub(crate) async fn run(args: &GetClaims, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    list::run(&options, context, async |refresh| {
        let read = async |namespace: Option<&str>| connection.storage().claims(namespace).await;
        let mut claims = read_namespaces("claims", &connection, &refresh, context, read).await?;
        let namespace = lookup::explicit_namespace(&connection);
        lookup::check_empty(&connection, namespace, refresh.first && claims.is_empty()).await?;
        if !args.show_labels {
            claims.iter_mut().for_each(|claim| claim.labels = None);
        }
        claims.retain(|claim| !args.unused || claim.pods.as_ref().is_some_and(Vec::is_empty));
        let found = claims.len();
        claims.retain(|claim| args.all || claim.is_managed);
        let others = found - claims.len();
        Ok(listing(claims, args.list.sort_by, (), &options, context).note(hidden(others)))
    })
    .await
}

/// The note about claims that the list leaves out, such as a shared data set.
fn hidden(others: usize) -> Option<String> {
    let verb = if others == 1 { "is" } else { "are" };
    (others > 0).then(|| {
        let claims = count(others as u64, "claim");
        format!("{claims} that gpuctl did not create {verb} not shown: gpuctl get claims --all")
    })
}

impl ListRow for Claim {
    const NONE: &'static str = "no claims found";
    type Key = ClaimSortKey;
    type Facts = ();

    fn sort(rows: &mut [Self], key: Option<ClaimSortKey>) {
        let bytes = |claim: &Claim| claim.size.as_deref().and_then(quantity::milli);
        match key {
            None => {}
            Some(ClaimSortKey::Name) => {
                rows.sort_by(|a, b| natural::compare(&a.name, &b.name));
            }
            Some(ClaimSortKey::Size) => rows.sort_by_key(|claim| Reverse(bytes(claim))),
            Some(ClaimSortKey::Job) => {
                rows.sort_by(|a, b| {
                    let [a, b] = [a, b].map(|claim| claim.job.as_deref().map(Natural));
                    a.cmp(&b)
                });
            }
            Some(ClaimSortKey::Age) => rows.sort_by_key(|claim| claim.created_at),
        }
    }

    fn names(page: &[Self]) -> Vec<String> {
        claims::names(page)
    }

    fn document(page: &[Self], total: usize, (): ()) -> impl Serialize {
        claims::list(page, total)
    }

    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String {
        let (look, now) = (context.terminal.style(), context.now());
        claims::table(page, format, headers, look, now)
    }

    fn hint(page: &[Self], _total: usize) -> Option<String> {
        let orphan = page.iter().find(|claim| claim.job_exists == Some(false))?;
        Some(format!(
            "{0} keeps the data of a deleted job; a workdir with `pvc: {0}` mounts it again",
            orphan.name
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_counts_the_claims_of_others() {
        assert_eq!(hidden(0), None);
        assert_eq!(
            hidden(2).unwrap(),
            "2 claims that gpuctl did not create are not shown: gpuctl get claims --all"
        );
    }

    #[test]
    fn the_hint_keeps_the_data_of_deleted_jobs() {
        let claim = |job_exists: Option<bool>| Claim {
            name: "sft-out".to_owned(),
            job_exists,
            ..Claim::default()
        };
        let hint = Claim::hint(&[claim(Some(true)), claim(Some(false))], 2).unwrap();
        assert_eq!(
            hint,
            "sft-out keeps the data of a deleted job; a workdir with `pvc: sft-out` mounts it again"
        );
        assert_eq!(Claim::hint(&[claim(None), claim(Some(true))], 2), None);
    }
}
