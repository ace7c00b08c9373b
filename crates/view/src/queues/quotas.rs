//! Renders quotas as JSON, or as text with bars.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::Percent;
use gpuctl_core::model::QuotaUse;
use gpuctl_core::model::values::quantity;

use crate::format::table::{Table, left, right};
use crate::format::text::{bar, clean};
use crate::{Format, TextStyle};
use gpuctl_core::model::values::whole;

/// The JSON output of `get quotas`.
#[derive(JsonSchema, Serialize)]
pub struct QuotaList<'a> {
    total: usize,
    items: Vec<QuotaItem<'a>>,
}

#[derive(JsonSchema, Serialize)]
pub struct QuotaItem<'a> {
    namespace: &'a str,
    name: &'a str,
    /// The gpuctl quota document that it belongs to.
    quota: Option<&'a str>,
    hard: &'a BTreeMap<String, String>,
    /// Values are `null` for resources that the cluster has not counted yet.
    used: BTreeMap<&'a str, Option<&'a str>>,
}

pub fn list(quotas: &[QuotaUse], total: usize) -> QuotaList<'_> {
    QuotaList {
        total,
        items: quotas.iter().map(item).collect(),
    }
}

/// Builds the JSON of a quota.
pub fn item(quota: &QuotaUse) -> QuotaItem<'_> {
    QuotaItem {
        namespace: &quota.namespace,
        name: &quota.name,
        quota: quota.quota.as_deref(),
        hard: &quota.hard,
        used: quota
            .hard
            .keys()
            .map(|key| (key.as_str(), quota.used.get(key).map(String::as_str)))
            .collect(),
    }
}

pub fn names(quotas: &[QuotaUse]) -> Vec<String> {
    quotas
        .iter()
        .map(|quota| format!("{}/{}", clean(&quota.namespace), clean(&quota.name)))
        .collect()
}

/// Returns the used percentage of a limit, or `None` if the limit is zero or the use is not counted
/// yet.
fn percent(quota: &QuotaUse, key: &str) -> Option<Percent> {
    let hard = quantity::milli(quota.hard.get(key)?)?;
    let used = quantity::milli(quota.used.get(key)?)?;
    Percent::from_ratio(used as f64, hard as f64)
}

/// Returns the highest use of any limit in thousandths of that limit, or `None` if no use is
/// counted yet.
pub fn fullest(quota: &QuotaUse) -> Option<u64> {
    let percentages = quota.hard.keys().filter_map(|key| percent(quota, key));
    percentages
        .map(|percent| whole::to_u64(percent.0 * 10.0))
        .max()
}

/// Shortens `requests.nvidia.com/gpu` to `nvidia.com/gpu`.
fn short(key: &str) -> &str {
    key.strip_prefix("requests.").unwrap_or(key)
}

pub fn table(quotas: &[QuotaUse], format: Format, headers: bool, style: TextStyle) -> String {
    let mut table = Table::new([
        left("NAMESPACE"),
        left("QUOTA"),
        left("RESOURCE"),
        right("USED"),
        right("HARD"),
    ]);
    for quota in quotas {
        for (key, hard) in &quota.hard {
            table.row(vec![
                quota.namespace.clone().into(),
                quota.name.clone().into(),
                short(key).into(),
                quota
                    .used
                    .get(key)
                    .cloned()
                    .unwrap_or_else(|| "-".to_owned())
                    .into(),
                hard.clone().into(),
            ]);
        }
    }
    table.show(format, headers, style)
}

/// Renders the quotas of a namespace as text.
pub fn text(namespace: &str, quotas: &[QuotaUse], style: TextStyle) -> String {
    let mut text = format!("{}\n", clean(namespace));
    let widest = quotas
        .iter()
        .flat_map(|quota| quota.hard.keys())
        .map(|key| short(key).len())
        .max()
        .unwrap_or(0);
    for quota in quotas {
        text.push_str(&format!("  {}\n", clean(&quota.name)));
        for (key, hard) in &quota.hard {
            let used = quota.used.get(key).map_or("-", String::as_str);
            let bar =
                percent(quota, key).map_or_else(String::new, |percent| bar(percent, 20, style));
            text.push_str(
                format!(
                    "    {:<widest$}  {used:>8} of {hard:<8}  {bar}",
                    clean(short(key))
                )
                .trim_end(),
            );
            text.push('\n');
        }
    }
    text
}
