//! Matches claims with storage classes, volumes and nodes as Kubernetes does. Sources:
//! k8s.io/component-helpers/storage/volume and the scheduler plugins `VolumeBinding` and
//! `VolumeZone`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, TopologySelectorTerm};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::node_terms::unmet_requirement;
use gpuctl_core::model::values::quantity;

/// Provisioner of storage classes whose volumes an administrator creates.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Annotation of older objects that names their storage class.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Zone labels of volumes, each with the current name of the node label. They restrict nodes even
/// if the volume has no node affinity. Source: the scheduler plugin `VolumeZone`.
const ZONE_LABELS: [(&str, &str); 4] = [
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    (
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
];
/// Separator between the zones of a volume that several zones can reach.
const ZONE_DELIMITER: &str = "__";

/// The storage class of a claim.
#[derive(Clone, Copy, Debug)]
pub(super) enum ClaimClass<'a> {
    Class(&'a StorageClass),
    Missing(&'a str),
    /// The claim sets `storageClassName: ""`, or names no class and the cluster has no default.
    Classless,
}

/// Returns true if the class binds volumes only when the first pod is placed.
pub(super) fn is_delayed(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

pub(super) fn class_name(class: &StorageClass) -> &str {
    class.metadata.name.as_deref().unwrap_or_default()
}

/// Finds the class of a claim. A claim without a class gets the default class, even if it was
/// created before the default.
pub(super) fn class_of<'a>(
    claim: &'a PersistentVolumeClaim,
    classes: &'a [StorageClass],
) -> ClaimClass<'a> {
    let annotated = annotation(&claim.metadata, CLASS_ANNOTATION);
    let spec = claim.spec.as_ref();
    let requested = annotated.or_else(|| spec?.storage_class_name.as_deref());
    match requested {
        Some("") => ClaimClass::Classless,
        Some(requested) => classes
            .iter()
            .find(|class| class_name(class) == requested)
            .map_or(ClaimClass::Missing(requested), ClaimClass::Class),
        None => default_class(classes).map_or(ClaimClass::Classless, ClaimClass::Class),
    }
}

/// Returns the newest default class, or the first by name if several are equally new.
fn default_class(classes: &[StorageClass]) -> Option<&StorageClass> {
    let is_default = |class: &&StorageClass| {
        DEFAULT_ANNOTATIONS
            .iter()
            .any(|key| annotation(&class.metadata, key) == Some("true"))
    };
    classes.iter().filter(is_default).min_by_key(|class| {
        let created_at = class.metadata.creation_timestamp.as_ref();
        (
            std::cmp::Reverse(created_at.map(|time| time.0)),
            class_name(class),
        )
    })
}

pub(super) fn is_dynamic(class: &StorageClass) -> bool {
    !class.provisioner.is_empty() && class.provisioner != NO_PROVISIONER
}

pub(super) fn access_modes(claim: &PersistentVolumeClaim) -> &[String] {
    let spec = claim.spec.as_ref();
    spec.and_then(|spec| spec.access_modes.as_deref())
        .unwrap_or_default()
}

/// Returns the volume that is bound to a claim. A volume that the claim only names is not bound
/// until the control plane has confirmed it.
pub(super) fn bound_volume(claim: &PersistentVolumeClaim) -> Option<&str> {
    annotation(&claim.metadata, BIND_COMPLETED)?;
    requested_volume(claim)
}

/// Returns the volume that a claim names, whether it is bound or not.
pub(super) fn requested_volume(claim: &PersistentVolumeClaim) -> Option<&str> {
    let volume = claim.spec.as_ref()?.volume_name.as_deref()?;
    Some(volume).filter(|volume| !volume.is_empty())
}

/// Returns the node that the scheduler has chosen for the volume of an unbound claim.
pub(super) fn selected_node(claim: &PersistentVolumeClaim) -> Option<&str> {
    annotation(&claim.metadata, SELECTED_NODE)
}

pub(super) fn annotation<'m>(metadata: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    let value = metadata.annotations.as_ref()?.get(key)?;
    Some(value.as_str())
}

/// Returns the storage that a claim requests, in thousandths of a byte.
pub(super) fn requested_size(claim: &PersistentVolumeClaim) -> i128 {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let size = requests.and_then(|requests| requests.get("storage"));
    size.and_then(|size| quantity::milli(&size.0)).unwrap_or(0)
}

pub(super) fn volume_size(volume: &PersistentVolume) -> i128 {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref());
    let size = capacity.and_then(|capacity| capacity.get("storage"));
    size.and_then(|size| quantity::milli(&size.0)).unwrap_or(0)
}

/// How a volume suits a claim that has none yet, regardless of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum VolumeMatch {
    /// The volume is reserved for the claim, so the claim gets no other volume.
    Reserved,
    Available,
    /// Another claim holds the volume, or the volume is not available.
    Taken,
}

/// Compares a volume with the claim `name` in `namespace`. `class` is the name of the claim's
/// class, or empty. Returns `None` if the volume does not suit the claim.
pub(super) fn matching(
    claim: &PersistentVolumeClaim,
    name: &str,
    namespace: &str,
    class: &str,
    volume: &PersistentVolume,
) -> Option<VolumeMatch> {
    let spec = volume.spec.as_ref()?;
    let wanted = claim.spec.as_ref()?;
    let attributes = |class: &Option<String>| class.clone().unwrap_or_default();
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    if volume_size(volume) < requested_size(claim)
        || mode(&wanted.volume_mode) != mode(&spec.volume_mode)
        || attributes(&wanted.volume_attributes_class_name)
            != attributes(&spec.volume_attributes_class_name)
        || volume.metadata.deletion_timestamp.is_some()
    {
        return None;
    }
    let owner = spec.claim_ref.as_ref();
    let reserved = owner.is_some_and(|owner| {
        let is_same =
            owner.name.as_deref() == Some(name) && owner.namespace.as_deref() == Some(namespace);
        let uid = owner.uid.as_ref().filter(|uid| !uid.is_empty());
        is_same && (uid.is_none() || uid == claim.metadata.uid.as_ref())
    });
    if reserved {
        return Some(VolumeMatch::Reserved);
    }
    let volume_class = annotation(&volume.metadata, CLASS_ANNOTATION)
        .or(spec.storage_class_name.as_deref())
        .unwrap_or_default();
    let offered = spec.access_modes.as_deref().unwrap_or_default();
    let empty = BTreeMap::new();
    let labels = volume.metadata.labels.as_ref().unwrap_or(&empty);
    let suits = volume_class == class
        && access_modes(claim)
            .iter()
            .all(|mode| offered.contains(mode))
        && wanted
            .selector
            .as_ref()
            .is_none_or(|selector| selects(selector, labels));
    let phase = volume
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let available = owner.is_none() && phase == Some("Available");
    suits.then_some(match available {
        true => VolumeMatch::Available,
        false => VolumeMatch::Taken,
    })
}

/// Evaluates a label selector. Source: k8s.io/apimachinery/pkg/apis/meta/v1
/// (LabelSelectorAsSelector).
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten();
    let mut equal = equal.map(|(key, value)| labels.get(key) == Some(value));
    let expressions = selector.match_expressions.iter().flatten();
    let mut expressions = expressions.map(|requirement| {
        let value = labels.get(&requirement.key);
        let values = requirement.values.as_deref().unwrap_or_default();
        match requirement.operator.as_str() {
            "In" => value.is_some_and(|value| values.contains(value)),
            "NotIn" => value.is_none_or(|value| !values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    });
    equal.all(|holds| holds) && expressions.all(|holds| holds)
}

/// Returns true if a volume can be used on a node with these labels.
///
/// The scheduler passes only the labels of the node, so `matchFields` with the node's name never
/// match (`CheckNodeAffinity` in k8s.io/component-helpers/storage/volume).
pub(super) fn reaches(volume: &PersistentVolume, labels: &BTreeMap<String, String>) -> bool {
    let spec = volume.spec.as_ref();
    let affinity = spec.and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|required| {
        let mut terms = required.node_selector_terms.iter();
        terms.any(|term| unmet_requirement(term, labels, None).is_none())
    })
}

/// Returns true if the zone labels of a bound volume allow a node with these labels. Nodes without
/// zone labels are always allowed.
pub(super) fn is_in_zone(volume: &PersistentVolume, labels: &BTreeMap<String, String>) -> bool {
    if !ZONE_LABELS.iter().any(|(key, _)| labels.contains_key(*key)) {
        return true;
    }
    let empty = BTreeMap::new();
    let zones = volume.metadata.labels.as_ref().unwrap_or(&empty);
    ZONE_LABELS.iter().all(|(key, current)| {
        let Some(allowed) = zones.get(*key) else {
            return true;
        };
        let allowed: BTreeSet<&str> = allowed.split(ZONE_DELIMITER).collect();
        let zone = labels.get(*key).or_else(|| labels.get(*current));
        zone.is_some_and(|zone| allowed.contains(zone.as_str()))
    })
}

/// Returns true if a class may provision volumes for nodes with these labels (`allowedTopologies`).
pub(super) fn is_allowed(class: &StorageClass, labels: &BTreeMap<String, String>) -> bool {
    let terms = class.allowed_topologies.as_deref().unwrap_or_default();
    // As in Kubernetes, an empty term matches nothing.
    let matches = |term: &TopologySelectorTerm| {
        let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
        !expressions.is_empty()
            && expressions.iter().all(|expression| {
                labels
                    .get(&expression.key)
                    .is_some_and(|value| expression.values.contains(value))
            })
    };
    terms.is_empty() || terms.iter().any(matches)
}

/// Returns true if a volume is attached to a node, so that `ReadWriteOnce` keeps it from a second
/// node. Shares of file servers and directories of a node are only mounted.
pub(super) fn is_attached(volume: &PersistentVolume) -> bool {
    let Some(spec) = &volume.spec else {
        return false;
    };
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    let is_shared = modes
        .iter()
        .any(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany");
    let attachable = spec.csi.is_some()
        || spec.aws_elastic_block_store.is_some()
        || spec.azure_disk.is_some()
        || spec.cinder.is_some()
        || spec.gce_persistent_disk.is_some()
        || spec.vsphere_volume.is_some();
    attachable && !is_shared
}
