//! Finds the node that a label value names. Exporters write host names in other forms than
//! Kubernetes: in upper case, without the domain, as an address with a port. Sources:
//! NVIDIA/dcgm-exporter#129 (short name), #572 (`localhost`), NVIDIA/gpu-operator#1545.

use std::collections::BTreeMap;

/// Values that each host uses for itself. They name no node.
const OWN_NAMES: [&str; 4] = ["localhost", "localhost.localdomain", "127.0.0.1", "::1"];

/// Node names by all forms that may name a node.
#[derive(Clone, Debug, Default)]
pub struct NodeIndex {
    /// Node names by exact name and address.
    exact: BTreeMap<String, String>,
    /// Node names by name in lower case, or `None` if several nodes have it.
    by_lower_case: BTreeMap<String, Option<String>>,
    /// Names of nodes with a domain by the first label, or `None` if several nodes have it.
    by_first_label: BTreeMap<String, Option<String>>,
}

impl NodeIndex {
    /// Indexes nodes by pairs of a name or address and the name of its node.
    pub fn new(aliases: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut index = Self::default();
        for (alias, node) in aliases {
            let lower = alias.to_lowercase();
            if let Some(first) = short(&lower).filter(|first| *first != lower) {
                add(&mut index.by_first_label, first.to_owned(), &node);
            }
            add(&mut index.by_lower_case, lower, &node);
            index.exact.insert(alias, node);
        }
        index
    }

    pub fn is_empty(&self) -> bool {
        self.exact.is_empty()
    }

    /// Finds a node by a label value: a name in any case, with or without a domain, or an address,
    /// with or without a port. Returns `None` if no node or several nodes match.
    pub fn find(&self, text: &str) -> Option<&str> {
        if let Some(node) = self.exact.get(text) {
            return Some(node);
        }
        let lower = text.to_lowercase();
        // The value without its port, as in `10.0.0.1:9400` or `[fd00::1]:9400`.
        let host = lower
            .rsplit_once(':')
            .filter(|(_, port)| port.parse::<u16>().is_ok())
            .map_or(lower.as_str(), |(host, _)| host)
            .trim_matches(['[', ']']);
        if is_own_name(host) {
            return None;
        }
        let full = [host, lower.as_str()]
            .into_iter()
            .find_map(|name| self.by_lower_case.get(name));
        if let Some(node) = full {
            return node.as_deref();
        }
        let first = short(host)?;
        // `gpu-1.example.com` names the node `gpu-1`, and `gpu-1` the only node with a domain after
        // it. Two different domains are two hosts.
        let found = match first == host {
            true => self.by_first_label.get(first),
            false => self.by_lower_case.get(first),
        };
        found?.as_deref()
    }
}

/// Returns true for a value that each host uses for itself.
pub(crate) fn is_own_name(host: &str) -> bool {
    OWN_NAMES.contains(&host)
}

/// Returns the first label of a domain name. Addresses have none.
fn short(host: &str) -> Option<&str> {
    let first = host.split('.').next()?;
    (!first.is_empty() && first.parse::<u32>().is_err() && !host.contains(':')).then_some(first)
}

fn add(names: &mut BTreeMap<String, Option<String>>, key: String, node: &str) {
    names
        .entry(key)
        .and_modify(|known| {
            if known.as_deref() != Some(node) {
                *known = None;
            }
        })
        .or_insert_with(|| Some(node.to_owned()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(aliases: &[(&str, &str)]) -> NodeIndex {
        NodeIndex::new(
            aliases
                .iter()
                .map(|(alias, node)| ((*alias).to_owned(), (*node).to_owned())),
        )
    }

    #[test]
    fn names_match_in_any_form_that_is_unique() {
        let ec2 = "ip-172-31-54-152.us-west-2.compute.internal";
        let nodes = index(&[
            ("dgx07", "dgx07"),
            ("10.0.0.7", "dgx07"),
            ("fd00::7", "dgx07"),
            (ec2, ec2),
            ("a.one.com", "a.one.com"),
            ("a.two.com", "a.two.com"),
        ]);
        for (text, node) in [
            ("dgx07", Some("dgx07")),
            ("DGX07", Some("dgx07")),
            ("DGX07.example.com", Some("dgx07")),
            ("10.0.0.7:9400", Some("dgx07")),
            ("[fd00::7]:9400", Some("dgx07")),
            ("fd00::7", Some("dgx07")),
            ("ip-172-31-54-152", Some(ec2)),
            ("IP-172-31-54-152", Some(ec2)),
            // Another domain is another host.
            ("ip-172-31-54-152.eu-west-1.compute.internal", None),
            ("a", None),
            ("a.one.com", Some("a.one.com")),
            ("localhost", None),
            ("localhost:9400", None),
            ("10.0.0.8:9400", None),
            ("10", None),
            ("dgx08", None),
            ("", None),
        ] {
            assert_eq!(nodes.find(text), node, "{text}");
        }
    }

    #[test]
    fn names_that_differ_only_in_case_match_exactly() {
        let nodes = index(&[("gpu", "gpu"), ("GPU", "GPU"), ("localhost", "localhost")]);
        assert_eq!(
            (nodes.find("gpu"), nodes.find("GPU"), nodes.find("Gpu")),
            (Some("gpu"), Some("GPU"), None)
        );
        assert_eq!(nodes.find("localhost"), Some("localhost"));
    }
}
