//! Values that a job inherits from the site's defaults, with their scopes.

/// Values that a job inherits from the site. Some of them have no field in a manifest.
#[derive(Clone, Debug, Default)]
pub struct SiteShare {
    pub tolerations: Vec<SiteToleration>,
    /// Labels that nodes must have.
    pub node_selector: Vec<(String, String)>,
    /// Whether `pod:` cannot change the tolerations.
    pub tolerations_enforced: bool,
    /// Whether `pod:` cannot change the values of these labels.
    pub node_selector_enforced: bool,
    /// All inherited values.
    pub inherited: Vec<Inherited>,
    /// Warnings about site values that the job does not inherit.
    pub withheld: Vec<String>,
}

/// A taint that jobs tolerate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteToleration {
    pub key: String,
    /// The taint's value, or `None` to tolerate any value.
    pub value: Option<String>,
    pub effect: &'static str,
}

/// A value that a job inherits from the site's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// The field of the job's document, such as `job.queue`.
    pub field: String,
    /// The value as the site wrote it. A secret is replaced by dots.
    pub value: String,
    /// Scope of the default, such as `all`, `kind training` or `pool infer-pool`.
    pub scope: String,
    /// The value, or a hash if it is a secret. A later `apply` compares it to detect a changed
    /// default.
    pub mark: String,
    /// Whether the site enforced the value over a different one in the file.
    pub replaced: bool,
}
