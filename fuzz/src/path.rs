//! Paths of requests to names of files.

use flyball_site::path::{Mapped, PATH_BYTES_MAX, SEGMENT_BYTES_MAX, encode_path, map};

pub(crate) const WORDS: &[&[u8]] = &[
    b"/",
    b"//",
    b".",
    b"..",
    b"/../",
    b"/./",
    b"%2e",
    b"%2E%2e",
    b"%2f",
    b"%5c",
    b"\\",
    b"%00",
    b"%",
    b"%2",
    b"%zz",
    b"%c0%af",
    b"%c0%ae",
    b"\xc0\xaf",
    b"%ed%a0%80",
    b"%252e",
    b".well-known",
    b"/.git",
    b"a",
    b"%C3%A9",
    b"\xc3\xa9",
    b";",
    b"~",
    b"*",
    b"?",
    b"%0d%0a",
    b"%7f",
    b"...",
];

/// The first byte says whether hidden names are served, the rest is a path. What it maps to stays
/// beneath the root, and its canonical form maps to the same again.
///
/// # Panics
/// When it does not.
pub fn path_mapping(data: &[u8]) {
    let Some((&first, path)) = data.split_first() else { return };
    let hidden = first & 1 == 1;
    let mut relative = b"left over".to_vec();
    let Ok(mapped) = map(path, hidden, &mut relative) else {
        assert!(relative.is_empty(), "something is left after an error");
        return;
    };
    assert!(!relative.is_empty() && relative.len() < PATH_BYTES_MAX);
    // NUL is an encoded slash, which no name holds.
    let plain = |byte: &u8| !byte.is_ascii_control() || *byte == 0;
    assert!(relative.iter().all(plain), "a control character is left");
    if relative == b"." {
        assert_eq!(mapped, Mapped::Directory);
    } else {
        for (at, segment) in relative.split(|&byte| byte == b'/').enumerate() {
            assert!(!segment.is_empty() && segment.len() <= SEGMENT_BYTES_MAX);
            let mut parts = segment.split(|&byte| matches!(byte, 0 | b'\\'));
            assert!(parts.all(|part| part != b"." && part != b".."), "a dot segment is left");
            let exempt = hidden || (at == 0 && segment == b".well-known");
            assert!(exempt || segment[0] != b'.', "a hidden name is served");
        }
    }
    let (mut canonical, mut again) = (Vec::new(), Vec::new());
    encode_path(&relative, &mut canonical);
    assert!(canonical.starts_with(b"/") && !canonical.starts_with(b"//"));
    assert!(canonical.is_ascii());
    let remapped = map(&canonical, hidden, &mut again);
    assert!(remapped.is_ok(), "{}", canonical.escape_ascii());
    assert_eq!(again, relative);
}
