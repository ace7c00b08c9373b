//! Renders `tree`: the objects that an object owns, down to its pods.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::counting::forest::Branch;

use crate::TextStyle;
use crate::format::text::plain_name;

/// An object and the objects that it owns, down to its pods.
#[derive(JsonSchema, Serialize)]
pub struct TreeItem<'a> {
    kind: &'a str,
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    children: Vec<TreeItem<'a>>,
}

pub fn document(branch: &Branch) -> TreeItem<'_> {
    TreeItem {
        kind: &branch.kind,
        name: &branch.name,
        namespace: &branch.namespace,
        uid: &branch.uid,
        children: branch.children.iter().map(document).collect(),
    }
}

/// Renders a tree with box-drawing characters, or with ASCII characters.
pub fn text(branch: &Branch, style: TextStyle) -> String {
    let mut lines = format!(
        "{}/{}\n",
        plain_name(&branch.kind),
        plain_name(&branch.name)
    );
    below(branch, "", style, &mut lines);
    lines
}

fn below(branch: &Branch, indent: &str, style: TextStyle, lines: &mut String) {
    let (fork, last, through) = if style.plain {
        ("|- ", "`- ", "|  ")
    } else {
        ("├─ ", "└─ ", "│  ")
    };
    for (index, child) in branch.children.iter().enumerate() {
        let is_last = index + 1 == branch.children.len();
        lines.push_str(&format!(
            "{indent}{}{}/{}\n",
            if is_last { last } else { fork },
            plain_name(&child.kind),
            plain_name(&child.name)
        ));
        below(
            child,
            &format!("{indent}{}", if is_last { "   " } else { through }),
            style,
            lines,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lead_to_every_child() {
        let pod = |name: &str| Branch {
            kind: "Pod".into(),
            namespace: "n".into(),
            name: name.into(),
            uid: name.into(),
            children: Vec::new(),
        };
        let set = Branch {
            kind: "ReplicaSet".into(),
            children: vec![pod("a"), pod("b")],
            ..pod("rs")
        };
        let top = Branch {
            kind: "Deployment".into(),
            children: vec![set, pod("c")],
            ..pod("web")
        };
        let style = TextStyle {
            width: None,
            color: false,
            plain: false,
        };
        assert_eq!(
            text(&top, style),
            "Deployment/web\n├─ ReplicaSet/rs\n│  ├─ Pod/a\n│  └─ Pod/b\n└─ Pod/c\n"
        );
    }
}
