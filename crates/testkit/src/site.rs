//! A site whose every byte is known.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::watchdog::Watchdog;

/// Length of `large.bin`: larger than what two sockets hold between them.
pub const LARGE_BYTES: usize = 10 * 1024 * 1024;

/// `Last-Modified` of every file.
pub const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// The same, in seconds since 1970.
const MODIFIED_UNIX: u64 = 784_111_777;

/// Bytes of `large.bin` that say where they are.
const LINE_BYTES: usize = 16;

/// Files of [`many`].
pub const MANY: usize = 6_000;

/// A directory with a root below it, and a secret beside the root.
#[derive(Debug)]
pub struct Site {
    directory: PathBuf,
    _temporary: Option<TempDir>,
}

/// Names below the root, and what they hold.
const FILES: &[(&str, &str)] = &[
    ("index.html", "<!doctype html>\n<title>Index</title>\n"),
    ("hello.txt", "hello, world\n"),
    ("empty.txt", ""),
    ("page.html", "<!doctype html>\n<title>Page</title>\n"),
    ("with space.txt", "space\n"),
    ("caf\u{e9}.txt", "accent\n"),
    ("100%.txt", "percent\n"),
    (".secret", "SECRET of a dot file\n"),
    (".well-known/token", "token\n"),
    (".well-known/.secret", "SECRET below well-known\n"),
    ("dir/index.html", "<!doctype html>\n<title>Dir</title>\n"),
    ("dir/.secret", "SECRET in a directory\n"),
    ("list/a.txt", "a\n"),
    ("list/b&<c>.txt", "b\n"),
    ("list/.secret", "SECRET in a list\n"),
    ("list/below/c.txt", "c\n"),
    ("list/sorted/one.txt", "1"),
    ("list/sorted/two.txt", "22"),
    ("list/sorted/Ten.txt", "ten bytes\n"),
    ("list/sorted/sub/x.txt", ""),
    ("list/read/README", "Read <me> & go.\n"),
    ("list/leaving/.dot", ""),
    ("evil.example/dir/index.html", "not evil\n"),
    ("hosts/wild/who.txt", "wild\n"),
    ("hosts/exact/who.txt", "exact\n"),
    ("who.txt", "default\n"),
    ("routed/index.html", "<!doctype html>\n<title>Routed</title>\n"),
    ("routed/new.txt", "new\n"),
    ("routed/app.3f2a91bc.js", "1;\n"),
    ("routed/plain.css", "a{}\n"),
    ("routed/about.html", "about\n"),
    ("routed/articles/7.html", "seven\n"),
    ("routed/articles/index.html", "articles\n"),
    ("routed/closed/inner.html", "closed\n"),
    ("routed/.secret", "SECRET below routes\n"),
    ("routed/tongues/index.html.en", "english\n"),
    ("routed/tongues/index.html.de", "deutsch\n"),
    ("routed/tongues/mixed.txt", "plain\n"),
    ("routed/tongues/mixed.txt.de", "gemischt\n"),
    ("routed/tongues/alone.txt", "alone\n"),
    ("routed/picture.png", "png\n"),
    ("routed/picture.webp", "webp\n"),
    ("routed/lonely.png", "png alone\n"),
    ("aliased/index.html", "aliased\n"),
    ("aliased/below/file.txt", "below\n"),
    ("aliased/.secret", "SECRET below an alias\n"),
    ("pages/404.html", "<!doctype html>\n<title>Lost</title>\n"),
    ("pages/403.txt", "closed\n"),
    ("homes/bob/public_html/index.html", "bob\n"),
    ("homes/bob/public_html/notes/a.txt", "note\n"),
    ("homes/bob/secret.txt", "SECRET at home\n"),
    ("homes/ann/other.txt", "SECRET of ann\n"),
    ("homes/sys/public_html/index.html", "SECRET of the system\n"),
];

/// Names below the root, and where they lead.
const LINKS: &[(&str, &str)] = &[
    ("inside.txt", "hello.txt"),
    ("dir/up.txt", "../hello.txt"),
    ("inside-dir", "dir"),
    ("escape.txt", "../secret.txt"),
    ("escape-dir", ".."),
    ("dir/escape-dir", "../.."),
    ("absolute.txt", "/etc/passwd"),
    ("absolute-dir", "/"),
    ("loop", "loop"),
    ("dangling", "nothing"),
    ("list/leaving/inside", "../a.txt"),
    ("list/leaving/out", "../../../secret.txt"),
    ("list/leaving/README.md", "/etc/passwd"),
    ("aliased/escape.txt", "../who.txt"),
    ("homes/bob/public_html/escape.txt", "../secret.txt"),
    ("homes/bob/public_html/inside.txt", "notes/a.txt"),
    ("homes/mal/public_html", "/"),
];

impl Site {
    /// A site of its own, gone with the value.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn new() -> Site {
        let temporary = tempfile::Builder::new().prefix("flyball-site-").tempdir();
        let temporary = temporary.expect("a temporary directory");
        let directory = temporary.path().to_owned();
        write(&directory).expect("the site can be written");
        Site { directory, _temporary: Some(temporary) }
    }

    /// The site that all tests of this process share and none changes.
    pub fn shared() -> &'static Site {
        static SHARED: OnceLock<(Site, Watchdog)> = OnceLock::new();
        let (site, _) = SHARED.get_or_init(|| {
            let mut site = Site::new();
            let kept = site._temporary.take().expect("a new site is temporary").keep();
            (site, Watchdog::delete(&kept))
        });
        site
    }

    /// The root.
    pub fn root(&self) -> PathBuf {
        self.directory.join("root")
    }

    /// A file or directory below the root.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }
}

impl Default for Site {
    fn default() -> Site {
        Site::new()
    }
}

fn write(directory: &Path) -> io::Result<()> {
    let root = directory.join("root");
    fs::create_dir(&root)?;
    put(&directory.join("secret.txt"), b"SECRET beside the root\n")?;
    for (name, text) in FILES {
        put(&root.join(name), text.as_bytes())?;
    }
    put(&root.join("digits.txt"), digits().as_bytes())?;
    put(&root.join("large.bin"), large())?;
    fs::create_dir(root.join("empty"))?;
    fs::create_dir(root.join("homes/mal"))?;
    LINKS.iter().try_for_each(|(name, target)| symlink(target, root.join(name)))
}

fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::create_dir_all(path.parent().expect("a file is in a directory"))?;
    fs::write(path, content)?;
    File::options().write(true).open(path)?.set_modified(modified())
}

fn modified() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED_UNIX)
}

/// A directory of [`MANY`] empty files, which all tests of this process share and none changes. A
/// page that lists them is larger than what two sockets hold between them, since nothing of a name
/// can be shown as it is.
///
/// # Panics
/// When it cannot be written.
pub fn many() -> &'static Path {
    static MANY_FILES: OnceLock<(PathBuf, Watchdog)> = OnceLock::new();
    let (path, _) = MANY_FILES.get_or_init(|| {
        let directory = tempfile::Builder::new().prefix("flyball-many-").tempdir();
        let directory = directory.expect("a temporary directory").keep();
        let watchdog = Watchdog::delete(&directory);
        for at in 0..MANY {
            File::create(directory.join(name_of_many(at))).expect("a file can be written");
        }
        (directory, watchdog)
    });
    path
}

/// The name of one of [`many`]; they ascend.
pub fn name_of_many(at: usize) -> String {
    format!("{at:05}{}", "&".repeat(235))
}

/// What `digits.txt` holds: 1,000 bytes, of which every ten count up from `0000000000`.
pub fn digits() -> &'static str {
    static DIGITS: OnceLock<String> = OnceLock::new();
    DIGITS.get_or_init(|| (0..100).map(|at| format!("{at:010}")).collect())
}

/// What `large.bin` holds.
pub fn large() -> &'static [u8] {
    static LARGE: OnceLock<Vec<u8>> = OnceLock::new();
    LARGE.get_or_init(|| {
        let line = |at: usize| format!("{at:0width$x}\n", width = LINE_BYTES - 1);
        (0..LARGE_BYTES).step_by(LINE_BYTES).flat_map(|at| line(at).into_bytes()).collect()
    })
}

/// Compares bytes with those of `large.bin` from `offset` on.
///
/// # Panics
/// At the first byte that differs, or when there are too many.
#[track_caller]
pub fn large_at(offset: usize, bytes: &[u8]) {
    let expected = &large()[offset..];
    assert!(bytes.len() <= expected.len(), "{} bytes too many", bytes.len() - expected.len());
    // Where it differs is asked only when it does: that takes many times as long.
    if *bytes == expected[..bytes.len()] {
        return;
    }
    let differs = bytes.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(differs.map(|at| at + offset), None, "large.bin differs there");
}
