//! Files that the server itself reads, users with their passwords and tables of users: no client
//! gets one, whatever leads to it.

use std::fs;
use std::os::unix::fs::symlink;

use flyball_testkit::Client;
use flyball_testkit::wait::{DEADLINE, until};

use crate::mount::Mount;
use crate::requests::request;

/// `ann:secret`, by a hash of the lowest cost.
const USERS: &str = "ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy\n";

/// What is in all of them.
const SECRET: &str = "ann:";

fn ask(client: &mut Client, target: &str) -> (u16, String) {
    let answer = client.ask(request("GET", target, &[]));
    (answer.status(), answer.text().to_owned())
}

pub(crate) fn what_the_server_reads_is_sent_to_no_client_when_a_root_is_switched_to_it(
    mount: &Mount,
) {
    let directory = tempfile::Builder::new().prefix("flyball-secret-").tempdir();
    let directory = directory.expect("a temporary directory");
    let at = |name: &str| directory.path().join(name);
    for name in ["app/releases", "app/read"] {
        fs::create_dir_all(at(name)).expect("a directory can be made");
    }
    for (name, words) in [
        ("app/releases/page.txt", "first"),
        ("app/page.txt", "second"),
        ("app/users", USERS),
        ("app/table", "ann:x:1001:1001::/nowhere:/bin/sh\n"),
    ] {
        fs::write(at(name), words).expect("it is written");
    }
    for (name, other) in [("users", "hard"), ("users", "page.txt.gz"), ("table", "read/README")] {
        fs::hard_link(at("app").join(name), at("app").join(other)).expect("it has another name");
    }
    symlink("users", at("app/link")).expect("a link can be made");
    symlink("app/releases", at("current")).expect("a link can be made");
    let sites = format!(
        "[[site]]\nroot = {:?}\nlisting = true\ncompress.precompressed = true\n\
         auth.file = {:?}\nauth.paths = [\"/drafts\"]\n\
         user-directories = \"public_html\"\nuser-table = {:?}\n",
        at("current"),
        at("app/users"),
        at("app/table"),
    );
    let settings = "workers = 1\ncache.revalidate = \"100ms\"\n";
    let server = mount.start_with_sites(settings, &sites);
    assert_eq!(ask(&mut server.connect(), "/page.txt"), (200, "first".to_owned()));

    symlink("app", at("next")).expect("a link can be made");
    fs::rename(at("next"), at("current")).expect("a link can be switched");
    let is_switched = || (ask(&mut server.connect(), "/releases/page.txt").0 == 200).then_some(());
    until(DEADLINE, is_switched).expect("the root is switched");
    let mut client = server.connect();
    // Twice, so that the second answer comes from the caches.
    for _ in 0..2 {
        for target in ["/users", "/table", "/hard", "/link", "/read/README", "/page.txt.gz"] {
            let (status, body) = ask(&mut client, target);
            assert_eq!(status, 404, "{target}: {body}");
        }
        for target in ["/?format=json", "/read/?format=json"] {
            let (status, listed) = ask(&mut client, target);
            assert_eq!(status, 200, "{target}");
            for name in ["users", "\"table", "hard", "link", "page.txt.gz", "README"] {
                assert!(!listed.contains(name), "{target}: {listed}");
            }
        }
        let (status, page) = ask(&mut client, "/read/");
        assert!(status == 200 && !page.contains(SECRET), "{page}");
        let coded = client.ask(request("GET", "/page.txt", &["Accept-Encoding: gzip"]));
        assert!(!String::from_utf8_lossy(&coded.body).contains(SECRET), "{}", coded.line);
    }
    // What takes its place is none less, before the server has read it.
    fs::write(at("new"), USERS).expect("it is written");
    fs::rename(at("new"), at("app/users")).expect("it is replaced");
    for target in ["/users", "/hard"] {
        assert_eq!(ask(&mut server.connect(), target).0, 404, "{target}");
    }
    server.assert_sound();
}
