//! What a job has from its site: values with where they came from, and what no field of a file can
//! say.

/// What a job has from the site's defaults and no field of a file can say.
#[derive(Clone, Debug, Default)]
pub struct SiteShare {
    /// Taints that it tolerates.
    pub tolerations: Vec<SiteToleration>,
    /// Labels that a node must have.
    pub node_selector: Vec<(String, String)>,
    /// `pod:` may not name other tolerations.
    pub tolerations_enforced: bool,
    /// `pod:` may not name other values of these labels.
    pub node_selector_enforced: bool,
    /// Every value that came from the site.
    pub inherited: Vec<Inherited>,
    /// Warnings about site values that the job does not get.
    pub withheld: Vec<String>,
}

/// A taint that is tolerated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteToleration {
    /// The key of the taint.
    pub key: String,
    /// Its value; any without one.
    pub value: Option<String>,
    /// Its effect.
    pub effect: &'static str,
}

/// A value that a job has from the site's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// The field of the job's document, such as `job.queue`.
    pub field: String,
    /// The value as the site wrote it; dots for a secret.
    pub value: String,
    /// `all`, `kind training`, `pool infer-pool`.
    pub scope: String,
    /// The same, or a hash of a secret: what tells that the site changed it.
    pub mark: String,
    /// True when the file had another value, which the site does not allow.
    pub replaced: bool,
}
