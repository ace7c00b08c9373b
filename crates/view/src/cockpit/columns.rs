//! Columns of the cockpit's lists, and their priorities on narrow screens.

use super::lists::Tab;

/// A column, aligned to the right if `right` is set. On narrow screens, columns with a higher
/// `yields` are hidden first, and columns with 0 are never hidden.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CockpitColumn {
    pub title: &'static str,
    pub right: bool,
    pub yields: u8,
}

const fn left(title: &'static str, yields: u8) -> CockpitColumn {
    CockpitColumn {
        title,
        right: false,
        yields,
    }
}

const fn right(title: &'static str, yields: u8) -> CockpitColumn {
    CockpitColumn {
        title,
        right: true,
        yields,
    }
}

const CURVE: CockpitColumn = left("LAST 30 MIN", 3);

const TYPE_COLUMNS: [CockpitColumn; 8] = [
    left("GPU TYPE", 0),
    right("NODES", 0),
    right("GPUS", 0),
    right("HELD", 0),
    right("FREE", 0),
    right("LOST", 1),
    right("CORDONED", 2),
    right("UTIL", 0),
];

/// Lists the columns of a tab from left to right.
pub(crate) fn columns(tab: Tab) -> Vec<CockpitColumn> {
    match tab {
        Tab::Jobs => vec![
            left("NAMESPACE/NAME", 0),
            left("KIND", 6),
            left("STATUS", 0),
            right("GPUS", 0),
            left("TYPE", 2),
            right("UTIL", 0),
            CURVE,
            right("MEMORY/GPU", 4),
            right("WATTS", 5),
            right("AGE", 0),
        ],
        Tab::Waiting => vec![
            left("NAMESPACE/NAME", 0),
            left("KIND", 1),
            left("STATUS", 0),
            right("WANTS", 0),
            right("HOLDS", 0),
            right("WAITS", 0),
        ],
        Tab::Nodes => vec![
            left("NODE", 0),
            left("STATUS", 0),
            left("TYPE", 1),
            left("POOL", 5),
            right("GPUS", 0),
            right("UTIL", 0),
            CURVE,
            right("MEMORY/GPU", 2),
            right("WATTS", 4),
        ],
        Tab::Gpus => vec![
            left("GPU", 0),
            left("HOLDER", 0),
            right("UTIL", 0),
            CURVE,
            right("MEMORY", 1),
            right("WATTS", 2),
            right("TEMP", 4),
        ],
        Tab::Queues => vec![
            left("QUEUE", 0),
            left("SYSTEM", 1),
            right("QUOTA", 0),
            right("USED", 0),
            right("BORROWED", 2),
            right("RUNNING", 0),
            right("WAITING", 0),
        ],
        Tab::Overview => TYPE_COLUMNS.to_vec(),
    }
}
