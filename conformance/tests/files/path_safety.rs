//! No request reaches what lies outside of the root, however its path is spelled, and no link and
//! no rename leads there.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use crate::common_programs::exchange::{Answer, Client, get};
use crate::common_programs::on_every_architecture;
use crate::common_programs::served::{Served, put};

/// Held by everything that must not be served, and by nothing else.
const MARKER: &str = "the marker 7d1f0c52 of what lies outside";

/// Held by what is served.
const INSIDE: &str = "what lies inside";

/// How long names are exchanged beneath the clients.
const RACE: Duration = Duration::from_secs(2);

on_every_architecture! {
    [
        no_spelling_of_a_path_climbs_out_of_the_root,
        bytes_that_no_path_may_hold_are_refused,
        absolute_names_are_names_below_the_root,
        links_are_followed_as_far_as_the_site_says,
        links_are_followed_while_other_names_are_changed,
        a_listing_tells_nothing_about_what_a_link_outside_leads_to,
        hidden_names_are_not_served_unless_the_site_says_so,
        a_directory_that_becomes_a_link_while_it_is_asked_for_leads_nowhere,
    ]
}

/// A root with files inside, secrets outside, and links between them.
fn served(arch: &str, site: &str, settings: &[&str]) -> Served {
    let served = Served::start(arch, site, settings);
    let root = served.root();
    for name in ["page.txt", "a/page.txt", "a/b/page.txt", "a/b/c/page.txt"] {
        put(&root.join(name), INSIDE);
    }
    for name in ["secret.txt", "outside/secret.txt", "outside/deep/secret.txt", "a/secret.txt"] {
        put(&served.beside(name), MARKER);
    }
    served
}

/// The answer to a request, on a connection of its own. A connection that ends without one counts
/// as an error.
fn ask(served: &Served, request: &[u8]) -> Answer {
    let mut client = Client::connect(served.address());
    let shown = request.escape_ascii();
    client.send(request).unwrap_or_else(|error| panic!("{shown}: {error}"));
    client.answer().unwrap_or_else(|error| panic!("{shown}: {error}"))
}

fn ask_for(served: &Served, target: &str) -> Answer {
    ask(served, get(target).as_bytes())
}

/// The answer says no, and nothing else.
#[track_caller]
fn assert_refused(answer: &Answer, request: &[u8]) {
    let shown = request.escape_ascii();
    assert_no_leak(answer, request);
    let status = answer.status;
    assert!(matches!(status, 400 | 403 | 404), "{shown}: {status}");
}

#[track_caller]
fn assert_no_leak(answer: &Answer, request: &[u8]) {
    let body = String::from_utf8_lossy(&answer.body);
    let leaks = body.contains(MARKER) || answer.head.contains(MARKER) || body.contains(":x:0:0:");
    assert!(!leaks, "{}: {}{body}", request.escape_ascii(), answer.head);
}

/// Asks for many targets, on one connection as long as the server keeps it.
fn assert_all_refused(served: &Served, targets: impl IntoIterator<Item = Vec<u8>>) -> usize {
    let mut client = Client::connect(served.address());
    let mut count = 0;
    for target in targets {
        let request = [b"GET ", &*target, b" HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat();
        let sent = client.send(&request).and_then(|()| client.answer());
        let answer = sent.unwrap_or_else(|error| panic!("{}: {error}", target.escape_ascii()));
        assert_refused(&answer, &target);
        if answer.closes() {
            client = Client::connect(served.address());
        }
        count += 1;
    }
    count
}

/// Ways to write two dots: plain, encoded once and twice, overlong, wide.
const UP: [&str; 14] = [
    "..",
    "%2e%2e",
    "%2E%2E",
    ".%2e",
    "%2e.",
    "%252e%252e",
    "%25252e%25252e",
    "%c0%ae%c0%ae",
    "%e0%80%ae%e0%80%ae",
    "%c0%2e%c0%2e",
    "%uff0e%uff0e",
    "..%00",
    "..;",
    "%ef%bc%8e%ef%bc%8e",
];

/// Ways to write a slash.
const SLASH: [&str; 14] = [
    "/",
    "//",
    "/./",
    "/%2e/",
    "%2f",
    "%2F",
    "%252f",
    "%25252f",
    "%5c",
    "%255c",
    "\\",
    "%c0%af",
    "%e0%80%af",
    "%c1%9c",
];

fn no_spelling_of_a_path_climbs_out_of_the_root(arch: &str) {
    let served = served(arch, "", &[]);
    let name = served.around().file_name().expect("it has a name").to_string_lossy().into_owned();
    let ends = ["secret.txt".into(), "outside/secret.txt".into(), format!("{name}/secret.txt")];
    let mut targets = Vec::new();
    for up in UP {
        for slash in SLASH {
            let climb = format!("{up}{slash}");
            for below in ["", "a/", "a/b/"] {
                // One step too few stays inside, where no such file is; the others climb out.
                for steps in 1..=4 {
                    let climb = climb.repeat(steps);
                    targets.extend(ends.iter().map(|end| format!("/{below}{climb}{end}")));
                }
            }
            targets.push(format!("/a{slash}{up}{slash}{up}{slash}secret.txt"));
            targets.push(format!("/{}etc/passwd", climb.repeat(12)));
            targets.push(format!("/a/b/{}etc{slash}passwd", climb.repeat(12)));
        }
    }
    targets.extend(mixed_spellings());
    let count = assert_all_refused(&served, targets.into_iter().map(String::into_bytes));
    assert!(count > 7_000, "only {count} spellings were tried");

    // What stays inside is served: the paths above were not refused for the dots alone.
    for target in ["/a/../page.txt", "/a/b/%2e%2e/page.txt", "//a/.//b/%2E%2e/./page.txt"] {
        let answer = ask_for(&served, target);
        assert_eq!((answer.status, answer.text()), (200, INSIDE.into()), "{arch} {target}");
    }
}

fn mixed_spellings() -> Vec<String> {
    let mixed = [
        "/a/..%2f..%2fsecret.txt",
        "/a/..%2f../secret.txt",
        "/a/%2e%2e/..%2fsecret.txt",
        "/a/..%5c..%2fsecret.txt",
        "/a/..%5c../../secret.txt",
        "/..%2fsecret.txt%00.html",
        "/a/.%2e/%2e./secret.txt",
        "/./.././secret.txt",
        "/a/./../../a/../secret.txt",
        "/a//..//..//secret.txt",
        "/page.txt/../../secret.txt",
        "/page.txt/..",
        "/none/../../secret.txt",
        "/a/b/c/../../../../secret.txt",
        "/a/%2e%2e%2f%2e%2e%2fsecret.txt",
        "/%2e%2e%5c%2e%2e%5csecret.txt",
        "/...//secret.txt",
        "/....//secret.txt",
        "/.../...//secret.txt",
        "/..../secret.txt",
        "/%2e%2e%2e/secret.txt",
        "/a/..%20/..%20/secret.txt",
        "/a/..%09/secret.txt",
        "/..?/../secret.txt",
        "/../secret.txt?a=/../page.txt",
        "/%",
        "/%2",
        "/%2/secret.txt",
        "/%zz/secret.txt",
        "/..%2",
        "/a/%2e%2e/%2e%2e",
        "/a/../..",
        "/a/../../",
    ];
    mixed.map(String::from).into()
}

fn bytes_that_no_path_may_hold_are_refused(arch: &str) {
    let served = served(arch, "", &[]);
    let encoded = (0_u8..0x20).chain([0x7f]).flat_map(|byte| {
        [
            format!("/page.txt%{byte:02x}"),
            format!("/page.txt%{byte:02x}.html"),
            format!("/%{byte:02x}/../secret.txt"),
        ]
    });
    assert_all_refused(&served, encoded.map(String::into_bytes));
    // Overlong and broken UTF-8, surrogates, and bytes that UTF-8 does not have.
    let broken = ["%c0%80", "%c0%af", "%c1%bf", "%e0%80%af", "%f0%80%80%af", "%ed%a0%80", "%ff"];
    let broken = broken.map(|bytes| format!("/page.txt{bytes}").into_bytes());
    assert_all_refused(&served, broken);

    // Bytes that may not stand in a request line at all: 400, whatever else they would mean.
    for byte in (0_u8..0x20).filter(|byte| !b"\r\n".contains(byte)).chain([0x7f]) {
        let line = [b"GET /page.txt", &[byte][..], b".html HTTP/1.1\r\n"].concat();
        let request = [&line[..], b"Host: localhost\r\n\r\n"].concat();
        let answer = ask(&served, &request);
        assert_no_leak(&answer, &request);
        assert_eq!(answer.status, 400, "{arch} {}", request.escape_ascii());
    }
}

fn absolute_names_are_names_below_the_root(arch: &str) {
    let served = served(arch, "", &[]);
    let secret = served.beside("secret.txt").display().to_string();
    let plain = [
        secret.clone(),
        format!("/{secret}"),
        format!("//{secret}"),
        secret.replace('/', "%2f"),
        format!("/{}", secret.replace('/', "%2f")),
        format!("/a{secret}"),
        format!("/.{secret}"),
        format!("/file://{secret}"),
        "//etc/passwd".into(),
        "/%2fetc%2fpasswd".into(),
        "/etc/passwd".into(),
        "/proc/self/environ".into(),
        "/proc/self/cwd/secret.txt".into(),
        format!("/proc/self/root{secret}"),
        "/dev/stdin".into(),
        "/C:/secret.txt".into(),
        "/~nobody/secret.txt".into(),
    ];
    // A target that is no path at all, or one with an authority of its own.
    let others = [
        format!("http://localhost{secret}"),
        "http://localhost/../secret.txt".into(),
        "http://localhost//../secret.txt".into(),
        "http://localhost/a/..%2f..%2fsecret.txt".into(),
        "../secret.txt".into(),
        "a/../../secret.txt".into(),
        "secret.txt".into(),
        format!("file://{secret}"),
    ];
    let targets = plain.into_iter().chain(others);
    let targets = targets.filter(|target| !target.is_empty()).map(String::into_bytes);
    assert_all_refused(&served, targets);
}

/// Links that lead outside, and what is asked for through them.
const OUTSIDE: [(&str, &str, &str); 11] = [
    ("file", "../secret.txt", "/file"),
    ("dir", "../outside", "/dir/secret.txt"),
    ("dir-again", "../outside", "/dir-again/deep/secret.txt"),
    ("first", "second", "/first"),
    ("second", "third", "/second"),
    ("third", "../secret.txt", "/third"),
    ("up", "..", "/up/secret.txt"),
    ("up-and-back", "../outside/../secret.txt", "/up-and-back"),
    ("a/up", "../..", "/a/up/secret.txt"),
    ("a/b/up", "../up", "/a/b/up/outside/secret.txt"),
    ("trap/index.html", "../../secret.txt", "/trap/"),
];

fn links_are_followed_as_far_as_the_site_says(arch: &str) {
    for (symlinks, inside, outside) in
        [("deny", false, false), ("beneath", true, false), ("follow", true, true)]
    {
        let served = served(arch, &format!("symlinks = {symlinks:?}"), &[]);
        link_all(&served);
        for target in ["/inside", "/a/back", "/inside-dir/page.txt", "/a/b/c/chain"] {
            let answer = ask_for(&served, target);
            assert_no_leak(&answer, target.as_bytes());
            assert_eq!(answer.status == 200, inside, "{arch} {symlinks} {target}");
        }
        let absolute = [("", "", "/absolute"), ("", "", "/absolute-dir/secret.txt")];
        for (_, _, target) in OUTSIDE.into_iter().chain(absolute) {
            let answer = ask_for(&served, target);
            if outside {
                // The links are right: but for the rule, they would leak.
                assert_eq!((answer.status, answer.text()), (200, MARKER.into()), "{target}");
            } else {
                assert_refused(&answer, target.as_bytes());
            }
        }
        // Through a link that leads out and back in; to itself; to nothing; into /proc, which has
        // links that lead anywhere without a name.
        let name = served.root();
        let name = name.file_name().expect("it has a name").to_string_lossy().into_owned();
        if !outside {
            assert_refused(&ask_for(&served, &format!("/up/{name}/page.txt")), b"/up/root");
            assert_refused(&ask_for(&served, "/proc-link/environ"), b"/proc-link/environ");
            assert_refused(&ask_for(&served, "/dir/"), b"/dir/");
            assert_refused(&ask_for(&served, "/dir"), b"/dir");
        }
        for target in ["/loop", "/loop/page.txt", "/nowhere", "/cwd/secret.txt", "/fd/0"] {
            assert_refused(&ask_for(&served, target), target.as_bytes());
        }
    }
}

fn link_all(served: &Served) {
    let root = served.root();
    fs::create_dir(root.join("trap")).expect("a directory can be made");
    let mut links: Vec<(&str, &Path)> = vec![
        ("inside", Path::new("a/page.txt")),
        ("a/back", Path::new("../page.txt")),
        ("inside-dir", Path::new("a/b")),
        ("a/b/c/chain", Path::new("../../../inside")),
        ("loop", Path::new("loop")),
        ("nowhere", Path::new("a/none")),
        ("proc-link", Path::new("/proc/self")),
        ("cwd", Path::new("/proc/self/cwd")),
        ("fd", Path::new("/proc/self/fd")),
    ];
    let (secret, outside) = (served.beside("secret.txt"), served.beside("outside"));
    links.extend([("absolute", &*secret), ("absolute-dir", &*outside)]);
    links.extend(OUTSIDE.map(|(name, leads_to, _)| (name, Path::new(leads_to))));
    for (name, leads_to) in links {
        symlink(leads_to, root.join(name)).expect("a link can be made");
    }
}

fn links_are_followed_while_other_names_are_changed(arch: &str) {
    let served = served(arch, "", &["cache.revalidate=0ms"]);
    // The kernel cannot follow the dots of a link beneath a root for sure while any name changes.
    symlink("../../a/../page.txt", served.root().join("a/b/dots")).expect("a link can be made");
    let (one, other) = (served.beside("one"), served.beside("other"));
    put(&one, "");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                fs::rename(&one, &other).expect("a name can be changed");
                fs::rename(&other, &one).expect("a name can be changed");
            }
        });
        let mut client = Client::connect(served.address());
        let answers: Vec<_> = (0..2_000).map(|_| client.get("/a/b/dots")).collect();
        over.store(true, Relaxed);
        for answer in answers {
            let answer = answer.expect("an answer, and a kept connection");
            assert_eq!((answer.status, answer.text()), (200, INSIDE.into()), "{arch}");
        }
    });
}

fn a_listing_tells_nothing_about_what_a_link_outside_leads_to(arch: &str) {
    let served = served(arch, "listing = true", &[]);
    // 3 February 2001, and a length that nothing else has.
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(981_173_106);
    let long = MARKER.repeat(1_000);
    put(&served.beside("old.txt"), &long);
    let file = File::options().write(true).open(served.beside("old.txt")).expect("it is there");
    file.set_modified(then).expect("its time can be set");
    symlink("../../old.txt", served.root().join("a/old-link")).expect("a link can be made");

    let answer = ask_for(&served, "/a/");
    assert_no_leak(&answer, b"/a/");
    let html = String::from_utf8_lossy(&answer.body);
    assert!(answer.status == 200 && html.contains("page.txt"), "{arch}: {}{html}", answer.head);
    assert!(!html.contains("2001"), "{arch}: the time of a file outside: {html}");
    assert!(
        !html.contains(&long.len().to_string()),
        "{arch}: the length of a file outside: {html}"
    );
}

fn hidden_names_are_not_served_unless_the_site_says_so(arch: &str) {
    const HIDDEN: [&str; 8] = [
        ".env",
        ".git/config",
        "a/.htpasswd",
        "a/.cache/page.txt",
        ".well-known/.env",
        ".well-known-not/page.txt",
        "a/.well-known/page.txt",
        "..page.txt",
    ];
    for hidden in [false, true] {
        let served = served(arch, &format!("hidden = {hidden}\nlisting = true"), &[]);
        for name in HIDDEN {
            put(&served.root().join(name), MARKER);
        }
        put(&served.root().join(".well-known/acme/token"), INSIDE);
        let token = ask_for(&served, "/.well-known/acme/token");
        assert_eq!((token.status, token.text()), (200, INSIDE.into()), "{arch} {hidden}");
        for name in HIDDEN {
            let encoded = name.replace('.', "%2e");
            let detour = format!(".well-known/../{name}");
            for target in [name, &*encoded, &*detour] {
                let target = format!("/{target}");
                let answer = ask_for(&served, &target);
                if hidden {
                    assert_eq!((answer.status, answer.text()), (200, MARKER.into()), "{target}");
                } else {
                    assert_refused(&answer, target.as_bytes());
                }
            }
        }
        for directory in ["/", "/a/", "/.well-known/"] {
            let answer = ask_for(&served, directory);
            assert_eq!(answer.status, 200, "{arch} {directory}");
            let html = String::from_utf8_lossy(&answer.body).into_owned();
            assert_eq!(html.contains(".env") || html.contains(".cache"), hidden, "{html}");
        }
    }
}

fn a_directory_that_becomes_a_link_while_it_is_asked_for_leads_nowhere(arch: &str) {
    // Nothing is believed from the cache, so that every request meets the names as they are.
    let served = served(arch, "", &["cache.revalidate=0ms"]);
    let root = served.root();
    put(&root.join("swap/secret.txt"), INSIDE);
    put(&root.join("swap/deep/secret.txt"), INSIDE);
    symlink("../outside", root.join("link")).expect("a link can be made");

    let over = AtomicBool::new(false);
    let (inside, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let swaps = std::thread::scope(|scope| {
        for target in ["/swap/secret.txt", "/swap/deep/secret.txt", "/swap/deep/../secret.txt"] {
            let (served, over, inside, refused) = (&served, &over, &inside, &refused);
            scope.spawn(move || {
                let mut client = Client::connect(served.address());
                while !over.load(Relaxed) {
                    let answer = client.get(target).expect("an answer, and a kept connection");
                    assert_no_leak(&answer, target.as_bytes());
                    match answer.status {
                        200 => assert_eq!(answer.body, INSIDE.as_bytes(), "{target}"),
                        _ => assert_refused(&answer, target.as_bytes()),
                    }
                    let count = if answer.status == 200 { inside } else { refused };
                    count.fetch_add(1, Relaxed);
                }
            });
        }
        let swaps = swap_until(Instant::now() + RACE, &root);
        over.store(true, Relaxed);
        swaps
    });
    let (inside, refused) = (inside.into_inner(), refused.into_inner());
    println!("{arch}: {swaps} exchanges, {inside} answers from inside, {refused} refusals");
    assert!(swaps > 100 && inside > 10 && refused > 10, "{swaps} {inside} {refused}");
}

/// Exchanges a directory and a link to one outside, by renaming, as fast as it can.
fn swap_until(end: Instant, root: &Path) -> u64 {
    let (name, link, parked) = (root.join("swap"), root.join("link"), root.join("parked"));
    let rename = |from: &Path, to: &Path| fs::rename(from, to).expect("a name can be changed");
    let mut swaps = 0;
    while Instant::now() < end {
        rename(&name, &parked);
        rename(&link, &name);
        // The link is there; the next two take it away again.
        let leads = fs::read(name.join("secret.txt")).map_err(|error| error.kind());
        assert_eq!(leads, Ok::<_, ErrorKind>(MARKER.into()));
        rename(&name, &link);
        rename(&parked, &name);
        swaps += 1;
    }
    swaps
}
