//! Requests to the admin socket that no client of ours makes: each is refused with a status that
//! says why, and changes nothing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::common::{
    Launch, Server, Site, children, get, signal, stop_at_rest, text, told, wait_for, within,
};
use flyball_testkit::Client;

/// The status and the whole of an answer.
fn ask(socket: &Path, request: &[u8]) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    // What is too long is refused before it has been read.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.get(9..12).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{}: {answer:?}", request.escape_ascii())), answer)
}

fn request(line: &str, more: &str) -> Vec<u8> {
    format!("{line} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n").into_bytes()
}

const SET: &str = "POST /settings?timeout.idle=3s";

#[test]
fn a_change_that_is_none_is_refused_and_changes_nothing() {
    let site = Site::with(&[("page", b"page")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let admin = format!("unix:{}", text(&socket));
    let server = Launch::new(&site, "sped").args(&["--admin", &admin]).start();
    let before = server.children(2);

    let long = "x".repeat(70_000);
    let chunked = "Transfer-Encoding: chunked\r\n";
    let refusals = [
        (request("POST /settings", ""), 400),
        (request("POST /settings?", ""), 400),
        (request("POST /settings?timeout.idle", ""), 400),
        (request("POST /settings?=3s", ""), 400),
        (request("POST /settings?=", ""), 400),
        (request("POST /settings?timeout.idle=", ""), 400),
        (request("POST /settings?timeout.idle=3s&timeout.head=3s", ""), 400),
        (request("POST /settings?timeout.idle=3s%0a", ""), 400),
        (request("POST /settings?timeout%2eidle=3s", ""), 400),
        (request("POST /settings?timeout.idle=3s/..", ""), 400),
        (request("POST /settings?timeout.idle=\u{663}s", ""), 400),
        (request("POST /settings?timeout.idle=3s set", ""), 400),
        (b"POST /settings?timeout.idle=3s\x80\xff HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        (b"POST /settings?timeout.idle=3s\0 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        (b"POST /settings?timeout.idle=3s HTTP/1.1\r\n\r\n".to_vec(), 400),
        (request(&format!("POST /settings?{}=3s", "k".repeat(2_000)), ""), 400),
        (request(&format!("POST /settings?{long}=3s"), ""), 414),
        (request(SET, &format!("X: {long}\r\n")), 431),
        (request(SET, "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 400),
        (request(SET, "Content-Length: -1\r\n"), 400),
        // Bodies, which no command has.
        (
            [request("POST /settings", "Content-Length: 15\r\n"), b"timeout.idle=3s".into()]
                .concat(),
            413,
        ),
        ([request(SET, "Content-Length: 1\r\n"), b"x".into()].concat(), 413),
        (request(SET, "Content-Length: 99999999999999\r\n"), 413),
        ([request(SET, chunked), b"1\r\nx\r\n0\r\n\r\n".into()].concat(), 413),
        ([request("POST /reload", chunked), b"0\r\n\r\n".into()].concat(), 413),
        // No setting, and no value of one.
        (request("POST /settings?timeout.idel=3s", ""), 409),
        (request("POST /settings?timeout.idle=3", ""), 409),
        (request("POST /settings?TIMEOUT.IDLE=3s", ""), 409),
        (request("POST /nothing?timeout.idle=3s", ""), 405),
    ];
    for (request, status) in refusals {
        let (told, answer) = ask(&socket, &request);
        let request = request.escape_ascii().to_string();
        assert_eq!(told, status, "{}: {answer}", &request[..request.len().min(200)]);
        assert!(answer.contains("Content-Type: text/plain"), "{answer}");
    }
    assert_eq!(told(&socket, &["get", "timeout.idle"]), "1min\n");
    assert_eq!(children(server.master()), before);
    assert!(!server.errors.so_far().contains("it was"), "{}", server.errors.so_far());
    assert_eq!(server.connect().ask(get("/page")).text(), "page");
    // What was refused for its body alone is heeded without one.
    let (told, answer) = ask(&socket, &request(SET, "Content-Length: 0\r\n"));
    assert_eq!(told, 200, "{answer}");
    assert!(answer.ends_with("timeout.idle is 3s; it was 1min\n"), "{answer}");
}

#[test]
fn another_method_is_refused_with_those_that_a_path_has() {
    let site = Site::with(&[("page", b"page")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let admin = format!("unix:{}", text(&socket));
    let server = Launch::new(&site, "sped").args(&["--admin", &admin]).start();
    let before = server.children(2);
    for (path, methods) in [
        ("/settings?timeout.idle=3s", "GET, HEAD, POST"),
        ("/reload", "POST"),
        ("/drain", "POST"),
        ("/upgrade", "POST"),
        ("/trace?sample=1", "POST"),
        ("/status", "GET, HEAD"),
        ("/metrics", "GET, HEAD"),
    ] {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW", "post"] {
            if methods.split(", ").any(|known| known == method) {
                continue;
            }
            let (status, answer) = ask(&socket, &request(&format!("{method} {path}"), ""));
            assert_eq!(status, 405, "{method} {path}: {answer}");
            assert!(answer.contains(&format!("\r\nAllow: {methods}\r\n")), "{answer}");
        }
    }
    assert_eq!(told(&socket, &["get", "timeout.idle"]), "1min\n");
    assert_eq!(children(server.master()), before);
    assert_eq!(server.connect().ask(get("/page")).text(), "page");
}

/// Neither over TCP nor over a Unix-domain socket: each has sent the first byte of a request.
#[test]
fn requests_that_are_not_whole_keep_nobody_waiting() {
    let site = Site::with(&[("page", b"page")]);
    let server = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]).start();
    let half: Vec<Client> = (0..8)
        .map(|_| {
            let mut client = server.connect_admin();
            client.send("G");
            client
        })
        .collect();
    assert_eq!(server.connect_admin().ask(get("/metrics")).status(), 200);
    // It was answered while they were open, or the rest of them would come too late.
    for mut client in half {
        assert_eq!(client.ask(&get("/metrics")[1..]).status(), 200);
    }

    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let admin = format!("unix:{}", text(&socket));
    let server = Launch::new(&site, "sped").args(&["--admin", &admin]).start();
    let half: Vec<UnixStream> = (0..8)
        .map(|_| {
            let mut stream = UnixStream::connect(&socket).expect("it listens");
            stream.write_all(b"G").expect("it is taken");
            stream
        })
        .collect();
    assert_eq!(told(&socket, &["get", "timeout.idle"]), "1min\n");
    for mut stream in half {
        stream.write_all(&request("GET /metrics", "")[1..]).expect("it is open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    drop(server);
}

#[test]
fn a_master_that_stands_still_holds_no_look_up_and_answers_the_next_command_rightly() {
    let site = Site::with(&[("page", b"page")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let admin = format!("unix:{}", text(&socket));
    let server = Launch::new(&site, "sped").args(&["--admin", &admin]).start();
    stop_at_rest(server.master());
    for _ in 0..2 {
        let (status, answer) = ask(&socket, &request("GET /settings", ""));
        assert!(status == 409 && answer.contains("the master does not answer"), "{answer}");
    }
    std::thread::scope(|scope| {
        let got = scope.spawn(|| told(&socket, &["get", "timeout.idle"]));
        signal(server.master(), "CONT");
        assert_eq!(got.join().expect("an answer"), "1min\n");
    });
    let (status, answer) = ask(&socket, &request("GET /settings", ""));
    assert!(status == 200 && answer.contains("\"timeout.idle\""), "{answer}");
}

/// The status that a request for this host gets.
fn status_for(client: &mut Client, host: &str) -> u16 {
    client.ask(format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n")).status()
}

/// Which of these hosts are answered by the admin address, and by the site, which has no such file.
#[track_caller]
fn expect_answered(server: &Server, hosts: [(&str, bool, bool); 7]) {
    for (host, admin, site) in hosts {
        let status = status_for(&mut server.connect_admin(), host);
        assert_eq!(status, if admin { 200 } else { 421 }, "admin: {host}");
        let status = status_for(&mut server.connect(), host);
        assert_eq!(status, if site { 404 } else { 421 }, "site: {host}");
    }
}

/// A page may have its own name lead to this machine, and no name of ours.
#[test]
fn what_only_this_machine_reaches_answers_to_no_foreign_name() {
    let site = Site::with(&[("page", b"page")]);
    let launch = || Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]);
    let hosts = |named: bool, evil: bool, site: bool| {
        [
            ("localhost", true, true),
            ("LocalHost:8080", true, true),
            ("127.0.0.1:80", true, true),
            ("[::1]", true, true),
            ("dev.example", named, named || site),
            ("evil.example", evil, evil || site),
            ("127.0.0.1.evil.example", evil, evil || site),
        ]
    };
    let server = launch().start();
    expect_answered(&server, hosts(false, false, false));
    // A target is as good a name as a field.
    let target = "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(server.connect_admin().ask(target).status(), 421);
    assert_eq!(server.connect().ask(target).status(), 421);
    // Who names no host is no browser.
    assert_eq!(server.connect().ask("GET /page HTTP/1.0\r\n\r\n").text(), "page");
    let mapped = Launch::new(&site, "sped").args(&["--admin", "[::ffff:127.0.0.1]:0"]).start();
    expect_answered(&mapped, hosts(false, false, false));
    expect_answered(&launch().set("admin-hosts=dev.example").start(), hosts(true, false, false));
    expect_answered(&launch().set("admin-hosts=*").start(), hosts(true, true, true));

    // A site of a file is behind a proxy, for all that is known, and its names are no others'.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let config = within(&directory, "flyball.toml");
    let root = site.path().display();
    let reloaded = |more: &str| {
        let text = format!(
            "{more}\n[[site]]\nroot = \"{root}\"\n[[site]]\nhosts = [\"dev.example\"]\n\
             root = \"{root}\"\n"
        );
        std::fs::write(&config, text).expect("it is written");
    };
    reloaded("");
    let launch = Launch::bare::<&str>(&[]).args(&["--arch", "sped", "--config", text(&config)]);
    let launch = launch.args(&["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let server = launch.start();
    expect_answered(&server, hosts(true, false, true));
    reloaded("admin-hosts = [\"*\"]");
    crate::common::signal(server.master(), "HUP");
    wait_for("the setting that was read again", || {
        // It may be about to be replaced, and then answers nothing.
        let mut client = server.connect_admin();
        let response = client.try_ask("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n")?;
        (response.status() == 200).then_some(())
    });
    expect_answered(&server, hosts(true, true, true));

    // What others reach is named as they like.
    let launch = Launch::bare::<&str>(&[]).arg(site.path()).args(&["--listen", "0.0.0.0:0"]);
    let server = launch.args(&["--arch", "sped", "--admin", "0.0.0.0:0"]).start();
    expect_answered(&server, hosts(true, true, true));
}
