//! Which site answers (RFC 9110, section 7.2).

use std::net::SocketAddr;

use flyball_testkit::{Client, Site, free_address};

use crate::mount::Mount;
use crate::requests::get_of;

pub(crate) fn the_site_is_chosen_by_host(mount: &Mount) {
    let mut client = mount.connect();
    for (host, text) in [
        ("exact.test", "exact\n"),
        ("EXACT.Test", "exact\n"),
        ("exact.test:8080", "exact\n"),
        ("exact.test.", "exact\n"),
        ("a.wild.test", "wild\n"),
        ("a.b.wild.test:80", "wild\n"),
        ("wild.test", "default\n"),
        (".wild.test", "default\n"),
        ("xwild.test", "default\n"),
        ("a.exact.test", "default\n"),
        ("exact.test.evil", "default\n"),
        ("127.0.0.1", "default\n"),
        ("[::1]:80", "default\n"),
        ("", "default\n"),
        ("*", "default\n"),
        ("*.wild.test", "wild\n"),
        ("..%2f", "default\n"),
    ] {
        let answer = client.ask(get_of(host, "/who.txt"));
        assert_eq!((answer.status(), answer.text()), (200, text), "{host:?}");
    }
    assert_eq!(client.ask("GET /who.txt HTTP/1.0\r\n\r\n").text(), "default\n");
}

pub(crate) fn one_site_does_not_answer_with_the_files_of_another(mount: &Mount) {
    let mut client = mount.connect();
    for _ in 0..2 {
        assert_eq!(client.ask(get_of("a.test", "/hello.txt")).status(), 200);
        assert_eq!(client.ask(get_of("exact.test", "/hello.txt")).status(), 404);
        assert_eq!(client.ask(get_of("exact.test", "/who.txt")).text(), "exact\n");
        assert_eq!(client.ask(get_of("a.test", "/who.txt")).text(), "default\n");
    }
}

pub(crate) fn a_host_without_a_site_is_421(mount: &Mount) {
    let root = Site::shared().path("hosts/exact").display().to_string();
    let sites = format!("[[site]]\nhosts = [\"exact.test\"]\nroot = \"{root}\"\n");
    let server = mount.start_with_sites("", &sites);
    let mut client = server.connect();
    assert_eq!(client.ask(get_of("exact.test", "/who.txt")).text(), "exact\n");
    for host in ["other.test", "a.exact.test", "127.0.0.1", ""] {
        let answer = client.ask(get_of(host, "/who.txt"));
        assert_eq!(answer.line, "HTTP/1.1 421 Misdirected Request", "{host:?}");
    }
    assert_eq!(client.ask(get_of("exact.test", "/who.txt")).text(), "exact\n");
    drop(server);
}

/// What one thread remembers of hosts at one listener does not hold at another.
pub(crate) fn a_listener_serves_the_hosts_that_it_names_alone(mount: &Mount) {
    let (one, other) = (free_address(), free_address());
    let listener = |address: SocketAddr, hosts: &str| {
        format!("[[listener]]\naddress = \"{address}\"\nhosts = [{hosts}]\n")
    };
    let site = |host: &str, root: &str| {
        let root = Site::shared().path(root).display().to_string();
        format!("[[site]]\nhosts = [\"{host}\"]\nroot = \"{root}\"\n")
    };
    let tables = [
        listener(one, "\"exact.test\""),
        listener(other, "\"*.wild.test\", \"exact.test\""),
        site("*", ""),
        site("exact.test", "hosts/exact"),
        site("*.wild.test", "hosts/wild"),
    ];
    let server = mount.start_with_sites("", &tables.concat());
    let mut all = server.connect();
    let (mut one, mut other) = (Client::connect(one), Client::connect(other));
    const MISDIRECTED: (u16, Option<&str>) = (421, None);
    for (host, of_all, of_one, of_other) in [
        ("exact.test", (200, Some("exact\n")), (200, Some("exact\n")), (200, Some("exact\n"))),
        ("EXACT.test.", (200, Some("exact\n")), (200, Some("exact\n")), (200, Some("exact\n"))),
        ("a.wild.test", (200, Some("wild\n")), MISDIRECTED, (200, Some("wild\n"))),
        ("wild.test", (200, Some("default\n")), MISDIRECTED, MISDIRECTED),
        ("b.test", (200, Some("default\n")), MISDIRECTED, MISDIRECTED),
        ("127.0.0.1", (200, Some("default\n")), MISDIRECTED, MISDIRECTED),
        // No host is that of the first.
        ("", (200, Some("default\n")), (200, Some("exact\n")), (200, Some("wild\n"))),
    ] {
        for _ in 0..2 {
            for (client, (status, text)) in
                [(&mut all, of_all), (&mut one, of_one), (&mut other, of_other)]
            {
                let answer = client.ask(get_of(host, "/who.txt"));
                assert_eq!(answer.status(), status, "{host:?}");
                assert!(text.is_none_or(|text| answer.text() == text), "{host:?}");
            }
        }
    }
    assert_eq!(one.ask("GET /who.txt HTTP/1.0\r\n\r\n").text(), "exact\n");
    assert_eq!(other.ask("GET /who.txt HTTP/1.0\r\n\r\n").text(), "wild\n");
}
