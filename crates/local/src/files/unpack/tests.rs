//! Tests of the limits of an archive.

use super::*;

#[test]
fn folders_and_links_are_limited() {
    let folder = std::env::temp_dir().join(format!("gpuctl-unpack-{}", std::process::id()));
    let mut header = tar::Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..3].copy_from_slice(b"top");
    header.set_entry_type(EntryType::Directory);
    header.set_size(0);
    header.set_cksum();
    let archive = [header.as_bytes().as_slice(), &[0; 1024]].concat();
    let mut staged = stage(archive.as_slice(), "top", &folder, &Arc::default()).unwrap();
    let first = folder.join("top/first");
    File::create(&first).unwrap();
    staged.without_data = MOST_WITHOUT_DATA - 3;
    staged.make_parents(&folder.join("a/b/x")).unwrap();
    staged.hard_link(&first, &folder.join("a/b/x")).unwrap();
    for refused in [
        staged.make_folder(&folder.join("c")),
        staged.make_parents(&folder.join("d/x")),
        staged.hard_link(&first, &folder.join("y")),
        staged.link(&[("top/link".into(), "first".into())]),
    ] {
        assert_eq!(
            refused.unwrap_err().to_string(),
            "it has more than 2000000 folders and links; copy its folders one by one"
        );
    }
    drop(staged);
    assert!(!folder.exists());
}
