//! Who may see what: by password, by network, and how much of it (RFC 7617, RFC 6585).

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use flyball_testkit::{Client, LARGE_BYTES, Response, Server, Site, crc32, large_at, wait};

use crate::mount::Mount;
use crate::requests::{get, request, with_body};

/// Users, by hashes of the lowest cost: `ann:secret` by bcrypt, `eve:password` by Argon2, and with
/// the password `secret` those that other servers' files have.
const USERS: &str = "\
# Those who may come.
ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy
eve:$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4
bea:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/
cid:$5$saltstring$C3o4O1TC6aRHF4FI.QSZMXtHbaj2gSXr4sUc/3NcUi.
dan:$6$rounds=1000$saltsalt$LAV5VE5Y7w1d73x1mFNspYWUpazfmwv2SoepNXNKJ/otop/Zok96Hr\
8Q13LEv0DRY/x8v0/crpIjl8NJSAqXV/
flo:$2a$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy
";

/// `ann:secret`, `eve:password`, `ann:wrong` and `nobody:secret`.
pub(crate) const ANN: &str = "Authorization: Basic YW5uOnNlY3JldA==";
const EVE: &str = "Authorization: Basic ZXZlOnBhc3N3b3Jk";
pub(crate) const WRONG: &str = "Authorization: Basic YW5uOndyb25n";
const NOBODY: &str = "Authorization: Basic bm9ib2R5OnNlY3JldA==";

/// The pace that is measured, in bytes per second: the large file takes more than half of one.
const PACE: u64 = 16 * 1024 * 1024;

/// Times that the pace is measured, when the machine was busy with something else.
const PACE_TRIES: u32 = 20;

/// A file of users that lives as long as the process, beside the site that all share.
/// It is written once: a server that starts meanwhile would read half of it.
pub(crate) fn users() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let write = || {
        let path = Site::shared().root().with_file_name(format!("users-{}", std::process::id()));
        fs::write(&path, USERS).expect("users can be written");
        path
    };
    PATH.get_or_init(write).clone()
}

/// A server whose one site has these settings.
fn start(mount: &Mount, settings: &str, site: &str) -> Server {
    let root = Site::shared().root();
    let site = format!("[[site]]\nroot = {root:?}\ndigest-path = \"/dir/digest\"\n{site}\n");
    mount.start_with_sites(settings, &site)
}

/// A server on which one has to log in beneath `/dir`.
fn protected(mount: &Mount, more: &str) -> Server {
    let auth = format!("auth.file = {:?}\nauth.realm = \"the cellar\"\n", users());
    start(mount, "", &format!("{auth}auth.paths = [\"/dir\"]\n{more}"))
}

fn get_as(path: &str, login: &str) -> String {
    if login.is_empty() { get(path) } else { request("GET", path, &[login]) }
}

fn post(fields: &[&str], body: &str) -> String {
    let length = format!("Content-Length: {}", body.len());
    with_body("POST", "/dir/digest", &[fields, &[&length]].concat(), body)
}

fn is_private(response: &Response) -> bool {
    let fields = response.fields.iter();
    fields.filter(|(name, _)| name == "Cache-Control").any(|(_, value)| value == "private")
}

#[track_caller]
fn expect_challenge(response: &Response) {
    assert_eq!(response.line, "HTTP/1.1 401 Unauthorized");
    let challenge = "Basic realm=\"the cellar\", charset=\"UTF-8\"";
    assert_eq!(response.expect("WWW-Authenticate"), challenge);
    assert!(is_private(response), "{:?}", response.head);
}

/// `bea`, `cid`, `dan` and `flo` with `secret`, and each with `wrong`.
const OTHERS: [(&str, &str); 4] = [
    ("YmVhOnNlY3JldA==", "YmVhOndyb25n"),
    ("Y2lkOnNlY3JldA==", "Y2lkOndyb25n"),
    ("ZGFuOnNlY3JldA==", "ZGFuOndyb25n"),
    ("ZmxvOnNlY3JldA==", "ZmxvOndyb25n"),
];

pub(crate) fn hashes_of_other_servers_open_what_they_protect(mount: &Mount) {
    let server = protected(mount, "");
    let mut client = server.connect();
    for (right, wrong) in OTHERS {
        let login = |code: &str| format!("Authorization: Basic {code}");
        expect_challenge(&client.ask(get_as("/dir/", &login(wrong))));
        let page = client.ask(get_as("/dir/", &login(right)));
        assert_eq!(page.line, "HTTP/1.1 200 OK", "{right}");
        expect_challenge(&client.ask(get_as("/dir/", &login(wrong))));
    }
}

pub(crate) fn a_password_opens_what_it_protects(mount: &Mount) {
    let server = protected(mount, "");
    let mut client = server.connect();
    for (path, login) in [
        ("/dir/", ""),
        ("/dir/", WRONG),
        ("/dir/", NOBODY),
        ("/dir/", "Authorization: Bearer YW5uOnNlY3JldA=="),
        ("/dir", ""),
        ("/dir/nothing", ""),
        ("/x/..//%64ir/./index.html", WRONG),
    ] {
        expect_challenge(&client.ask(get_as(path, login)));
    }
    for login in [ANN, EVE, ANN] {
        let page = client.ask(get_as("/dir/", login));
        assert_eq!(page.line, "HTTP/1.1 200 OK");
        assert_eq!(page.text(), "<!doctype html>\n<title>Dir</title>\n");
        assert!(is_private(&page), "{:?}", page.head);
        // It is in the caches by now, which must not open it to others.
        expect_challenge(&client.ask(get("/dir/")));
        expect_challenge(&client.ask(get_as("/dir/", WRONG)));
        expect_challenge(&client.ask(get("/dir/index.html")));
    }
    let tag = client.ask(get_as("/dir/", ANN)).expect("ETag").to_owned();
    let condition = format!("If-None-Match: {tag}");
    client.send(request("GET", "/dir/", &[ANN, &condition]));
    let unchanged = client.response();
    assert!(unchanged.status() == 304 && is_private(&unchanged), "{:?}", unchanged.head);
    expect_challenge(&client.ask(request("GET", "/dir/", &[&condition])));
    let part = client.ask(request("GET", "/dir/", &[ANN, "Range: bytes=2-8"]));
    assert!(part.status() == 206 && part.text() == "doctype" && is_private(&part));
    expect_challenge(&client.ask(request("GET", "/dir/", &["Range: bytes=2-8"])));
    client.send(request("HEAD", "/dir/", &[]));
    expect_challenge(&client.response_head());
    // What is not protected is as it was.
    let open = client.ask(get("/hello.txt"));
    assert!(open.status() == 200 && !is_private(&open), "{:?}", open.head);
    assert_eq!(client.ask(get_as("/hello.txt", WRONG)).status(), 200);
}

pub(crate) fn a_body_waits_for_its_password(mount: &Mount) {
    let server = protected(mount, "auth.remember = \"0s\"");
    let body = "what is sent";
    for split in [false, true] {
        let mut client = server.connect();
        let upload = post(&[ANN], body);
        match split {
            true => client.send_split(&upload, 1..upload.len()),
            false => client.send(&upload),
        }
        let digest = client.response();
        let expected = format!("bytes {} crc32 {:08x}\n", body.len(), crc32(body.as_bytes()));
        assert_eq!((digest.status(), digest.text()), (200, &*expected));
        assert!(is_private(&digest));
        expect_challenge(&client.ask(post(&[WRONG], body)));
        expect_challenge(&client.ask(post(&[], body)));
        // The connection goes on: the bodies that nobody wanted were drained.
        assert_eq!(client.ask(get_as("/dir/", EVE)).status(), 200);
    }
}

pub(crate) fn logins_that_fail_are_slowed_down(mount: &Mount) {
    let server = protected(mount, "auth.failures = 3");
    let mut client = server.connect();
    for _ in 0..5 {
        assert_eq!(client.ask(get_as("/dir/", ANN)).status(), 200);
    }
    let answers: Vec<Response> =
        (0..5).map(|_| server.connect().ask(get_as("/dir/", NOBODY))).collect();
    let statuses: Vec<u16> = answers.iter().map(Response::status).collect();
    assert_eq!(statuses, [401, 401, 401, 429, 429]);
    let wait_s: u64 = answers[4].expect("Retry-After").parse().expect("seconds");
    assert!((1..=20).contains(&wait_s), "{wait_s}");
    // Who needs no password is not concerned, and neither is one that this worker knows.
    assert_eq!(client.ask(get("/hello.txt")).status(), 200);
    assert_eq!(client.ask(get("/dir/")).status(), 401);
    assert_eq!(client.ask(get_as("/dir/", ANN)).status(), 200);
}

pub(crate) fn strangers_do_not_lock_a_user_out(mount: &Mount) {
    let server = protected(mount, "auth.failures = 3\nauth.remember = \"0s\"");
    let ask_from = |last: u8, login| {
        let mut client = Client::connect_from([127, 0, 0, last].into(), server.address());
        client.ask(get_as("/dir/", login)).status()
    };
    assert_eq!(ask_from(7, ANN), 200);
    let statuses: Vec<u16> = (10..15).map(|last| ask_from(last, WRONG)).collect();
    assert_eq!(statuses, [401, 401, 401, 429, 429]);
    // From where the user has logged in, whichever worker it was, and from nowhere else.
    for _ in 0..4 {
        assert_eq!(ask_from(7, ANN), 200);
    }
    assert_eq!(ask_from(9, ANN), 429);
}

pub(crate) fn logins_that_were_tried_count_after_a_reload(mount: &Mount) {
    let server = protected(mount, "auth.failures = 1\nauth.remember = \"0s\"");
    let ask_from = |last: u8, login| {
        let mut client = Client::connect_from([127, 0, 0, last].into(), server.address());
        client.ask(get_as("/dir/", login)).status()
    };
    assert_eq!([ask_from(7, ANN), ask_from(8, EVE)], [200, 200]);
    assert_eq!([ask_from(10, WRONG), ask_from(11, WRONG)], [401, 429]);
    for _ in 0..2 {
        server.reload();
        // Neither from elsewhere nor from the same address, but from where the user is known.
        assert_eq!([ask_from(11, WRONG), ask_from(10, EVE)], [429, 429]);
        assert_eq!([ask_from(7, ANN), ask_from(9, ANN)], [200, 429]);
    }
}

pub(crate) fn networks_are_let_in_or_not(mount: &Mount) {
    let rules = "allow = [\"127.0.0.0/8\"]\n\
                 [[site.access]]\npath = \"/dir\"\ndeny = [\"127.0.0.1\"]\n\
                 [[site.access]]\npath = \"/dir/up.txt\"\n\
                 [[site.access]]\npath = \"/list\"\nallow = [\"192.0.2.0/24\", \"::/0\"]\n";
    let server = start(mount, "", rules);
    let mut client = server.connect();
    for _ in 0..2 {
        for (path, status) in [
            ("/hello.txt", 200),
            ("/dir/", 403),
            ("/dir", 403),
            ("/%64ir/nothing", 403),
            ("/dir/up.txt", 200),
            ("/dir/up.txts", 403),
            ("/list/a.txt", 403),
            ("/lists", 404),
        ] {
            let answer = client.ask(get(path));
            assert_eq!(answer.status(), status, "{path}");
            assert_eq!(is_private(&answer), path != "/dir/up.txt", "{path}: {:?}", answer.head);
        }
    }
}

pub(crate) fn who_asks_is_whom_a_trusted_proxy_names(mount: &Mount) {
    let proxied = "client.address = \"x-forwarded-for\"\n\
                   client.trusted = [\"127.0.0.1\"]\n\
                   limit.requests-per-address = 1\nlimit.requests-burst = 3\n";
    let server = start(mount, proxied, "deny = [\"192.0.2.0/24\", \"127.0.0.0/8\"]\n");
    let mut client = server.connect();
    let mut ask = |from: &str| {
        let field = format!("X-Forwarded-For: {from}");
        client.ask(request("GET", "/hello.txt", &[&field])).status()
    };
    assert_eq!(ask("198.51.100.1, 192.0.2.9"), 403);
    assert_eq!(ask("127.0.0.1"), 403);
    // Each client has requests of its own, though all come over one connection.
    for client in ["198.51.100.1", "2001:db8::1"] {
        let statuses: Vec<u16> = (0..20).map(|_| ask(client)).collect();
        assert_eq!(statuses[..3], [200; 3], "{client}");
        assert!(statuses.contains(&429), "{client}: {statuses:?}");
    }
}

pub(crate) fn one_client_has_so_many_connections(mount: &Mount) {
    let server = start(mount, "limit.connections-per-address = 3\n", "");
    let answered = || {
        let mut client = server.connect();
        client.try_send(get("/hello.txt"));
        let status = client.response().status();
        (client, status)
    };
    let mut open: Vec<Client> = Vec::new();
    for _ in 0..3 {
        let (client, status) = answered();
        assert_eq!(status, 200);
        open.push(client);
    }
    for _ in 0..2 {
        let mut client = server.connect();
        let refused = client.ask(get("/hello.txt"));
        assert_eq!(refused.line, "HTTP/1.1 429 Too Many Requests");
        assert_eq!(refused.expect("Connection"), "close");
        assert!(refused.expect("Retry-After").parse::<u64>().is_ok());
        client.expect_closed();
    }
    for client in &mut open {
        assert_eq!(client.ask(get("/hello.txt")).status(), 200);
    }
    // A place is free again when its connection is over, in whatever way.
    for reset in [false, true] {
        let client = open.pop().expect("one is open");
        if reset {
            client.reset();
        } else {
            drop(client);
        }
        let next = wait::until(wait::DEADLINE, || {
            let (client, status) = answered();
            (status == 200).then_some(client)
        });
        open.insert(0, next.expect("there is room again"));
    }
}

pub(crate) fn one_client_asks_so_often(mount: &Mount) {
    let settings = "limit.requests-per-address = 1\nlimit.requests-burst = 5\n";
    let server = start(mount, settings, "");
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let mut client = server.connect();
        for _ in 0..10 {
            let answer = client.ask(get("/hello.txt"));
            if answer.status() == 429 {
                let wait_s: u64 = answer.expect("Retry-After").parse().expect("seconds");
                assert_eq!(wait_s, 1);
            }
            statuses.push(answer.status());
        }
    }
    assert_eq!(statuses[..5], [200; 5]);
    let refused = statuses.iter().filter(|status| **status == 429).count();
    // On a busy machine some seconds may have passed.
    assert!((10..=25).contains(&refused), "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
}

pub(crate) fn a_connection_has_its_pace(mount: &Mount) {
    let ideal = Duration::from_secs_f64(LARGE_BYTES as f64 / PACE as f64);
    for mode in ["copy", "sendfile"] {
        let settings = format!("limit.bandwidth = {PACE}\nsend.mode = \"{mode}\"\n");
        let server = start(mount, &settings, "");
        let mut fastest = Duration::MAX;
        for _ in 0..PACE_TRIES {
            let mut client = server.connect();
            let start = Instant::now();
            let answer = client.ask(get("/large.bin"));
            fastest = fastest.min(start.elapsed());
            large_at(0, &answer.body);
            if fastest <= ideal * 12 / 10 {
                break;
            }
        }
        let bounds = ideal * 8 / 10..=ideal * 12 / 10;
        assert!(bounds.contains(&fastest), "{mode}: {fastest:?} for {ideal:?}");
    }
}
