//! The page around a file, and the advertisements within one.

/// What follows the file.
pub(super) const TAIL: &[u8] = b"\n</pre>\n</body></html>\n";

/// What begins the tag of an advertisement, up to the directory that it names.
const TAG: &[u8] = b"<!WEB99CAD><IMG SRC=\"/file_set/";

/// Bytes of `dir00000/class0_0`.
const AD_BYTES: usize = 17;

/// What a page tells about its request.
#[derive(Clone, Debug)]
pub(super) struct Page {
    /// The name of the server.
    pub(super) software: String,
    /// The address of the client.
    pub(super) address: String,
    /// The path that was asked for.
    pub(super) script: String,
    /// Its query.
    pub(super) query: String,
}

impl Page {
    /// What precedes the file.
    pub(super) fn head(&self) -> String {
        let Page { software, address, script, query } = self;
        format!(
            "<html>\n<head><title>SPECweb99 Dynamic GET & POST Test</title></head>\n<body>\n\
             <p>SERVER_SOFTWARE = {software}\n<p>REMOTE_ADDR = {address}\n\
             <p>SCRIPT_NAME = {script}\n<p>QUERY_STRING = {query}\n<pre>\n"
        )
    }
}

/// Whether the files of this name have advertisements: those of classes 1 and 2.
pub(super) fn has_tag(name: &str) -> bool {
    name.contains("/class1_") || name.contains("/class2_")
}

/// Has every tag of an advertisement name the file of another one.
pub(super) fn replace_ads(file: &mut [u8], ad: u32) {
    let name = format!("dir{:05}/class{}_{}", ad / 36, ad % 36 / 9, ad % 9);
    let mut from = 0;
    while let Some(at) = file[from..].windows(TAG.len()).position(|part| part == TAG) {
        from += at + TAG.len();
        match file.get_mut(from..from + AD_BYTES) {
            Some(place) => place.copy_from_slice(name.as_bytes()),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_of_a_file_names_the_ad() {
        let tag = |ad: &str| format!("x<!WEB99CAD><IMG SRC=\"/file_set/{ad}\"><!/WEB99CAD>y");
        let mut file = tag("dir00000/class0_0").repeat(2).into_bytes();
        replace_ads(&mut file, 75);
        assert_eq!(String::from_utf8(file).unwrap(), tag("dir00002/class0_3").repeat(2));
        let mut cut = b"<!WEB99CAD><IMG SRC=\"/file_set/dir".to_vec();
        replace_ads(&mut cut, 75);
        assert!(cut.ends_with(b"/dir"));
    }
}
