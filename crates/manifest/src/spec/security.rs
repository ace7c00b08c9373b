//! Reads the block `security`: one word or a map.

use super::fields::{Fields, Reader};
use super::reference;
use super::tree::YamlValue;

/// `security`: the user of the pods, and the Pod Security level that they meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// Whether the pods must meet the restricted Pod Security level.
    pub restricted: bool,
    /// User id of the container.
    pub run_as: Option<u32>,
    /// Group id that owns the files on volumes.
    pub fs_group: Option<u32>,
}

pub(super) fn security(reader: &mut Reader, document: &mut Fields<'_>) -> Security {
    let Some(node) = document.take(reader, "security") else {
        return Security::default();
    };
    if let YamlValue::Scalar { .. } = node.value {
        let restricted = reader
            .word(node, "security", &reference::SECURITY_LEVELS)
            .is_some();
        return Security {
            restricted,
            ..Security::default()
        };
    }
    let Some(mut fields) = reader.map(node, "security", reference::SECURITY) else {
        return Security::default();
    };
    let level = fields
        .take(reader, "level")
        .and_then(|node| reader.word(node, "level", &reference::SECURITY_LEVELS));
    let user = fields.take(reader, "run_as");
    let run_as = user.and_then(|node| reader.whole_number(node, "run_as", 0..=u32::MAX));
    let fs_group = fields
        .take(reader, "fs_group")
        .and_then(|node| reader.whole_number(node, "fs_group", 0..=u32::MAX));
    fields.finish(reader);
    if let (Some(_), Some(0), Some(node)) = (level, run_as, user) {
        let problem = super::Problem::error(
            node.at,
            "the restricted level does not allow root",
            "set another `run_as`, such as 1000",
        );
        reader.problems.push(problem);
    }
    Security {
        restricted: level.is_some(),
        run_as,
        fs_group,
    }
}
