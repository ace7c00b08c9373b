//! Draws the cockpit's heat map: a line per node, or several nodes per line, with one character per
//! GPU. The height and color of the character show the utilization.

use std::collections::{BTreeMap, HashMap};

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::cells::{Tint, style, tint_of};
use super::snapshot::gpu_name;
use crate::format::text::clean;
use gpuctl_core::model::values::natural::Natural;
use gpuctl_core::model::values::whole;
use gpuctl_core::model::{NodeUsage, Percent, Reading};

/// Draws one GPU: `▁` to `█` by utilization, `·` when it is free, `×` when no pod holds it and no
/// job can get it, `!` when it is faulty, `?` when its utilization is unknown.
fn cell(gpu: &Reading, node: Option<&NodeUsage>, color: bool) -> (char, Style) {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (letter, tint) = match (&gpu.fault, gpu.held, gpu.utilization) {
        (Some(_), ..) => ('!', Tint::Bad),
        (None, Some(false), _) if node.is_some_and(has_none_free) => ('×', Tint::Dim),
        (None, Some(false), _) => ('·', Tint::Dim),
        (None, _, None) => ('?', Tint::Dim),
        (None, _, Some(Percent(value))) => {
            // Eight characters cover 0 to 100 %, and 100 % itself counts as the last one.
            let step = whole::to_usize(value.clamp(0.0, 100.0) / 100.0 * 8.0).min(7);
            (BLOCKS[step], tint_of(gpu.utilization))
        }
    };
    (letter, style(tint, color))
}

/// Whether no job can get a GPU of this node.
fn has_none_free(node: &NodeUsage) -> bool {
    !node.accepts_pods() || node.gpus.total > 0 && node.gpus.free() == Some(0)
}

/// Draws the map with lines of at most `width` columns. If it needs more than `height` lines, it
/// shows the lines around the selected GPU.
pub(super) fn map<'g>(
    gpus: impl Iterator<Item = &'g Reading>,
    hosts: &HashMap<&str, &NodeUsage>,
    selected: Option<&str>,
    (width, height): (usize, usize),
    color: bool,
) -> Vec<Line<'static>> {
    let mut nodes: BTreeMap<Natural<'_>, Vec<&Reading>> = BTreeMap::new();
    gpus.for_each(|gpu| nodes.entry(Natural(&gpu.node)).or_default().push(gpu));
    let name_width = nodes
        .keys()
        .map(|Natural(name)| clean(name).chars().count())
        .max()
        .unwrap_or(0)
        // Truncate long node names, so that more GPUs fit on a line.
        .min(32);
    let cells = nodes.values().map(Vec::len).max().unwrap_or(0);
    // Separate the nodes on a line by two spaces.
    let block = name_width + 1 + cells + 2;
    let beside = (width.saturating_sub(1) / block.max(1)).max(1);
    let (mut lines, mut of_selected) = (Vec::new(), 0);
    let nodes: Vec<(Natural<'_>, Vec<&Reading>)> = nodes.into_iter().collect();
    for row in nodes.chunks(beside) {
        let mut spans = vec![Span::raw(" ")];
        for (Natural(name), gpus) in row {
            let label: String = clean(name).chars().take(name_width).collect();
            spans.push(Span::raw(format!("{label:<name_width$} ")));
            for gpu in gpus {
                let (letter, mut style) = cell(gpu, hosts.get(name).copied(), color);
                if selected == Some(gpu_name(gpu).as_str()) {
                    style = style.add_modifier(Modifier::REVERSED);
                    of_selected = lines.len();
                }
                spans.push(Span::styled(letter.to_string(), style));
            }
            spans.push(Span::raw(" ".repeat(cells - gpus.len() + 2)));
        }
        lines.push(Line::from(spans));
    }
    let first = of_selected
        .saturating_sub(height / 2)
        .min(lines.len().saturating_sub(height));
    lines.into_iter().skip(first).take(height).collect()
}
