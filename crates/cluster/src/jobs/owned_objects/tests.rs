//! Tests for `owned_objects.rs`.

use serde_json::json;

use super::*;
use crate::transport::protobuf::decode;
use crate::transport::protobuf::encode::encoded_list;

/// Fields without a protobuf number decode as empty, so this test lists every kind.
#[test]
fn every_kind_of_object_is_read_in_protobuf() {
    for kind in [
        "apps/v1/deployments",
        "apps/v1/statefulsets",
        "apps/v1/replicasets",
        "apps/v1/daemonsets",
        "batch/v1/jobs",
        "batch/v1/cronjobs",
    ] {
        let list = json!({"items": [{"metadata": {"name": "a"}, "spec": {}, "status": {}}]});
        let (message, bytes) = encoded_list(&format!("/apis/{kind}"), &list);
        let objects: ListPage<NamedObject<'_>> = decode(&bytes, message).unwrap();
        let deleted: ListPage<EndingObject<'_>> = decode(&bytes, message).unwrap();
        assert_eq!(
            (
                &*objects.items[0].metadata.name,
                &*deleted.items[0].metadata.name
            ),
            ("a", "a"),
            "{kind}"
        );
    }
}
