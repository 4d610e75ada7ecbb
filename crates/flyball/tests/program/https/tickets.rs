//! Keys of tickets: they change in all workers at once, and those before hold on.

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use flyball_testkit::Server;
use flyball_testkit::wait::until;

use crate::common::https::Authority;

const AT_MOST: Duration = Duration::from_secs(60);

/// The name of the key of a new ticket, with which it begins: 16 bytes in hexadecimal digits.
fn key_of(authority: &Authority, server: &Server) -> String {
    let session = authority.path("session").display().to_string();
    let said = authority.openssl(server, "a.test", &["-tls1_3", "-sess_out", &session]);
    assert!(said.contains("\nNew, TLSv1.3"), "{said}");
    let mut lines = said.lines().skip_while(|line| !line.contains("TLS session ticket:"));
    let first = lines.nth(1).unwrap_or_else(|| panic!("a ticket:\n{said}"));
    first.trim().get(7..54).expect("sixteen bytes").to_owned()
}

fn resumes(authority: &Authority, server: &Server, session: &str) -> bool {
    let session = authority.path(session).display().to_string();
    let said = authority.openssl(server, "a.test", &["-tls1_3", "-sess_in", &session]);
    said.contains("\nReused, TLSv1.3")
}

/// A text that no part is repeated in.
fn text_of(word: &str) -> String {
    (0..20).map(|at| format!("{word}{at}")).collect()
}

#[test]
fn a_file_that_is_replaced_changes_the_keys_of_all_workers_at_once_and_those_before_hold() {
    replaced("n-copy", 2, 6);
}

#[test]
#[ignore = "full tier"]
fn a_file_that_is_replaced_changes_the_keys_of_many_workers_of_each_kind() {
    ["n-copy", "mp", "symped"].into_iter().for_each(|arch| replaced(arch, 4, 24));
}

/// A server with so many workers, and so many connections that are as good as sure to reach each.
fn replaced(arch: &str, workers: usize, connections: usize) {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    let file = authority.path("tickets");
    authority.write("tickets", &text_of("one"), 0o600);
    let config = format!(
        "arch = \"{arch}\"\nworkers = {workers}\n[tls]\nwatch = \"100ms\"\ntickets = {file:?}\n{}",
        authority.site("\"a.test\"", "a.pem", "")
    );
    let server = authority.start(&config);
    let keys =
        || -> HashSet<String> { (0..connections).map(|_| key_of(&authority, &server)).collect() };
    let before = keys();
    assert_eq!(before.len(), 1, "{arch}");
    fs::copy(authority.path("session"), authority.path("before")).unwrap();
    for (text, mode, why) in [
        ("short", 0o600, "holds less than 32 bytes"),
        (&text_of("two"), 0o644, "is open to all users"),
        (&"\0".repeat(64), 0o600, "holds the same bytes again and again"),
    ] {
        authority.write("tickets", text, mode);
        let told = || server.errors().contains(why).then_some(());
        assert!(until(AT_MOST, told).is_some(), "{arch}:\n{}", server.errors());
    }
    assert_eq!(keys(), before, "{arch}: what cannot be used changes nothing");
    authority.write("tickets", &text_of("two"), 0o600);
    let used = || server.errors().contains("tickets is in use").then_some(());
    assert!(until(AT_MOST, used).is_some(), "{arch}:\n{}", server.errors());
    let after = keys();
    assert!(after.len() == 1 && after != before, "{arch}: {after:?}");
    for _ in 0..8 {
        assert!(resumes(&authority, &server, "before"), "{arch}");
    }
    server.reload();
    assert!(resumes(&authority, &server, "before"), "{arch}: after a reload");
    assert_eq!(keys(), after, "{arch}");
    assert_eq!(server.errors().matches("the keys of tickets stay: ").count(), 3, "{arch}");
    server.assert_sound();
}
