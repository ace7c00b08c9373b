//! Names one place of the config file: a key, or a key of a kubeconfig context.

use super::keys::{CONTEXTS, KEYS, OF_CONTEXTS, SettingKey};

/// A key of the config file, at the top level or in `contexts.NAME`.
#[derive(Clone, Debug)]
pub(crate) struct SettingPath {
    pub key: &'static SettingKey,
    /// The kubeconfig context that the value is for.
    pub context: Option<String>,
}

impl SettingPath {
    /// Finds the place with this name, such as `prometheus.url` or `contexts.NAME.prometheus.url`.
    /// Names of contexts may contain dots, but no control characters.
    pub(crate) fn find(name: &str) -> Option<Self> {
        if let Some(key) = SettingKey::find(name) {
            return Some(Self { key, context: None });
        }
        let in_context = name.strip_prefix(CONTEXTS)?.strip_prefix('.')?;
        let place = |key: &'static SettingKey| {
            let context = in_context.strip_suffix(key.name)?.strip_suffix('.')?;
            let is_name = !context.is_empty() && !context.chars().any(char::is_control);
            is_name.then(|| Self {
                key,
                context: Some(context.to_owned()),
            })
        };
        Self::keys_of_contexts().find_map(place)
    }

    /// Lists the keys that a context may have.
    pub(crate) fn keys_of_contexts() -> impl Iterator<Item = &'static SettingKey> {
        KEYS.iter()
            .filter(|key| key.path().0.is_some_and(|name| OF_CONTEXTS.contains(&name)))
    }

    /// Returns the name of a key in a context.
    pub(crate) fn name_in_context(key: &SettingKey, context: &str) -> String {
        format!("{CONTEXTS}.{context}.{}", key.name)
    }

    pub(crate) fn name(&self) -> String {
        match &self.context {
            Some(context) => Self::name_in_context(self.key, context),
            None => self.key.name.to_owned(),
        }
    }

    /// Returns the keys of the nested maps, from the outermost.
    pub(super) fn segments(&self) -> Vec<&str> {
        let context = self.context.as_deref().map(|context| [CONTEXTS, context]);
        let (section, name) = self.key.path();
        let outer = context.into_iter().flatten().chain(section);
        outer.chain([name]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_contexts_are_found_by_name() {
        let find = |name: &str| {
            let path = SettingPath::find(name)?;
            assert_eq!(path.name(), name);
            Some(path.segments().join(" "))
        };
        assert_eq!(find("namespace").as_deref(), Some("namespace"));
        assert_eq!(find("prometheus.url").as_deref(), Some("prometheus url"));
        assert_eq!(
            find("contexts.lab.prometheus.url").as_deref(),
            Some("contexts lab prometheus url")
        );
        assert_eq!(
            find("contexts.arn:aws:eks:eu-west-1:1:cluster/a.b.safety.read_only").as_deref(),
            Some("contexts arn:aws:eks:eu-west-1:1:cluster/a.b safety read_only")
        );
        for name in [
            "contexts",
            "contexts.lab",
            "contexts.prometheus.url",
            "contexts..prometheus.url",
            "contexts.lab.ai.model",
            "contexts.a\u{1b}[2Jb.prometheus.url",
            "contexts.a\nb.prometheus.url",
        ] {
            assert_eq!(find(name), None, "{name:?}");
        }
    }
}
