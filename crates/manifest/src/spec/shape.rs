//! Types of the table of fields: what a field accepts and which kinds have it.

/// Kinds that a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldScope {
    /// Every kind.
    All,
    /// Trainings.
    Training,
    /// Trainings and inference: what may run on several nodes together.
    Distributed,
    /// Inference and compute.
    Service,
    /// Everything with a port: inference, compute, notebook.
    Serving,
}

/// What a field may hold.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Text; numbers and booleans become their text.
    Text,
    /// A reference of an image.
    Image,
    /// A DNS label of at most 63 characters.
    Label,
    /// A name as Kubernetes objects have it.
    ObjectName,
    /// One of these words.
    Word(&'static [&'static str]),
    /// From, to.
    Whole(u32, u32),
    /// True or false.
    Boolean,
    /// Bytes with their unit.
    Bytes,
    /// A quantity of CPUs.
    Cpu,
    /// A time such as `30s`.
    Duration,
    /// At most an hour.
    ShortDuration,
    /// A path from the root.
    AbsolutePath,
    /// A path of a model.
    ModelPath,
    /// A path of a URL.
    UrlPath,
    /// A part of a GPU.
    Share,
    /// Devices of the network between nodes.
    Rdma,
    /// A type of GPU, in any spelling.
    GpuType,
    /// A string for a shell, or a list of words.
    Command,
    /// Environment variables.
    Variables,
    /// A path, or a map with path and port.
    HealthCheck,
    /// The word of a Pod Security level, or a map.
    Security,
    /// Files that are sent along.
    Files,
    /// Labels of Kubernetes.
    Labels,
    /// Names with a text each.
    TextMap,
    /// A value or a list of such.
    OneOrMany(&'static Shape),
    /// A list of paths or of these maps.
    Workdirs(&'static [Field]),
    /// A map with these fields.
    Block(&'static [Field]),
    /// A map of anything.
    Overlay,
    /// A map node → type, or a list of nodes.
    PoolNodes,
    /// A map of maps with these fields, by the name of an object.
    ByName(&'static [Field]),
    /// A list of maps with these fields.
    ListOf(&'static [Field]),
    /// A key of a label or taint, with or without a prefix.
    LabelKey,
    /// Labels that nodes have, Kubernetes' own included.
    NodeLabels,
}

/// One field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Spellings, the canonical one first.
    pub names: &'static [&'static str],
    /// What values are accepted.
    pub shape: Shape,
    needed: bool,
    needed_to_serve: bool,
    /// The kinds that have the field.
    pub of: FieldScope,
    /// One sentence for `explain`.
    pub about: &'static str,
    /// A value to begin with, as YAML writes it; empty where there is none to show.
    pub sample: &'static str,
}

/// Returns the spellings of the field with this canonical name; none for one that the table does
/// not have.
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
        of: FieldScope::All,
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

    pub(super) const fn of(self, of: FieldScope) -> Self {
        Self { of, ..self }
    }

    /// Needed where a port is: in services, not in notebooks.
    pub(super) const fn needed_to_serve(self) -> Self {
        Self {
            needed_to_serve: true,
            ..self
        }
    }

    /// Returns true when a document of this kind must have it.
    pub fn is_needed(&self, kind: &str) -> bool {
        self.needed || (self.needed_to_serve && matches!(kind, "inference" | "compute"))
    }

    /// Returns the canonical spelling.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// Returns true when a document of this kind may have it.
    pub fn is_of(&self, kind: &str) -> bool {
        match self.of {
            FieldScope::All => true,
            FieldScope::Training => kind == "training",
            FieldScope::Distributed => matches!(kind, "training" | "inference"),
            FieldScope::Service => matches!(kind, "inference" | "compute"),
            FieldScope::Serving => matches!(kind, "inference" | "compute" | "notebook"),
        }
    }
}
