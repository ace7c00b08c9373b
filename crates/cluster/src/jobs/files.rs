//! Reads the contents of a job's `files` from its ConfigMap.

use k8s_openapi::api::core::v1::ConfigMap;

use crate::{Failure, handles::JobsApi};
use gpuctl_manifest::render::{file_key, files_name};
use gpuctl_manifest::spec::JobDocument;

impl JobsApi<'_> {
    /// Returns the stored contents in the order of the document, or `None` if one is missing.
    pub async fn stored_files(
        self,
        namespace: &str,
        job: &JobDocument,
    ) -> Result<Option<Vec<Vec<u8>>>, Failure> {
        let path = format!(
            "/api/v1/namespaces/{namespace}/configmaps/{}",
            files_name(job.id())
        );
        let map: Option<ConfigMap> = self.0.find(&path).await?;
        Ok(map.and_then(|map| contents(&map, job.files.len())))
    }
}

fn contents(map: &ConfigMap, count: usize) -> Option<Vec<Vec<u8>>> {
    let content = |key: String| {
        let text = map.data.as_ref().and_then(|data| data.get(&key));
        let binary = map.binary_data.as_ref().and_then(|data| data.get(&key));
        let text = text.map(|text| text.clone().into_bytes());
        text.or_else(|| binary.map(|bytes| bytes.0.clone()))
    };
    (0..count).map(|index| content(file_key(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;

    #[test]
    fn stored_files_are_complete_or_missing() {
        let map = ConfigMap {
            data: Some([("file-0".to_owned(), "text".to_owned())].into()),
            binary_data: Some([("file-1".to_owned(), ByteString(vec![0xff]))].into()),
            ..ConfigMap::default()
        };
        let expected = vec![b"text".to_vec(), vec![0xff]];
        assert_eq!(contents(&map, 2), Some(expected));
        assert_eq!(contents(&map, 3), None);
    }
}
