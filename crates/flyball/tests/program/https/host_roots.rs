//! Certificates of directories of hosts (`root = "/srv/$host"`): each host's own, and what one that
//! has none means for the others.

use std::fs;
use std::path::Path;
use std::time::Duration;

use flyball_testkit::wait::until;

use crate::common::https::Authority;

const AT_MOST: Duration = Duration::from_secs(60);

/// What all hosts say, each with a directory beneath `hosts`.
fn site(authority: &Authority, hosts: &[&str], lines: &str) -> String {
    let base = authority.path("hosts");
    fs::create_dir_all(&base).unwrap();
    hosts.iter().for_each(|host| add(&base, host));
    format!("[[site]]\nroot = \"{}/$host\"\n{lines}\n", base.display())
}

fn add(base: &Path, host: &str) {
    fs::create_dir(base.join(host)).unwrap();
    fs::write(base.join(host).join("index.html"), host).unwrap();
}

#[test]
fn a_certificate_that_cannot_be_used_keeps_no_other_host_from_being_served() {
    let authority = Authority::new();
    authority.issue("a.test.pem", &["a.test"]);
    authority.write("b.test.pem", "no certificate", 0o600);
    let files = authority.path("$host.pem");
    let site =
        site(&authority, &["a.test", "b.test", "c.test"], &format!("certificate = {files:?}"));
    let server = authority.start(&format!("[tls]\nwatch = \"100ms\"\n{site}"));
    assert_eq!(authority.curl(&server, "a.test", &[]).0, "a.test200");
    let said = server.errors();
    assert!(said.contains("b.test.pem holds no "), "{said}");
    assert!(said.contains("there is no certificate for b.test, c.test yet"), "{said}");
    for host in ["b.test", "c.test"] {
        let shown = authority.openssl(&server, host, &[]);
        assert!(!shown.contains("BEGIN CERTIFICATE"), "{shown}");
    }
    // What comes later is used without a reload.
    for host in ["b.test", "c.test"] {
        authority.issue(&format!("{host}.pem"), &[host]);
        let served =
            || (authority.curl(&server, host, &[]).0 == format!("{host}200")).then_some(());
        assert!(until(AT_MOST, served).is_some(), "{host}:\n{}", server.errors());
    }
    assert!(!server.errors().contains("generation 2"), "{}", server.errors());
    server.assert_sound();
}

#[test]
fn one_file_for_all_hosts_is_the_operators_and_must_be_right() {
    let authority = Authority::new();
    let file = authority.path("all.pem");
    let site = site(&authority, &["a.test"], &format!("certificate = {file:?}"));
    let refused = authority.launch(&site).expect_err("there is no file");
    assert!(refused.errors.contains("all.pem cannot be read"), "{}", refused.errors);
}

#[test]
fn a_host_that_no_authority_vouches_for_is_told_and_keeps_no_other_from_being_served() {
    let authority = Authority::new();
    let hosts = ["a.example.org", "localhost", "router"];
    let (_, warned) = authority.check(&format!("[acme]\n{}", site(&authority, &hosts, "")));
    assert!(warned.contains("no authority vouches for \"localhost\", \"router\" of"), "{warned}");
    assert!(warned.contains("there is no certificate for a.example.org yet"), "{warned}");
    let authority = Authority::new();
    let lines = "certificate = \"internal\"";
    let (told, warned) = authority.check(&site(&authority, &hosts, lines));
    assert!(warned.contains("vouches for \"a.example.org\", \"router\" of"), "{warned}");
    assert!(told.contains("localhost"), "{told}");
}

#[test]
fn a_host_without_a_certificate_is_not_served_in_the_clear_where_tls_lets_clients_in() {
    let authority = Authority::new();
    let users = "ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy\n";
    authority.write("users", users, 0o644);
    let (ca, users) = (authority.path("ca.pem"), authority.path("users"));
    let site = site(&authority, &["localhost", "router"], "certificate = \"internal\"");
    let (clients, logins) =
        (format!("tls.client-ca = {ca:?}\n"), format!("auth.file = {users:?}\n"));
    for (before, lines, status) in [
        ("", "", 200),
        ("", &*clients, 421),
        ("", &*logins, 421),
        ("tls.redirect-http = false\n", &*logins, 401),
    ] {
        let server = authority.start(&format!("{before}{site}{lines}"));
        let answer = server.connect().ask("GET / HTTP/1.1\r\nHost: router\r\n\r\n");
        assert_eq!(answer.status(), status, "{before}{lines}");
    }
}

#[test]
fn the_first_host_may_come_and_the_last_one_go_while_the_server_runs() {
    let authority = Authority::new();
    let files = authority.path("$host.pem");
    authority.issue("a.test.pem", &["a.test"]);
    let site = site(&authority, &[], &format!("certificate = {files:?}"));
    let server = authority.start(&format!("cache.revalidate = \"100ms\"\n{site}"));
    let base = authority.path("hosts");
    add(&base, "a.test");
    let served = || (authority.curl(&server, "a.test", &[]).0 == "a.test200").then_some(());
    assert!(until(AT_MOST, served).is_some(), "{}", server.errors());
    fs::remove_dir_all(base.join("a.test")).unwrap();
    let refused = || authority.curl(&server, "a.test", &[]).0.ends_with("000").then_some(());
    assert!(until(AT_MOST, refused).is_some(), "{}", server.errors());
    fs::remove_dir(&base).unwrap();
    let told = || server.errors().contains("hosts stay what they were: ").then_some(());
    assert!(until(AT_MOST, told).is_some(), "{}", server.errors());
    server.assert_sound();
}
