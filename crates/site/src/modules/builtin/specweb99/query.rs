//! Texts of the form `key=value&key=value`, and the names of files in requests.

/// The value of a key.
pub(super) fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split('&')
        .find_map(|pair| pair.split_once('=').filter(|(found, _)| *found == key))
        .map(|(_, value)| value)
}

/// A command and its arguments.
pub(super) fn commands(text: &str) -> (&str, &str) {
    text.split_once('&').unwrap_or((text, ""))
}

/// Whether a path names a file of the set: it ends with `file_set/dirNNNNN/classN_N` and has no
/// part that leads elsewhere.
pub(super) fn is_file_name(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let (Some(class), Some(directory), Some("file_set")) =
        (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_class = class.strip_prefix("class").and_then(|numbers| numbers.split_once('_'));
    let is_class = is_class.is_some_and(|(class, number)| digits(class) && digits(number));
    let is_directory = directory.strip_prefix("dir").is_some_and(digits);
    let is_plain = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        !part.starts_with('.') && part.bytes().all(plain)
    };
    path.starts_with('/') && path.len() < 1024 && is_class && is_directory && parts.all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_set_are_told_from_all_else() {
        assert!(is_file_name("/file_set/dir00000/class0_0"));
        assert!(is_file_name("/specweb99/file_set/dir00001/class3_8"));
        for other in [
            "",
            "/",
            "file_set/dir00000/class0_0",
            "/dir00000/class0_0",
            "/../file_set/dir00000/class0_0",
            "/%2e/file_set/dir00000/class0_0",
            "/file_set/dir00000/class0_0/",
            "/file_set/dirx/class0_0",
            "/file_set/dir0/class_0",
        ] {
            assert!(!is_file_name(other), "{other}");
        }
    }

    #[test]
    fn values_are_found_by_their_whole_keys() {
        assert_eq!(value_of("urlroot=/a&dir=1&num=2", "dir"), Some("1"));
        assert_eq!(value_of("xdir=1", "dir"), None);
        assert_eq!(commands("Reset&exp=1,2"), ("Reset", "exp=1,2"));
        assert_eq!(commands("Fetch"), ("Fetch", ""));
    }
}
