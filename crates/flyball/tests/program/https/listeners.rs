//! Listeners that serve some hosts alone, where clients speak TLS: which certificate they are
//! shown, what is answered, and where those are led that come in the clear.

use std::net::SocketAddr;

use flyball_testkit::{Client, Launch, Server, free_address};

use crate::common::https::Authority;

/// A `[[listener]]` table.
fn listener(address: SocketAddr, lines: &str) -> String {
    format!("[[listener]]\naddress = \"{address}\"\n{lines}\n")
}

/// The status line of a request for a host in the clear, and its `Location`.
fn clear(address: SocketAddr, host: &str) -> (String, Option<String>) {
    let mut client = Client::connect(address);
    let answer = client.ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    (answer.line.clone(), answer.field("Location").map(str::to_owned))
}

/// What curl says of a request to `host` at this address, with more arguments: the status, after
/// the body.
fn curl(authority: &Authority, address: SocketAddr, host: &str, more: &[&str]) -> String {
    let to = format!("{host}:{}:{}", address.port(), address.ip());
    let url = format!("https://{host}:{}/", address.port());
    let output = std::process::Command::new("curl")
        .args(["-sS", "--max-time", "60", "-w", "%{http_code}", "--resolve", &to, "--cacert"])
        .arg(authority.path("ca.pem"))
        .args(more)
        .arg(url)
        .output()
        .expect("curl is there");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Two sites with certificates of their own, and one without at an address of its own.
struct Served {
    authority: Authority,
    /// Where a.test is served, and b.test, and the one without a certificate.
    at: [SocketAddr; 3],
    server: Server,
}

fn start(unknown: &str) -> Served {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    authority.issue("b.pem", &["b.test"]);
    let at = [free_address(), free_address(), free_address()];
    let root = authority.path("root");
    let config = [
        format!("tls.unknown-name = {unknown:?}\n"),
        listener(at[0], "tls = true\nhosts = \"a.test\""),
        listener(at[1], "tls = true\nhosts = [\"b.test\"]"),
        listener(at[2], "hosts = [\"plain.test\"]"),
        authority.site("\"a.test\"", "a.pem", ""),
        authority.site("\"b.test\"", "b.pem", ""),
        format!("[[site]]\nhosts = [\"plain.test\"]\nroot = {root:?}\n"),
    ];
    let server = Launch::config(config.concat()).start().expect("it starts");
    Served { authority, at, server }
}

#[test]
fn each_listener_shows_the_certificate_of_its_hosts_and_serves_no_others() {
    let Served { authority, at: [a, b, plain], server } = start("default");
    assert_eq!(curl(&authority, a, "a.test", &[]), "over TLS\n200");
    assert_eq!(curl(&authority, b, "b.test", &[]), "over TLS\n200");
    // The name of another is none that is known: the certificate is that of the first host.
    let other = curl(&authority, b, "a.test", &[]);
    assert!(other.starts_with("000") && other.contains("a.test"), "{other}");
    assert!(curl(&authority, b, "a.test", &["-k"]).ends_with("421"), "{other}");
    let shown = |address: SocketAddr| {
        let output = std::process::Command::new("openssl")
            .args(["s_client", "-noservername", "-connect", &address.to_string()])
            .stdin(std::process::Stdio::null())
            .output()
            .expect("openssl is there");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(authority.is_in("a.pem", &shown(a)) && authority.is_in("b.pem", &shown(b)));
    // Who asks for one host by the name of the other gets neither.
    assert!(curl(&authority, b, "b.test", &["-H", "Host: a.test"]).ends_with("421"));
    assert!(curl(&authority, b, "b.test", &["-H", "Host: plain.test"]).ends_with("421"));
    // A site that is served in the clear alone needs no certificate, and leads nowhere.
    assert_eq!(clear(plain, "plain.test"), ("HTTP/1.1 200 OK".to_owned(), None));
    assert_eq!(clear(plain, "a.test").0, "HTTP/1.1 421 Misdirected Request");
    // Where all are served, each is led to its own port.
    for (host, address) in [("a.test", a), ("b.test", b)] {
        let to = format!("https://{host}:{}/", address.port());
        let led = ("HTTP/1.1 308 Permanent Redirect".to_owned(), Some(to));
        assert_eq!(clear(server.address(), host), led);
    }
    assert_eq!(clear(server.address(), "plain.test").0, "HTTP/1.1 200 OK");
    server.assert_sound();
}

#[test]
fn a_request_without_a_host_is_for_the_first_of_its_listener() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test", "b.test"]);
    let [tls, served, led] = [free_address(), free_address(), free_address()];
    let config = [
        listener(tls, "tls = true\nhosts = \"b.test\""),
        listener(served, "hosts = [\"a.test\", \"b.test\"]"),
        listener(led, "hosts = [\"b.test\", \"a.test\"]"),
        authority.site("\"a.test\", \"b.test\"", "a.pem", ""),
    ];
    let server = Launch::config(config.concat()).start().expect("it starts");
    for head in ["GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n"] {
        let status = |address| Client::connect(address).ask(head).line.clone();
        // The first is served in the clear alone.
        assert_eq!(status(served), "HTTP/1.1 200 OK", "{head:?}");
        // The first is led to https, and no name says where.
        assert_eq!(status(led), "HTTP/1.1 421 Misdirected Request", "{head:?}");
    }
    server.assert_sound();
}

#[test]
fn tls_is_spoken_over_a_socket_in_the_file_system() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    let path = authority.path("site.sock");
    let listener = format!("[[listener]]\naddress = \"https://unix:{}\"\n", path.display());
    let config = listener + &authority.site("\"a.test\"", "a.pem", "");
    let server = Launch::config(config).start().expect("it starts");
    let socket = path.display().to_string();
    let output = std::process::Command::new("curl")
        .args(["-sS", "--max-time", "60", "--unix-socket", &socket, "--cacert"])
        .arg(authority.path("ca.pem"))
        .arg("https://a.test/")
        .output()
        .expect("curl is there");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "over TLS\n", "{output:?}");
    // It has no port that others could be led to.
    assert_eq!(clear(server.address(), "a.test"), ("HTTP/1.1 200 OK".to_owned(), None));
    server.assert_sound();
}

#[test]
fn the_name_of_a_host_that_is_not_served_there_may_be_refused() {
    let Served { authority, at: [a, b, _], server } = start("reject");
    assert_eq!(curl(&authority, a, "a.test", &[]), "over TLS\n200");
    assert_eq!(curl(&authority, b, "b.test", &[]), "over TLS\n200");
    for (address, name) in [(a, "b.test"), (b, "a.test"), (b, "plain.test")] {
        let refused = curl(&authority, address, name, &["-k"]);
        assert!(refused.starts_with("000"), "{name}: {refused}");
        assert!(refused.contains("unrecognized name"), "{name}: {refused}");
    }
    server.assert_sound();
}

#[test]
fn hosts_that_cannot_be_served_so_are_errors() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    let (root, ca) = (authority.path("root"), authority.path("ca.pem"));
    let plain = |more: &str| format!("[[site]]\nhosts = [\"b.test\"]\nroot = {root:?}\n{more}\n");
    let secure = authority.site("\"a.test\"", "a.pem", "");
    let of_a = "[[listener]]\naddress = \"https://127.0.0.1:0\"\nhosts = [\"a.test\"]\n";
    let of_b = "[[listener]]\naddress = \"127.0.0.1:0\"\nhosts = [\"b.test\"]\n";
    let lone = |head: &str, tables: &str| format!("listen = \"auto\"\n{head}{tables}");
    for (text, key, why) in [
        (
            lone("", &of_b.replace("b.test", "z.test")) + &plain(""),
            "listener.hosts",
            "no site answers to z.test",
        ),
        (
            lone("", of_a)
                + &plain("certificate = \"none\"")
                + &secure.replace("a.test", "c.test").replace("a.pem", "none"),
            "listener.hosts",
            "no site answers to a.test",
        ),
        (
            lone("", &of_a.replace("a.test", "b.test"))
                + &plain("certificate = \"none\"")
                + &secure,
            "listener.hosts",
            "no site of these hosts has a certificate",
        ),
        // Where it is served by TLS too, it needs one.
        (
            lone("", of_a)
                + "[[listener]]\naddress = \"https://127.0.0.2:0\"\n"
                + &plain("")
                + &secure,
            "site.certificate",
            "is missing",
        ),
        // No client can show a certificate there.
        (
            lone("", &format!("{of_a}{of_b}"))
                + &plain(&format!("tls.client-ca = {ca:?}"))
                + &secure,
            "site.tls.client-ca",
            "at no address that speaks TLS",
        ),
        (
            lone(&format!("tls.client-ca = {ca:?}\n"), &format!("{of_a}{of_b}"))
                + &plain("")
                + &secure,
            "site.certificate",
            "which they cannot where the site is served",
        ),
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("flyball.toml");
        std::fs::write(&path, &text).expect("it is written");
        let mut check = std::process::Command::new(flyball_testkit::binary());
        let output = check.args(["check", "--config"]).arg(&path).output().expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(&format!(" {key}: ")) && errors.contains(why), "{errors}\n{text}");
        assert_eq!(output.status.code(), Some(2), "{errors}");
    }
}
