//! A file of users and the hashes of their passwords, as `htpasswd` writes it: `user:hash` in each
//! line, empty lines, and comments behind `#`.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;

use flyball_sys::file;
use hashbrown::HashMap;

use super::password::PasswordHash;
use super::settings::AuthSettings;

/// Longest file, in bytes.
pub const USERS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// U+FEFF in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Errors of one file that are told.
const ERRORS_MAX: usize = 10;

/// Users and the hashes of their passwords.
#[derive(Clone, Debug)]
pub struct Users {
    by_name: HashMap<Box<[u8]>, usize>,
    hashes: Vec<PasswordHash>,
    hasher: RandomState,
}

/// What is wrong with a file of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsersError {
    /// The line, from 1; `None` when the whole file is wrong.
    pub line: Option<usize>,
    /// What is wrong with it, and what to do.
    pub why: String,
}

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.why)
    }
}

impl Users {
    /// Those who may log in by these settings, if any have to. Blocks on the disk.
    ///
    /// # Errors
    /// The first thing that is wrong with their file.
    pub(crate) fn of(settings: &AuthSettings) -> io::Result<Option<Arc<Users>>> {
        let Some(file) = &settings.file else { return Ok(None) };
        let users = Users::read(file).map_err(|errors| {
            let why = errors.first().map(ToString::to_string).unwrap_or_default();
            io::Error::other(format!("{}: {why}", file.display()))
        })?;
        Ok(Some(Arc::new(users)))
    }

    /// Reads a file. Blocks on the disk.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of lines; a few of them, when that is much.
    pub fn read(path: &Path) -> Result<Users, Vec<UsersError>> {
        let bytes = file::read_whole(path, USERS_BYTES_MAX).map_err(|error| {
            vec![UsersError { line: None, why: format!("cannot be read: {error}") }]
        })?;
        Users::parse(path, &bytes)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Users, Vec<UsersError>> {
        let hasher = RandomState::new();
        let mut users = Users { by_name: HashMap::new(), hashes: Vec::new(), hasher };
        let (mut lines, mut errors) = (Vec::new(), Vec::new());
        // Some editors begin a file of text with a mark of its coding, which is no part of a name.
        let bytes = bytes.strip_prefix(MARK).unwrap_or(bytes);
        for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.trim_ascii().is_empty() || line.trim_ascii_start().starts_with(b"#") {
                continue;
            }
            let read = users.add(path, line, &lines);
            lines.push(at + 1);
            if let Err(why) = read {
                errors.push(UsersError { line: Some(at + 1), why });
                // Keeps the places of lines and hashes equal.
                lines.pop();
            }
            if errors.len() == ERRORS_MAX {
                break;
            }
        }
        if errors.is_empty() && users.hashes.is_empty() {
            let why = format!("names no user; {}", how_to_add(path, "USER"));
            errors.push(UsersError { line: None, why });
        }
        if errors.is_empty() { Ok(users) } else { Err(errors) }
    }

    /// Takes in one line; `lines` are those of the users before it.
    fn add(&mut self, path: &Path, line: &[u8], lines: &[usize]) -> Result<(), String> {
        let Some((name, hash)) = split(line) else {
            return Err(format!("is not USER:HASH; {}", how_to_add(path, "USER")));
        };
        let shown = String::from_utf8_lossy(name);
        let hash: PasswordHash = std::str::from_utf8(hash)
            .map_err(|_| format!("user {shown:?}: the hash is not ASCII"))?
            .parse()
            .map_err(|why| format!("user {shown:?}: {why}; {}", how_to_add(path, &shown)))?;
        if let Some(before) = self.by_name.get(name) {
            return Err(format!("user {shown:?} is there already, in line {}", lines[*before]));
        }
        self.by_name.insert(name.into(), self.hashes.len());
        self.hashes.push(hash);
        Ok(())
    }

    /// How many have a hash that protects only the strongest passwords.
    pub(crate) fn weak(&self) -> usize {
        self.hashes.iter().filter(|hash| hash.is_weak()).count()
    }

    /// The hash of a user, and true; or, of somebody who is none, that of any user, always the
    /// same, and false: whoever verifies it anyway spends as much time on both.
    pub(super) fn find(&self, name: &[u8]) -> (&PasswordHash, bool) {
        match self.by_name.get(name) {
            Some(at) => (&self.hashes[*at], true),
            None => {
                let at = self.hasher.hash_one(name) as usize % self.hashes.len();
                (&self.hashes[at], false)
            }
        }
    }
}

/// A user and a hash; what follows another colon is a comment.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    let (name, rest) = (&line[..colon], &line[colon + 1..]);
    let hash = rest.split(|byte| *byte == b':').next().unwrap_or(rest).trim_ascii();
    (!name.is_empty()).then_some((name, hash))
}

/// What to run.
fn how_to_add(path: &Path, user: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
    let user = if user.bytes().all(plain) { user } else { "USER" };
    format!("run: htpasswd -B {} {user}", path.display())
}

#[cfg(test)]
mod tests {
    use super::super::password::tests::quick_hash;
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Users, Vec<String>> {
        let told = |errors: Vec<UsersError>| errors.iter().map(ToString::to_string).collect();
        Users::parse(Path::new("users"), text.as_bytes()).map_err(told)
    }

    #[test]
    fn users_are_found_and_strangers_get_the_same_hash_each_time() {
        let (ann, bob) = (quick_hash("a"), quick_hash("b"));
        let users = parse(&format!("# who\n\nann:{ann}\r\nbob:{bob}:Bob\n  # end")).unwrap();
        let (hash, known) = users.find(b"bob");
        assert!(known && hash.verify(b"b") && !hash.verify(b"a"));
        assert!(users.find(b"ann").1 && !users.find(b"Ann").1);
        let first = std::ptr::from_ref(users.find(b"nobody").0);
        assert!((0..9).all(|_| std::ptr::eq(users.find(b"nobody").0, first)));
    }

    #[test]
    fn every_line_that_is_wrong_is_told_with_what_to_run() {
        let hash = quick_hash("a");
        let text = format!("ann:$1$x$y\nann:{hash}\nann:{hash}\nbob\n:x\nb b:{{SHA}}x=\n");
        assert_eq!(
            parse(&text).unwrap_err(),
            [
                "line 1: user \"ann\": the password is hashed by MD5 (crypt), which is not \
                 accepted; run: htpasswd -B users ann",
                "line 3: user \"ann\" is there already, in line 2",
                "line 4: is not USER:HASH; run: htpasswd -B users USER",
                "line 5: is not USER:HASH; run: htpasswd -B users USER",
                "line 6: user \"b b\": the password is hashed by SHA-1, which is not accepted; \
                 run: htpasswd -B users USER",
            ]
        );
        assert_eq!(
            parse("# nobody\n").unwrap_err(),
            ["names no user; run: htpasswd -B users USER"]
        );
        let many = parse(&"x\n".repeat(1_000)).unwrap_err();
        assert_eq!(many.len(), ERRORS_MAX);
    }

    #[test]
    fn a_mark_of_the_coding_is_no_part_of_the_first_name() {
        let users = parse(&format!("\u{feff}ann:{}\n", quick_hash("a"))).unwrap();
        assert!(users.find(b"ann").1);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told() {
        let errors = Users::read(Path::new("/nowhere/users")).unwrap_err();
        assert!(errors[0].why.contains("cannot be read") && errors[0].line.is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Users::parse(Path::new("users"), &bytes);
        }
    }
}
