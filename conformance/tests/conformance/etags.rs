//! Entity tags of files: what they are made of, and who may compare them.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use flyball_testkit::{Client, Server};

use crate::mount::Mount;
use crate::requests::{get, request};

/// The time of `old.txt`: a day of 1980, as packers set it.
const PACKED_S: u64 = 315_532_800;

/// The time of all others, with a fraction of a second.
const WRITTEN: Duration = Duration::new(1_700_000_000, 123_456_789);

/// Two copies of the same files with the same times, at `/a` and `/b`.
struct Copies {
    server: Server,
    _directory: tempfile::TempDir,
}

impl Copies {
    fn start(mount: &Mount, settings: &str, keys: &str) -> Copies {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let aliases = ["a", "b"].map(|copy| {
            let root = directory.path().join(copy);
            fs::create_dir(&root).expect("the directory can be made");
            write(&root.join("page.txt"), &"text ".repeat(1_000), WRITTEN);
            write(&root.join("old.txt"), "old\n", Duration::from_secs(PACKED_S));
            write(&root.join("word.txt.de"), "Wort\n", WRITTEN);
            write(&root.join("word.txt.en"), "word\n", WRITTEN);
            write(&root.join("dot.png"), "older", WRITTEN);
            write(&root.join("dot.webp"), "newer", WRITTEN);
            format!("[[site.alias]]\npath = \"/{copy}\"\nroot = \"{}\"\n", root.display())
        });
        let root = directory.path().display();
        let sites = format!(
            "[[site]]\nroot = \"{root}\"\nlanguages = [\"en\", \"de\"]\nimage-neighbours = true\n\
             {keys}\n{}",
            aliases.concat()
        );
        Copies { server: mount.start_with_sites(settings, &sites), _directory: directory }
    }

    fn connect(&self) -> Client {
        self.server.connect()
    }
}

fn write(path: &Path, text: &str, modified: Duration) {
    fs::write(path, text).expect("the file can be written");
    let file = File::options().write(true).open(path).expect("it is there");
    file.set_modified(SystemTime::UNIX_EPOCH + modified).expect("its time can be set");
}

/// The tag of a file by its first answer, and by one from the caches.
#[track_caller]
fn tag(client: &mut Client, target: &str, fields: &[&str]) -> Option<String> {
    let answers = [(); 2].map(|()| client.ask(request("GET", target, fields)));
    let [first, second] = answers.map(|answer| {
        assert_eq!(answer.status(), 200, "{target}");
        answer.field("ETag").map(str::to_owned)
    });
    assert_eq!(first, second, "{target}");
    second
}

pub(crate) fn copies_of_a_file_have_one_tag_that_holds_at_each_of_them(mount: &Mount) {
    for settings in ["", "cache.heads = false"] {
        let copies = Copies::start(mount, settings, "");
        let mut client = copies.connect();
        for fields in [&[][..], &["Accept-Encoding: gzip"]] {
            let tags = ["/a/page.txt", "/b/page.txt"].map(|at| tag(&mut client, at, fields));
            let tag = tags[0].clone().expect("it has one");
            assert_eq!(tags[0], tags[1]);
            let since = format!("If-None-Match: {tag}");
            let with = |more: &str| {
                let fields: Vec<&str> = fields.iter().copied().chain([&*since, more]).collect();
                request("GET", "/b/page.txt", &fields)
            };
            assert_eq!(client.ask(with("X: y")).status(), 304, "{tag}");
        }
        let plain = tag(&mut client, "/a/page.txt", &[]).expect("it has one");
        let time = WRITTEN.as_nanos();
        assert_eq!(plain, format!("\"{:x}-{time:x}\"", 5_000));
        let goes_on = ["Range: bytes=4990-", &format!("If-Range: {plain}")];
        let rest = client.ask(request("GET", "/b/page.txt", &goes_on));
        assert_eq!((rest.status(), rest.text()), (206, "text text "));
        let other = ["Range: bytes=4990-", "If-Range: \"1388-0\""];
        assert_eq!(client.ask(request("GET", "/b/page.txt", &other)).status(), 200);
    }
}

pub(crate) fn representations_of_one_resource_never_share_a_tag(mount: &Mount) {
    let copies = Copies::start(mount, "", "");
    let mut client = copies.connect();
    for (target, one, other) in [
        ("/a/word.txt", "Accept-Language: de", "Accept-Language: en"),
        ("/a/dot.png", "Accept: image/webp", "Accept: image/png"),
        ("/a/page.txt", "Accept-Encoding: gzip", "Accept-Encoding: identity"),
        ("/a/page.txt", "Accept-Encoding: gzip", "Accept-Encoding: br"),
    ] {
        let tags = [one, other].map(|field| tag(&mut client, target, &[field]));
        assert_ne!(tags[0], tags[1], "{target}");
        let same = format!("If-None-Match: {}", tags[0].as_deref().expect("it has one"));
        let asked = |field: &str| request("GET", target, &[field, &same]);
        assert_eq!(client.ask(asked(one)).status(), 304, "{target}");
        assert_eq!(client.ask(asked(other)).status(), 200, "{target}");
    }
}

pub(crate) fn a_time_that_many_files_have_makes_no_tag_alone(mount: &Mount) {
    let copies = Copies::start(mount, "", "");
    let mut client = copies.connect();
    let [one, other] = ["/a/old.txt", "/b/old.txt"].map(|at| tag(&mut client, at, &[]));
    assert_ne!(one, other);
    assert_eq!(one.expect("it has one").matches('-').count(), 2);
}

pub(crate) fn a_tag_may_be_that_of_the_inode_or_none(mount: &Mount) {
    let copies = Copies::start(mount, "", "etag = \"inode\"");
    let mut client = copies.connect();
    let [one, other] = ["/a/page.txt", "/b/page.txt"].map(|at| tag(&mut client, at, &[]));
    assert_ne!(one, other);
    for settings in ["", "cache.heads = false"] {
        let copies = Copies::start(mount, settings, "etag = \"off\"");
        let mut client = copies.connect();
        for fields in [&[][..], &["Accept-Encoding: gzip"]] {
            assert_eq!(tag(&mut client, "/a/page.txt", fields), None);
        }
        let plain = client.ask(get("/a/page.txt"));
        let date = plain.expect("Last-Modified").to_owned();
        for (fields, status) in [
            (&["If-None-Match: \"x\""][..], 200),
            (&["If-None-Match: *"], 304),
            (&["If-Match: \"x\""], 412),
            (&[&format!("If-None-Match: {date}")], 200),
            (&[&format!("If-Modified-Since: {date}")], 304),
            (&["Range: bytes=0-3", &format!("If-Range: {date}")], 206),
            (&["Range: bytes=0-3", "If-Range: \"x\""], 200),
        ] {
            let answer = client.ask(request("GET", "/a/page.txt", fields));
            assert_eq!(answer.status(), status, "{fields:?}");
            assert_eq!(answer.field("ETag"), None, "{fields:?}");
        }
    }
}
