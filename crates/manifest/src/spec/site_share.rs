//! Values that a job inherits from the site's defaults, with their scopes.

/// Values that a job inherits, including those for which a manifest has no field.
#[derive(Clone, Debug, Default)]
pub struct SiteShare {
    pub tolerations: Vec<SiteToleration>,
    /// Labels that nodes must have.
    pub node_selector: Vec<(String, String)>,
    /// Whether `pod:` must not change the tolerations.
    pub tolerations_enforced: bool,
    /// Whether `pod:` must not change the values of these labels.
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
    /// The taint's value; `None` tolerates any value.
    pub value: Option<String>,
    pub effect: &'static str,
}

/// A value that a job inherits from the site's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// The field of the job's document, such as `job.queue`.
    pub field: String,
    /// The value as the site wrote it; a secret is shown as dots.
    pub value: String,
    /// For example `all`, `kind training` or `pool infer-pool`.
    pub scope: String,
    /// The value, or a hash of a secret. It shows whether the site changed the value.
    pub mark: String,
    /// Whether it replaced a different value in the file, because the site enforces it.
    pub replaced: bool,
}
