//! Tests names that contain their namespace, and namespaces that do not exist.

use gpuctl_sandbox::Persona;

use crate::support::Scene;

#[test]
fn a_name_may_contain_its_namespace() {
    let scene = Scene::with_nodes("spaces", 1);
    scene.create("a", "");
    scene.until("a", "running", None);
    // This user has no rights in the namespace of the context.
    scene.allow_edit(Persona::Dave);
    let dave = scene.seen_by(Persona::Dave);
    for arguments in [
        &["describe", "job", "spaces/a"][..],
        &["get", "jobs", "spaces/a"],
        &["why", "spaces/a"],
        &["why", "spaces/Job/a"],
        &["tree", "spaces/a"],
        &["tree", "spaces/Job/a"],
        &["describe", "workload", "spaces/a"],
        &["describe", "workload", "spaces/Job/a"],
    ] {
        dave.gpuctl_anywhere(arguments).ok();
    }
    // A kind is not a namespace, whether or not `-n` is given.
    scene.gpuctl(&["tree", "job/a"]).ok();
    scene.gpuctl(&["why", "job/a"]).ok();
}

#[test]
fn a_namespace_that_contradicts_the_option_is_refused() {
    let scene = Scene::new("contradiction");
    for arguments in [
        &["describe", "job", "default/a"][..],
        &["get", "jobs", "default/a"],
        &["logs", "default/a"],
        &["wait", "default/a", "--for", "ended"],
        &["why", "default/a"],
        &["why", "default/Job/a"],
        &["tree", "default/a"],
        &["tree", "default/Job/a"],
        &["describe", "workload", "default/a"],
        &["pause", "job", "default/a"],
        &["delete", "job", "default/a"],
        &["delete", "job", "default/a*"],
    ] {
        scene
            .gpuctl(arguments)
            .exits(2)
            .says("but `-n contradiction` was given");
    }
}

#[test]
fn a_mistyped_namespace_is_an_error() {
    let scene = Scene::new("mistyped");
    let in_namespace = |name: &str, arguments: &[&str]| {
        scene.gpuctl_anywhere(&[&["-n", name], arguments].concat())
    };
    for arguments in [
        &["get", "jobs"][..],
        &["get", "quotas"],
        &["get", "claims"],
        &["get", "workloads"],
        &["get", "consumers"],
        &["get", "workload-metadata"],
        &["why", "--all"],
        &["describe", "job", "a"],
        &["tree", "a"],
    ] {
        let run = in_namespace("mistypd", arguments)
            .exits(4)
            .says("namespace `mistypd` does not exist")
            .says("did you mean `mistyped`?");
        assert_eq!(run.out, "", "{arguments:?}");
        in_namespace("Mis_typed", arguments)
            .exits(2)
            .says("a namespace of at most 63 lower-case letters");
    }
    scene
        .gpuctl_anywhere(&["describe", "job", "mistypd/a"])
        .exits(4)
        .says("namespace `mistypd` does not exist");
    scene
        .gpuctl_anywhere(&["describe", "job", "Mis_typed/a"])
        .exits(2)
        .says("`Mis_typed` in `Mis_typed/a` is not a valid namespace");
    // An empty namespace that exists is not an error.
    in_namespace("mistyped", &["get", "jobs"]).ok();
}
