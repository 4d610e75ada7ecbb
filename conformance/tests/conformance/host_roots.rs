//! A directory for each host (`root = "/srv/$host"`): each is a site of its own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use flyball_testkit::Server;
use tempfile::TempDir;

use crate::mount::Mount;
use crate::requests::get_of;

/// A directory with one for each of these hosts, each with its name in a file.
fn directories(hosts: &[&str]) -> TempDir {
    let base = tempfile::tempdir().expect("a temporary directory");
    hosts.iter().for_each(|host| add(base.path(), host));
    base
}

fn add(base: &Path, host: &str) {
    let root = base.join(host).join("www");
    fs::create_dir_all(&root).expect("a directory can be made");
    fs::write(root.join("who.txt"), host).expect("a file can be written");
}

/// The site of these directories.
fn site(base: &TempDir, more: &str) -> String {
    format!("[[site]]\nroot = \"{}/$host/www\"\n{more}", base.path().display())
}

/// What a host answers with, or its status.
fn who(server: &Server, host: &str) -> String {
    let answer = server.connect().ask(get_of(host, "/who.txt"));
    match answer.status() {
        200 => answer.text().to_owned(),
        status => status.to_string(),
    }
}

pub(crate) fn each_directory_that_a_host_names_is_a_site(mount: &Mount) {
    let base = directories(&["a.test", "b.test", ".hidden.test", "Upper.test", "c.test"]);
    fs::remove_file(base.path().join("c.test/www/who.txt")).expect("it is there");
    let server = mount.start_with_sites("", &site(&base, ""));
    let mut client = server.connect();
    // One after the other on one connection: no cache mixes them up.
    for _ in 0..3 {
        for host in ["a.test", "b.test", "A.Test.", "b.test:80"] {
            let answer = client.ask(get_of(host, "/who.txt"));
            let expected = host.to_lowercase();
            let expected = expected.trim_end_matches(":80").trim_end_matches('.');
            assert_eq!((answer.status(), answer.text()), (200, expected), "{host}");
        }
        assert_eq!(client.ask(get_of("c.test", "/who.txt")).status(), 404);
        for host in [".hidden.test", "upper.test", "d.test", "a.test.b.test", "127.0.0.1", ""] {
            let answer = client.ask(get_of(host, "/who.txt"));
            assert_eq!(answer.status(), 421, "{host:?}");
        }
        for path in ["/../b.test/www/who.txt", "/%2e%2e/%2e%2e/b.test/www/who.txt"] {
            assert_eq!(client.ask(get_of("a.test", path)).status(), 400, "{path}");
        }
    }
}

pub(crate) fn a_directory_that_cannot_be_served_closes_no_other(mount: &Mount) {
    let base = directories(&["a.test", "b.test", "bare.test"]);
    let apart = directories(&["out.test"]);
    fs::remove_dir_all(base.path().join("bare.test/www")).expect("it is there");
    symlink("b.test", base.path().join("link.test")).expect("a link can be made");
    symlink("nowhere", base.path().join("broken.test")).expect("a link can be made");
    symlink(apart.path().join("out.test"), base.path().join("out.test")).expect("a link");
    // Whose directory it is decides about links in it: they lead to no other's.
    for (host, to) in [("thief.test", "../b.test/www"), ("all.test", "..")] {
        fs::create_dir(base.path().join(host)).expect("a directory can be made");
        symlink(to, base.path().join(host).join("www")).expect("a link can be made");
    }
    let of = |server: &Server| {
        ["a.test", "link.test", "out.test", "bare.test", "broken.test"]
            .map(|host| who(server, host))
    };
    let server = mount.start_with_sites("", &site(&base, ""));
    assert_eq!(of(&server), ["a.test", "b.test", "421", "421", "421"]);
    assert_eq!(["thief.test", "all.test"].map(|host| who(&server, host)), ["421", "421"]);
    // What has gone closes itself alone at a reload, and what has come is served.
    fs::remove_dir_all(base.path().join("a.test")).expect("it is there");
    add(base.path(), "new.test");
    add(base.path(), "bare.test");
    server.reload();
    assert_eq!(who(&server, "new.test"), "new.test");
    assert_eq!(of(&server), ["421", "b.test", "421", "bare.test", "421"]);
    drop(server);
    let server = mount.start_with_sites("", &site(&base, "symlinks = \"follow\"\n"));
    assert_eq!(of(&server), ["421", "b.test", "out.test", "bare.test", "421"]);
    drop(server);
    let server = mount.start_with_sites("", &site(&base, "symlinks = \"deny\"\n"));
    assert_eq!(of(&server), ["421", "421", "421", "bare.test", "421"]);
}

pub(crate) fn what_is_said_of_the_site_holds_for_each_of_its_hosts(mount: &Mount) {
    let base = directories(&["a.test", "b.test", "other.test"]);
    let more = "hosts = [\"*.test\"]\nlisting = true\n\
                [[site.redirect]]\nfrom = \"/old/*\"\nto = \"https://$host/$1\"\n\
                [[site.header]]\nset = { X-Many = \"yes\" }\n\
                [[site.access]]\npath = \"/closed\"\ndeny = [\"0.0.0.0/0\", \"::/0\"]\n\
                [[site.limit]]\npath = \"/rare\"\nrequests-per-address = 1\n";
    let single = format!(
        "[[site]]\nhosts = [\"other.test\"]\nroot = {:?}\n",
        base.path().join("other.test")
    );
    let server = mount.start_with_sites("", &(site(&base, more) + &single));
    let mut client = server.connect();
    for host in ["a.test", "b.test"] {
        let answer = client.ask(get_of(host, "/"));
        assert!(answer.status() == 200 && answer.text().contains("who.txt"), "{host}");
        assert_eq!(answer.expect("X-Many"), "yes");
        let answer = client.ask(get_of(host, "/old/x"));
        assert_eq!(answer.expect("Location"), format!("https://{host}/x"));
        assert_eq!(client.ask(get_of(host, "/closed/who.txt")).status(), 403);
        // Each host has what it may have by itself.
        assert_eq!(client.ask(get_of(host, "/rare")).status(), 404);
    }
    // A site of its own comes first.
    assert_eq!(client.ask(get_of("other.test", "/www/who.txt")).text(), "other.test");
}
