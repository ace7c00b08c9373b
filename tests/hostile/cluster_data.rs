//! Objects of a tenant that mislead commands of other users: owners, pool definitions, defaults, times, numbers.

use gpuctl_sandbox::Persona;

use crate::support::gpuctl_as;

#[test]
fn an_empty_cluster_has_no_workloads() {
    let run = gpuctl_as(Persona::Admin, &["get", "workloads", "-A", "-o", "json"], "").ok();
    assert_eq!(run.json()["data"], serde_json::json!([]));
}

#[test]
fn a_name_that_leads_out_of_its_path_is_refused() {
    gpuctl_as(Persona::Admin, &["describe", "job", "../x"], "").exits(2).says("error: ");
}
