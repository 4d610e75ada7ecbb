//! The way that a request comes by: in the clear, or over TLS by the policy of a site.

use std::io::Write;
use std::time::Duration;

use flyball_testkit::wait::until;
use flyball_testkit::{Client, Server};

use crate::common::https::Authority;

const AT_MOST: Duration = Duration::from_secs(60);

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
    let trusted = "client.address = \"x-forwarded-for\"\nclient.trusted = [\"127.0.0.1\"]\n\
                   [tls]\nhsts = \"1h\"\n";
    let server =
        authority.start(&format!("{trusted}{}", authority.site("\"a.test\"", "a.pem", "")));
    let port = server.secure().port();
    let moved = clear(&server, "/x?y=%20", "");
    assert!(moved.starts_with("HTTP/1.1 308 "), "{moved}");
    let location = format!("\r\nLocation: https://a.test:{port}/x?y=%20\r\n");
    assert!(moved.contains(&location) && !moved.contains("Strict-Transport"), "{moved}");
    let challenge = clear(&server, "/.well-known/acme-challenge/x", "");
    assert!(challenge.starts_with("HTTP/1.1 200 ") && challenge.ends_with("token"), "{challenge}");
    assert!(!challenge.contains("Strict-Transport"), "{challenge}");
    let elsewhere = clear(&server, "/.well-known/acme-challenge/../../", "");
    assert!(elsewhere.starts_with("HTTP/1.1 308 "), "{elsewhere}");
    let proxied = clear(&server, "/", "X-Forwarded-Proto: https\r\n");
    assert!(proxied.starts_with("HTTP/1.1 200 ") && proxied.contains("Strict-"), "{proxied}");
    for forged in [
        "Forwarded: for=192.0.2.1;proto=https\r\nX-Forwarded-Proto: http\r\n",
        "X-Forwarded-Proto: https\r\nX-Forwarded-For: 7.7.7.7\r\nX-Forwarded-Proto: http\r\n",
    ] {
        let answer = clear(&server, "/", forged);
        assert!(answer.starts_with("HTTP/1.1 308 "), "{forged}: {answer}");
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
    let strict = format!("fallback = \"/index.html\"\ntls.client-ca = {ca:?}");
    let sites =
        authority.site("\"a.test\"", "a.pem", "") + &authority.site("\"b.test\"", "b.pem", &strict);
    let server = authority.start(&format!("[tls]\nredirect-http = false\n{sites}"));
    let client = authority.path("client.pem").display().to_string();
    let (refused, output) = authority.curl(&server, "b.test", &[]);
    assert!(refused.ends_with("000") && !output.status.success(), "{refused}");
    assert_eq!(authority.curl(&server, "b.test", &["-E", &client]).0, "over TLS\n200");
    let (other, _) = authority.curl(&server, "a.test", &["-H", "Host: b.test"]);
    assert!(other.ends_with("421"), "{other}");
    let told = "This connection was made for another name, and this name asks for one of its own; \
                please connect again.";
    assert!(other.contains(told), "{other}");
    let (other, _) = authority.curl(&server, "b.test", &["-E", &client, "-H", "Host: a.test"]);
    assert!(other.ends_with("421"), "{other}");
    // In the clear no certificate can be shown, whatever answers.
    const CHALLENGES: &str = "/.well-known/acme-challenge";
    for path in ["/", &format!("{CHALLENGES}/../../"), &format!("{CHALLENGES}/falls-back")] {
        let mut plain = Client::connect(server.address());
        let request = format!("GET {path} HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n");
        plain.send(request.as_bytes());
        let answer = String::from_utf8(plain.rest()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 421 "), "{path}: {answer}");
        assert!(answer.contains("This name is served by https alone."), "{path}: {answer}");
    }
    server.assert_sound();
}

#[test]
fn a_site_says_nothing_of_its_own_to_who_may_not_ask_it_whatever_is_wrong() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    authority.issue("b.pem", &["b.test"]);
    let (ca, own) = (authority.path("ca.pem"), authority.path("root/own.html"));
    let strict = format!(
        "error-page = {{ 413 = {own:?}, 429 = {own:?} }}\ntls.client-ca = {ca:?}\n\
         [[site.header]]\npath = \"/\"\nset = {{ X-Own = \"1\" }}\n\
         [[site.limit]]\npath = \"/rare\"\nrequests-per-address = 1\n"
    );
    authority.write("root/own.html", "our own words", 0o644);
    let sites =
        authority.site("\"a.test\"", "a.pem", "") + &authority.site("\"b.test\"", "b.pem", &strict);
    let server = authority.start(&format!("[limit]\nbody = 10\n{sites}"));
    let rare = "GET /rare HTTP/1.1\r\nHost: b.test\r\n\r\n";
    let long = "POST / HTTP/1.1\r\nHost: b.test\r\nContent-Length: 11\r\n\r\n";
    let client = authority.begin_openssl(&server, "a.test", &[]);
    let requests = [rare, rare, long].concat();
    client.stdin.as_ref().unwrap().write_all(requests.as_bytes()).unwrap();
    let told = String::from_utf8(client.wait_with_output().unwrap().stdout).unwrap();
    for line in ["421 Misdirected", "429 Too Many", "413 Content"] {
        assert!(told.contains(&format!("HTTP/1.1 {line}")), "{line}:\n{told}");
    }
    assert!(!told.contains("our own words") && !told.contains("X-Own"), "{told}");
    server.assert_sound();
}

#[test]
fn what_was_agreed_on_is_logged_counted_and_told_to_programs() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    authority.issue_by("client.pem", &["someone"], |params| {
        params.distinguished_name.push(rcgen::DnType::CommonName, "some one");
    });
    std::fs::create_dir(authority.path("programs")).unwrap();
    let program = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\n\
                   echo \"$HTTPS $SSL_PROTOCOL $SSL_TLS_SNI $SSL_CLIENT_VERIFY\"\n";
    authority.write("programs/x", program, 0o755);
    let (ca, log, root) =
        (authority.path("ca.pem"), authority.path("log"), authority.path("programs"));
    let lines = format!("tls.client-ca = {ca:?}\n[[site.cgi]]\npath = \"/p\"\nroot = {root:?}");
    let format = "$status $ssl_protocol $ssl_server_name $ssl_session_reused $ssl_client_s_dn.";
    let config = format!(
        "access-log = {log:?}\nadmin = \"127.0.0.1:0\"\n[log]\nformat = {format:?}\n{}",
        authority.site("\"a.test\"", "a.pem", &lines)
    );
    let server = authority.start(&config);
    let client = authority.path("client.pem").display().to_string();
    let address = format!("https://a.test:{}/p/x", server.secure().port());
    let (said, output) = authority.curl(&server, "a.test", &["-E", &client, &address]);
    assert!(said.contains("on TLSv1.3 a.test SUCCESS\n200"), "{said}: {output:?}");
    let logged = || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.contains("TLSv1.3 a.test . CN=some one").then_some(())
    };
    assert!(until(AT_MOST, logged).is_some(), "{:?}", std::fs::read_to_string(&log));
    let counted = || server.status().contains("\"tls_full\": 1,").then_some(());
    assert!(until(AT_MOST, counted).is_some(), "{}", server.status());
    let status = server.status();
    assert!(
        status.contains("\"name\": \"a.test\"") && status.contains("\"holds_s\": "),
        "{status}"
    );
    // One that is refused before it is understood has come by a connection all the same.
    let long = format!("X: {}", "x".repeat(70_000));
    for (status, wrong) in [("400", ["--request-target", "/a b"]), ("431", ["-H", &*long])] {
        let more = [&["-E", &client, &address], &wrong[..]].concat();
        let (said, output) = authority.curl(&server, "a.test", &more);
        assert!(said.ends_with(status), "{said}: {output:?}");
        let told = format!("{status} TLSv1.3 a.test . CN=some one");
        let logged =
            || std::fs::read_to_string(&log).unwrap_or_default().contains(&told).then_some(());
        assert!(until(AT_MOST, logged).is_some(), "{:?}", std::fs::read_to_string(&log));
    }
    server.assert_sound();
}

#[test]
fn certificates_of_one_name_are_told_apart_and_one_that_two_sites_have_is_told_once() {
    let authority = Authority::new();
    for file in ["one.pem", "two.pem"] {
        authority.issue(file, &["a.test"]);
    }
    std::fs::copy(authority.path("one.pem"), authority.path("copy.pem")).unwrap();
    let table = |file: &str| {
        let file = authority.path(file);
        format!("[[site.certificates]]\nchain = {file:?}\nkey = {file:?}\n")
    };
    let (one, two) = (table("one.pem"), table("two.pem"));
    let root = authority.path("root");
    let config = format!(
        "admin = \"127.0.0.1:0\"\n[[site]]\nhosts = [\"a.test\"]\nroot = {root:?}\n{one}{two}{}",
        authority.site("\"b.test\"", "copy.pem", "")
    );
    let server = authority.start(&config);
    let metrics =
        Client::connect(server.admin()).ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let text = metrics.text().to_owned();
    let samples = text.lines().filter_map(|line| {
        line.strip_prefix("flyball_certificate_holds_seconds")?.rsplit_once(' ')
    });
    let mut labels: Vec<&str> = samples.map(|(labels, _)| labels).collect();
    let told = labels.len();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!((labels.len(), told), (2, 2), "{labels:?}");
    assert!(labels.iter().all(|labels| labels.contains("key=\"ECDSA\"")), "{labels:?}");
    assert!(server.status().contains("\"serial\": \""), "{}", server.status());
    server.assert_sound();
}
