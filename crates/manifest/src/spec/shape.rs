//! Types for the reference table: the values of a field, and the kinds that have the field.

/// The document kinds that a field applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldScope {
    /// Every kind.
    All,
    /// Trainings.
    Training,
    /// Trainings and inferences, which may span nodes.
    Distributed,
    /// Inference and compute.
    Service,
    /// Kinds with a port: inference, compute and notebook.
    Serving,
}

/// Values that a field accepts.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Text. Numbers and booleans are converted to text.
    Text,
    /// An image reference.
    Image,
    /// A DNS label of at most 63 characters.
    Label,
    /// A name of a Kubernetes object.
    ObjectName,
    /// One of these words.
    Word(&'static [&'static str]),
    /// An integer from the first number to the second.
    Whole(u32, u32),
    Boolean,
    /// Bytes with a unit.
    Bytes,
    /// A CPU quantity.
    Cpu,
    /// A duration such as `30s`.
    Duration,
    /// A duration of at most an hour.
    ShortDuration,
    /// An absolute path.
    AbsolutePath,
    /// A host path of a model, or a model's name.
    ModelPath,
    /// The path of a URL.
    UrlPath,
    /// A fraction of a GPU.
    Share,
    /// RDMA devices for the network between nodes.
    Rdma,
    /// A GPU type, in any spelling.
    GpuType,
    /// A string for a shell, or a list of words.
    Command,
    /// Environment variables.
    Variables,
    /// A path, or a map with path and port.
    HealthCheck,
    /// A Pod Security level, or a map.
    Security,
    /// Local files that are copied into the container.
    Files,
    /// Labels with keys that are not reserved for gpuctl or Kubernetes.
    Labels,
    /// A map of text to text.
    TextMap,
    /// A value or a list of values.
    OneOrMany(&'static Shape),
    /// A list of paths or of maps with these fields.
    Workdirs(&'static [Field]),
    /// A map with these fields.
    Block(&'static [Field]),
    /// A map that gpuctl does not check further.
    Overlay,
    /// A map of node names to GPU types, or a list of node names.
    PoolNodes,
    /// A map of object names to maps with these fields.
    ByName(&'static [Field]),
    /// A list of maps with these fields.
    ListOf(&'static [Field]),
    /// A key of a label or taint, with or without a prefix.
    LabelKey,
    /// Labels of nodes, including Kubernetes' own.
    NodeLabels,
}

#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Spellings, the canonical one first.
    pub names: &'static [&'static str],
    pub shape: Shape,
    needed: bool,
    needed_to_serve: bool,
    /// The kinds that have the field.
    pub scope: FieldScope,
    /// One sentence for `explain`.
    pub about: &'static str,
    /// A sample value as YAML, or empty.
    pub sample: &'static str,
}

/// Returns the spellings of a field by its canonical name, or an empty list if the table lacks it.
pub(super) fn spellings(table: &[Field], name: &str) -> &'static [&'static str] {
    table
        .iter()
        .find(|field| field.name() == name)
        .map_or(&[], |field| field.names)
}

pub(super) const fn field(
    names: &'static [&'static str],
    shape: Shape,
    about: &'static str,
    sample: &'static str,
) -> Field {
    Field {
        names,
        shape,
        needed: false,
        needed_to_serve: false,
        scope: FieldScope::All,
        about,
        sample,
    }
}

impl Field {
    pub(super) const fn needed(self) -> Self {
        Self {
            needed: true,
            ..self
        }
    }

    pub(super) const fn in_scope(self, scope: FieldScope) -> Self {
        Self { scope, ..self }
    }

    /// Marks a field as required for inference and compute services, but optional for notebooks.
    pub(super) const fn needed_to_serve(self) -> Self {
        Self {
            needed_to_serve: true,
            ..self
        }
    }

    /// Returns true if a document of this kind must have the field.
    pub fn is_needed(&self, kind: &str) -> bool {
        self.needed || (self.needed_to_serve && matches!(kind, "inference" | "compute"))
    }

    /// Returns the canonical spelling.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// Returns true if a document of this kind may have the field.
    pub fn applies_to(&self, kind: &str) -> bool {
        match self.scope {
            FieldScope::All => true,
            FieldScope::Training => kind == "training",
            FieldScope::Distributed => matches!(kind, "training" | "inference"),
            FieldScope::Service => matches!(kind, "inference" | "compute"),
            FieldScope::Serving => matches!(kind, "inference" | "compute" | "notebook"),
        }
    }
}
