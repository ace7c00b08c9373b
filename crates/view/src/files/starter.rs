//! Generates the starter files of `init`.

use gpuctl_manifest::spec::reference::{KINDS, fields_of_kind};
use gpuctl_manifest::spec::shape::{Field, Shape};

use super::reference::sample;

/// Returns true if a starter sets this optional field.
fn begins_with(kind: &str, path: &str) -> bool {
    match path {
        "resources" | "resources.gpu" => !matches!(kind, "compute"),
        "service.health_check" => kind == "inference",
        "environment.command" => kind != "notebook",
        "namespace" => kind == "quota",
        "nodes" => kind == "pool",
        "all" | "all.env" => kind == "defaults",
        _ => false,
    }
}

/// Renders a starter file, with all but the required fields and some optional ones commented out.
pub fn starter(kind: &str) -> String {
    let about = KINDS
        .iter()
        .find(|(name, _)| *name == kind)
        .map_or("", |(_, about)| about);
    let mut text = format!(
        "# yaml-language-server: $schema=gpuctl.schema.json\n# {about}. Editors complete and check it: gpuctl schema > gpuctl.schema.json\nkind: {kind}\n"
    );
    fill(&mut text, fields_of_kind(kind), kind, "", 0, true);
    text
}

fn fill(text: &mut String, fields: &[Field], kind: &str, parent: &str, depth: usize, on: bool) {
    let indent = "  ".repeat(depth);
    for field in fields.iter().filter(|field| field.applies_to(kind)) {
        let path = if parent.is_empty() {
            field.name().to_owned()
        } else {
            format!("{parent}.{}", field.name())
        };
        // Comment out all fields of a block that is commented out.
        let on = on
            && (field.is_needed(kind)
                || field.name() == "version" && depth == 0
                || begins_with(kind, &path));
        let comment = if on { "" } else { "# " };
        if depth > 0 || field.name() != "version" {
            text.push_str(&format!("{indent}# {}\n", field.about));
        }
        match field.shape {
            Shape::Block(inner) => {
                text.push_str(&format!("{indent}{comment}{}:\n", field.name()));
                fill(text, inner, kind, &path, depth + 1, on);
            }
            _ => text.push_str(&format!(
                "{indent}{comment}{}: {}\n",
                field.name(),
                sample(field, kind, &path)
            )),
        }
    }
}

#[cfg(test)]
mod tests;
