//! The way that a request comes by: in the clear, or over TLS by the policy of a site.

use flyball_testkit::{Client, Server};

use crate::common::https::Authority;

/// The head of the answer to a request in the clear.
fn clear(server: &Server, target: &str, more: &str) -> String {
    let mut client = Client::connect(server.address());
    client.send(
        format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{more}Connection: close\r\n\r\n")
            .as_bytes(),
    );
    String::from_utf8_lossy(&client.rest()).into_owned()
}

#[test]
fn a_host_with_a_certificate_leads_to_https_unless_it_is_a_challenge() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    std::fs::create_dir_all(authority.path("root/.well-known/acme-challenge")).unwrap();
    std::fs::write(authority.path("root/.well-known/acme-challenge/x"), "token").unwrap();
    let trusted = "client.trusted = [\"127.0.0.1\"]\n[tls]\nhsts = \"1h\"\n";
    let server =
        authority.start(&format!("{trusted}{}", authority.site("\"a.test\"", "a.pem", "")));
    let port = server.secure().port();
    let moved = clear(&server, "/x?y=%20", "");
    assert!(moved.starts_with("HTTP/1.1 308 "), "{moved}");
    let location = format!("\r\nLocation: https://a.test:{port}/x?y=%20\r\n");
    assert!(moved.contains(&location) && !moved.contains("Strict-Transport"), "{moved}");
    let challenge = clear(&server, "/.well-known/acme-challenge/x", "");
    assert!(challenge.starts_with("HTTP/1.1 200 ") && challenge.ends_with("token"), "{challenge}");
    for proxied in ["X-Forwarded-Proto: https\r\n", "Forwarded: for=192.0.2.1;proto=https\r\n"] {
        let answer = clear(&server, "/", proxied);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{proxied}: {answer}");
    }
    let (said, _) = authority.curl(&server, "a.test", &["-i"]);
    assert!(said.contains("\r\nStrict-Transport-Security: max-age=3600\r\n"), "{said}");
    server.assert_sound();
}

#[test]
fn a_site_whose_clients_show_certificates_is_reached_by_its_own_name_alone() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    authority.issue("b.pem", &["b.test"]);
    authority.issue("client.pem", &["someone"]);
    let ca = authority.path("ca.pem");
    let strict = format!("tls.client-ca = {ca:?}");
    let sites =
        authority.site("\"a.test\"", "a.pem", "") + &authority.site("\"b.test\"", "b.pem", &strict);
    let server = authority.start(&format!("[tls]\nredirect-http = false\n{sites}"));
    let client = authority.path("client.pem").display().to_string();
    let (refused, output) = authority.curl(&server, "b.test", &[]);
    assert!(refused.ends_with("000") && !output.status.success(), "{refused}");
    assert_eq!(authority.curl(&server, "b.test", &["-E", &client]).0, "over TLS\n200");
    let (other, _) = authority.curl(&server, "a.test", &["-H", "Host: b.test"]);
    assert!(other.ends_with("421"), "{other}");
    let (other, _) = authority.curl(&server, "b.test", &["-E", &client, "-H", "Host: a.test"]);
    assert!(other.ends_with("421"), "{other}");
    // In the clear no certificate can be shown.
    let mut plain = Client::connect(server.address());
    plain.send(b"GET / HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n");
    assert!(plain.rest().starts_with(b"HTTP/1.1 421 "));
    server.assert_sound();
}
