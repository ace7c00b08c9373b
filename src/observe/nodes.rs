//! Warns about the parts of a node list that the user may not read.

use crate::cluster::InventorySnapshot;
use crate::context::Context;

/// What of the cluster could not be seen, once.
pub(crate) fn warn_of(stock: &InventorySnapshot, context: &Context) {
    if stock.unreadable.contains(&"pods") {
        context.terminal.lack("you may not list the pods of all namespaces: how many GPUs are held is not known");
    }
    if stock.unreadable.contains(&"nodes") {
        context.terminal.lack("you may not list nodes: they are shown as published, and how they are is not known");
    }
    let claims: Vec<&str> = stock.unreadable.iter().copied().filter(|what| what.starts_with("resource")).collect();
    if !claims.is_empty() {
        context
            .terminal
            .lack(&format!("you may not list {}: devices of dynamic allocation are not counted", claims.join(" and ")));
    }
}
