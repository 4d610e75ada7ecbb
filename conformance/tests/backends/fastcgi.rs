//! Servers that answer by FastCGI and SCGI, under every architecture: the server is the test, which
//! reads and writes the bytes itself.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::common_programs::{on_every_architecture, on_every_architecture_over_tls};
use flyball_testkit::{Client, Launch, Response, Server, wait};
use tempfile::TempDir;

/// Time that a server has to begin its answer where the test is that it does not.
const ANSWER_MS: u64 = 400;

/// Fields by which a client says what the server alone knows of TLS.
const CLAIMS: &str = "HTTPS: evil\r\nSSL-Client-Verify: evil\r\nSSL_CLIENT_S_DN: evil\r\n\
                      ssl-protocol: evil\r\n";

/// A web server, and the socket at which its requests arrive.
pub(crate) struct Front {
    pub(crate) server: Server,
    pub(crate) listener: UnixListener,
    files: TempDir,
}

/// A front with these tables; `None` where its architecture cannot run here.
pub(crate) fn start(architecture: &str, more: &str) -> Option<Front> {
    start_workers(architecture, 1, more)
}

/// The same with so many workers.
pub(crate) fn start_workers(architecture: &str, workers: usize, more: &str) -> Option<Front> {
    start_with(architecture, &format!("workers = {workers}\n"), more)
}

/// The same with settings of the server, before those of the responders.
pub(crate) fn start_with(architecture: &str, settings: &str, more: &str) -> Option<Front> {
    let files = tempfile::tempdir().unwrap();
    let root = files.path().join("root");
    std::fs::create_dir_all(root.join("files")).unwrap();
    for (name, text) in [("page.txt", "a page\n"), ("index.php", "<?php"), ("files/f.txt", FILE)] {
        std::fs::write(root.join(name), text).unwrap();
    }
    let socket = files.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    // Workers may be another user.
    for (path, mode) in [(files.path(), 0o755), (&*socket, 0o777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let config = format!(
        "arch = \"{architecture}\"\n{settings}listen = \"127.0.0.1:0\"\n\
         admin = \"127.0.0.1:0\"\n[[site]]\nroot = \"{root}\"\nindex = [\"index.php\"]\n{more}",
        root = root.display(),
    );
    // Requests wait for a link for as long as a busy machine takes, unless only the place is named.
    let config = config
        .replace("SOCKET", "PLACE\nqueue-timeout = \"5min\"")
        .replace("PLACE", &format!("socket = \"unix:{}\"", socket.display()))
        .replace("ROOT", &root.display().to_string())
        .replace("LIMITS", &format!("answer-timeout = \"{ANSWER_MS}ms\""));
    let server = Launch::config(config).start_where_possible()?;
    Some(Front { server, listener, files })
}

const FILE: &str = "0123456789";

/// A table of a server for `.php`, and for all beneath a path.
pub(crate) const TABLES: &str = "\
    [[site.fastcgi]]\nextensions = [\"php\"]\nrequire-script = false\nSOCKET\nidle-links = 2\n\
    sendfile-roots = [\"ROOT/files\"]\nparams = { OWN = \"value\" }\n\
    [[site.fastcgi]]\npath = \"/app\"\nSOCKET\nhold = \"off\"\n\
    [[site.fastcgi]]\npath = \"/late\"\nSOCKET\nLIMITS\nidle-links = 2\n";

/// The responder's end of a link.
pub(crate) struct Link(UnixStream);

impl Drop for Link {
    /// Ends the link even while a process that another test starts has it open too.
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A record: its type and its content.
type Record = (u8, Vec<u8>);

impl Front {
    pub(crate) fn accept(&self) -> Link {
        wait::until(wait::DEADLINE, || self.try_accept()).expect("a connection comes")
    }

    /// A link, if there is one. Does not block.
    pub(crate) fn try_accept(&self) -> Option<Link> {
        self.listener.set_nonblocking(true).unwrap();
        let (socket, _) = self.listener.accept().ok()?;
        socket.set_nonblocking(false).unwrap();
        socket.set_read_timeout(Some(wait::DEADLINE)).unwrap();
        Some(Link(socket))
    }

    pub(crate) fn counted(&self, name: &str) -> u64 {
        let status = self.server.status();
        let at = status.find(&format!("\"{name}\"")).unwrap_or_else(|| panic!("{name}: {status}"));
        let after = status[at + name.len() + 2..].trim_start_matches([':', ' ']);
        after.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    }

    /// Waits until a connection stands there.
    pub(crate) fn expect_state(&self, name: &str) {
        let is_there = || (self.counted(name) > 0).then_some(());
        let status = || self.server.status();
        wait::until(wait::DEADLINE, is_there)
            .unwrap_or_else(|| panic!("none is {name}: {}", status()));
    }

    pub(crate) fn expect_logged(&self, text: &str) {
        let logged = || self.server.errors().contains(text).then_some(());
        let errors = || self.server.errors();
        wait::until(wait::DEADLINE, logged)
            .unwrap_or_else(|| panic!("{text} is not in\n{}", errors()));
    }
}

impl Link {
    fn read(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).expect("the rest of a record");
        bytes
    }

    /// The next record, whose padding is as the specification recommends.
    pub(crate) fn record(&mut self) -> Record {
        let header = self.read(8);
        let [version, kind, id_high, id_low, len_high, len_low, padding, reserved] = header[..]
        else {
            unreachable!()
        };
        assert_eq!((version, id_high, id_low, reserved), (1, 0, 1, 0), "{header:?}");
        let len = usize::from(u16::from_be_bytes([len_high, len_low]));
        assert_eq!((len + usize::from(padding)) % 8, 0, "{header:?}");
        let content = self.read(len);
        assert_eq!(self.read(padding.into()), vec![0; padding.into()]);
        (kind, content)
    }

    /// A stream of records of one type, up to the empty one that ends it.
    pub(crate) fn stream(&mut self, kind: u8) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let (found, content) = self.record();
            assert_eq!(found, kind);
            if content.is_empty() {
                return all;
            }
            all.extend_from_slice(&content);
        }
    }

    /// The parameters of a request; `keep` is what its beginning must say of the link.
    pub(crate) fn params(&mut self, keep: u8) -> Vec<(String, String)> {
        assert_eq!(self.record(), (1, vec![0, 1, keep, 0, 0, 0, 0, 0]));
        let stream = self.stream(4);
        let mut rest = &stream[..];
        let mut params = Vec::new();
        while !rest.is_empty() {
            let mut len = || match rest[0] {
                short if short < 0x80 => usize::from(rest.split_off(..1).unwrap()[0]),
                _ => {
                    let four = rest.split_off(..4).unwrap();
                    (u32::from_be_bytes(four.try_into().unwrap()) & 0x7fff_ffff) as usize
                }
            };
            let (name, value) = (len(), len());
            let mut text = |len| String::from_utf8(rest.split_off(..len).unwrap().into()).unwrap();
            params.push((text(name), text(value)));
        }
        params
    }

    /// A whole request without a body: its parameters.
    pub(crate) fn request(&mut self) -> Vec<(String, String)> {
        let params = self.params(1);
        assert_eq!(self.stream(5), b"");
        params
    }

    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("somebody reads");
    }

    pub(crate) fn answer(&mut self, text: &str) {
        self.say(&[record(6, text.as_bytes()), end(0)].concat());
    }

    /// Waits for the end of the link.
    pub(crate) fn expect_end(&mut self) {
        let end = self.0.read(&mut [0; 1]);
        assert!(matches!(end, Ok(0)) || end.is_err_and(|e| e.kind().to_string() != "timed out"));
    }
}

pub(crate) fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    // Padding of our own kind: it may be anything.
    [&[1, kind, 0, 1, high, low, 3, 0], content, b"pad"].concat()
}

pub(crate) fn end(status: u8) -> Vec<u8> {
    vec![1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, status, 0, 0, 0]
}

pub(crate) fn value<'a>(params: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut found = params.iter().filter(|(known, _)| known == name);
    let value = found.next().map(|(_, value)| value.as_str());
    assert!(found.next().is_none(), "{name} is there twice");
    value
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: example.org\r\n\r\n")
}

/// A body in chunks.
pub(crate) fn chunked(bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    for chunk in bytes.chunks(50_000) {
        all.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        all.extend_from_slice(chunk);
        all.extend_from_slice(b"\r\n");
    }
    [all, b"0\r\n\r\n".to_vec()].concat()
}

/// An answer whose content may come in chunks.
pub(crate) fn answer(client: &mut Client) -> (Response, String) {
    let head = client.response_head();
    let body = match head.content_length() {
        Some(len) => client.take(len),
        None => client.chunks().concat(),
    };
    (head, String::from_utf8_lossy(&body).into_owned())
}

fn a_request_and_its_answer_are_records(architecture: &str) {
    let Some(front) = start(architecture, TABLES) else { return };
    let mut client = front.server.connect();
    let long = "x".repeat(200);
    client.send(format!(
        "GET /a.php/in%20fo?q HTTP/1.1\r\nHost: example.org\r\nX-Long: {long}\r\n\
         {CLAIMS}Proxy: e\r\n\r\n"
    ));
    let mut link = front.accept();
    let params = link.request();
    let root = front.files.path().join("root").display().to_string();
    for (name, expected) in [
        ("SCRIPT_NAME", "/a.php"),
        ("SCRIPT_FILENAME", &*format!("{root}/a.php")),
        ("PATH_INFO", "/in fo"),
        ("PATH_TRANSLATED", &format!("{root}/in fo")),
        ("DOCUMENT_ROOT", &root),
        ("QUERY_STRING", "q"),
        ("REQUEST_METHOD", "GET"),
        ("HTTP_X_LONG", &long),
        ("OWN", "value"),
    ] {
        assert_eq!(value(&params, name), Some(expected), "{name}");
    }
    for absent in ["HTTP_PROXY", "PATH", "CONTENT_LENGTH"] {
        assert_eq!(value(&params, absent), None, "{absent}");
    }
    assert!(!params.iter().any(|(_, value)| value == "evil"), "{params:?}");
    // The head is cut between records, one byte comes at a time, and errors are told in between.
    let id = value(&params, "REQUEST_ID").unwrap();
    let said = [
        record(6, b"Status: 201 Created\r\nContent-"),
        record(7, b"an error\nand "),
        record(6, b"Length: 4\r\n\r\nbo"),
        record(7, b"another"),
        record(6, b""),
        record(6, b"dy"),
        end(0),
    ];
    for byte in said.concat() {
        link.say(&[byte]);
    }
    let (head, text) = answer(&mut client);
    assert_eq!((head.status(), &*text), (201, "body"));
    front.expect_logged(&format!("fastcgi: GET /a.php/in%20fo [{id}]: an error"));
    front.expect_logged(&format!("[{id}]: and another"));
    // The link is kept, and the connection too.
    client.send(get("/"));
    let params = link.request();
    assert_eq!(value(&params, "SCRIPT_NAME"), Some("/index.php"), "by the index of the site");
    assert_eq!(value(&params, "REQUEST_URI"), Some("/"));
    link.answer("Content-Type: text/plain\r\n\r\nsecond");
    assert_eq!(answer(&mut client).1, "second");
    client.send(get("/page.txt"));
    assert_eq!(answer(&mut client).1, "a page\n");
}

fn bodies_go_both_ways_in_records(architecture: &str) {
    let Some(front) = start(architecture, TABLES) else { return };
    let body = crate::common_programs::noise(7, 700_001);
    let length = format!("Content-Length: {}", body.len());
    let whole = body.len().to_string();
    // What is held is told with its length; `/app` holds nothing.
    for (path, framing, sent, told) in [
        ("/x.php", &*length, body.clone(), Some(&*whole)),
        ("/x.php", "Transfer-Encoding: chunked", chunked(&body), Some(&*whole)),
        ("/app/x", "Transfer-Encoding: chunked", chunked(&body), None),
    ] {
        let mut client = front.server.connect();
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
        let sender = std::thread::spawn(move || {
            client.send(head);
            client.send(sent);
            client
        });
        let mut link = front.accept();
        let params = link.params(u8::from(path == "/x.php"));
        assert_eq!(value(&params, "CONTENT_LENGTH"), told, "{path} {framing}");
        if path == "/app/x" {
            assert_eq!(value(&params, "PATH_INFO"), Some("/x"));
        }
        assert!(link.stream(5) == body, "{path} {framing}");
        let mut client = sender.join().unwrap();
        // A client that does not read holds the responder back.
        let mut writing = link.0.try_clone().unwrap();
        let back = body.clone();
        let writer = std::thread::spawn(move || {
            writing.write_all(&record(6, b"A: b\r\n\r\n")).unwrap();
            for content in back.chunks(65_000) {
                writing.write_all(&record(6, content)).unwrap();
            }
            writing.write_all(&end(0)).unwrap();
        });
        assert_eq!(client.response_head().status(), 200);
        assert!(client.chunks().concat() == body, "{path} {framing}");
        writer.join().unwrap();
    }
}

fn what_goes_wrong_is_told_apart(architecture: &str) {
    let Some(front) = start(architecture, TABLES) else { return };
    let cases: [(&[u8], u16, &str); 8] = [
        (b"\x02\x06\0\x01\0\0\0\0", 502, "502: it sent a record of version 2"),
        (b"\x01\x06\0\x09\0\0\0\0", 502, "502: it sent a record of type 6 for request 9"),
        (b"\x01\x06\0\x01\0\x09\0\0no colon\n\x01\x06\0\x01\0\x01\0\0\n", 502, "without a colon"),
        (&end(0), 502, "502: its server ended the request and has said nothing"),
        (&end(1), 502, "502: its server takes no request on this link"),
        (&end(2), 503, "503: its server is overloaded"),
        (b"\x01\x06\0\x01\0\x04\0\0A: b", 502, "502: its server closed the link within"),
        (b"", 504, "504: it has said nothing"),
    ];
    for (said, status, why) in cases {
        let mut client = front.server.connect();
        client.send(get(if status == 504 { "/late/a" } else { "/a.php" }));
        let mut link = front.accept();
        link.request();
        link.say(said);
        if status == 504 {
            assert_eq!(answer(&mut client).0.status(), status, "{why}");
        }
        drop(link);
        if status != 504 {
            assert_eq!(answer(&mut client).0.status(), status, "{why}");
        }
        front.expect_logged(why);
    }
    // An answer that is cut short is broken off.
    let mut client = front.server.connect();
    client.send(get("/a.php"));
    let mut link = front.accept();
    link.request();
    link.say(&record(6, b"Content-Length: 9\r\n\r\nshort"));
    assert_eq!(client.response_head().status(), 200);
    drop(link);
    assert_eq!(client.rest_before_cut(), b"short");
    // A client that leaves ends the link.
    let mut client = front.server.connect();
    client.send(get("/a.php"));
    let mut link = front.accept();
    link.request();
    drop(client);
    link.expect_end();
    // Nobody listens, and then nobody is there at all. A process that another test is about to
    // start may hold the socket for a moment more: that it is shut down holds for that one too.
    let Front { server, listener, files } = front;
    UnixStream::from(OwnedFd::from(listener)).shutdown(Shutdown::Both).unwrap();
    assert_eq!(server.connect().ask(get("/a.php")).status(), 503);
    std::fs::remove_file(files.path().join("socket")).unwrap();
    assert_eq!(server.connect().ask(get("/a.php")).status(), 503);
    let front =
        Front { server, listener: UnixListener::bind(files.path().join("2")).unwrap(), files };
    let counted = || {
        let counts = ["backend_failures_502", "backend_failures_503", "backend_failures_504"]
            .map(|name| front.counted(name));
        (counts == [6, 3, 1]).then_some(())
    };
    assert!(wait::until(wait::DEADLINE, counted).is_some(), "{}", front.server.status());
}

/// What came before the deadline counts, however late the server gets to see it.
fn an_answer_that_came_in_time_is_given_after_a_standstill(architecture: &str) {
    let Some(front) = start(architecture, TABLES) else { return };
    let time = Duration::from_millis(ANSWER_MS);
    let answered_in_time = || {
        let start = Instant::now();
        let mut client = front.server.connect();
        client.send(get("/late/a"));
        let mut link = front.accept();
        link.request();
        let held = front.server.hold();
        link.answer("Content-Type: text/plain\r\n\r\nin time");
        // On a busy machine the time may be over before.
        if start.elapsed() >= time {
            return None;
        }
        wait::dawdle(time * 2);
        drop(held);
        Some(answer(&mut client).1)
    };
    let text = wait::until(wait::DEADLINE, answered_in_time);
    assert_eq!(text.as_deref(), Some("in time"));
}

/// The time to drain of a server that stands still, and for how long it does so.
const DRAIN: Duration = Duration::from_secs(2);
const STANDSTILL: Duration = Duration::from_millis(3_500);

/// A request that comes before the end of `drain`, while the server stands still, is passed on when
/// the end is over, and its answer has time to come.
fn a_request_before_the_end_of_drain_is_answered_after_a_standstill(architecture: &str) {
    let asked_in_time = || {
        let front = start_with(architecture, "workers = 1\ndrain = \"2s\"\n", TABLES)?;
        let request = get("/a.php");
        let (first, rest) = request.split_at(10);
        let (mut client, mut witness) = (front.server.connect(), front.server.connect());
        for client in [&mut client, &mut witness] {
            assert_eq!(client.ask(get("/page.txt")).status(), 200);
        }
        client.send_split(first, [5]);
        let start = Instant::now();
        front.server.terminate();
        witness.expect_closed();
        let held = front.server.hold();
        client.send(rest);
        // On a busy machine the time may be over before.
        if start.elapsed() >= DRAIN {
            return None;
        }
        wait::dawdle(STANDSTILL);
        drop(held);
        let start = Instant::now();
        let mut link = front.accept();
        link.request();
        let text = record(6, b"Content-Type: text/plain\r\n\r\nin time");
        // So too the time that it has then.
        link.0.write_all(&[text, end(0)].concat()).ok()?;
        (start.elapsed() < DRAIN / 4).then(|| answer(&mut client).1)
    };
    if start(architecture, TABLES).is_some() {
        let text = wait::until(wait::DEADLINE, asked_in_time);
        assert_eq!(text.as_deref(), Some("in time"));
    }
}

/// PHP has sent a line feed behind the end of a script for as long as there were scripts.
fn what_comes_beyond_the_length_that_was_told_is_dropped(architecture: &str) {
    let Some(front) = start(architecture, TABLES) else { return };
    let mut client = front.server.connect();
    client.send(get("/a.php"));
    let mut link = front.accept();
    link.request();
    link.answer("Content-Length: 5\r\n\r\nwhole\n");
    assert_eq!(answer(&mut client).1, "whole");
    // The link is not kept, which the next request would else come on.
    link.expect_end();
    client.send(get("/b.php"));
    let mut link = front.accept();
    assert_eq!(value(&link.request(), "SCRIPT_NAME"), Some("/b.php"));
    link.answer("A: b\r\n\r\nnext");
    assert_eq!(answer(&mut client).1, "next");
    front.expect_logged("longer than its head says");
}

fn a_link_that_was_kept_for_too_long_costs_no_request(architecture: &str) {
    let Some(front) = start(architecture, TABLES) else { return };
    // One connection stays with one process, whose links are its own.
    let mut client = front.server.connect();
    let keep = |client: &mut Client| {
        client.send(get("/a.php"));
        let mut link = front.accept();
        link.request();
        link.answer("A: b\r\n\r\nfirst");
        assert_eq!(answer(client).1, "first");
        link
    };
    // It ends before the next request.
    drop(keep(&mut client));
    // It ends when the next request has come: that is made again on another.
    let mut link = keep(&mut client);
    client.send(get("/b.php"));
    link.request();
    drop(link);
    let mut link = front.accept();
    assert_eq!(value(&link.request(), "SCRIPT_NAME"), Some("/b.php"));
    link.answer("A: b\r\n\r\nsecond");
    assert_eq!(answer(&mut client).1, "second");
    // One that may do something is not made twice.
    client.send("POST /c.php HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    link.params(1);
    assert_eq!(link.stream(5), b"hi");
    drop(link);
    assert_eq!(answer(&mut client).0.status(), 502);
    // Nor one of which something came back.
    let mut link = keep(&mut client);
    client.send(get("/d.php"));
    link.request();
    link.say(&record(6, b"A: "));
    drop(link);
    assert_eq!(answer(&mut client).0.status(), 502);
    // Nor one of which a part was sent and is not held any more: its rest is no request.
    let mut link = keep(&mut client);
    let body = crate::common_programs::noise(7, 700_001);
    client.send("POST /e.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(chunked(&body));
    link.params(1);
    drop(link);
    assert_eq!(answer(&mut client).0.status(), 502);
    let more = front.listener.accept().map(|_| ()).map_err(|error| error.kind());
    assert_eq!(more, Err(std::io::ErrorKind::WouldBlock), "it came on another link");
}

fn a_backend_has_a_file_sent(architecture: &str) {
    let Some(front) = start(architecture, TABLES) else { return };
    let root = front.files.path().join("root");
    let mut client = front.server.connect();
    let mut link: Option<Link> = None;
    let mut ask = |more: &str, says: &str| {
        client.send(format!("GET /a.php HTTP/1.1\r\nHost: a\r\n{more}\r\n"));
        let link = link.get_or_insert_with(|| front.accept());
        link.request();
        link.answer(&format!("{says}Content-Disposition: attachment\r\n\r\nnot this"));
        answer(&mut client)
    };
    let named = format!("X-Sendfile: {}/files/f.txt\r\nContent-Type: a/b\r\n", root.display());
    let (head, text) = ask("", &named);
    assert_eq!((head.status(), &*text), (200, FILE));
    assert_eq!((head.expect("Content-Type"), head.field("X-Sendfile")), ("a/b", None));
    assert_eq!(head.expect("Content-Disposition"), "attachment");
    let (part, text) = ask("Range: bytes=2-4\r\n", &named);
    assert_eq!((part.status(), &*text), (206, "234"));
    let known = format!("If-None-Match: {}\r\n", head.expect("ETag"));
    let accel = "X-Accel-Redirect: /f.txt\r\n";
    assert_eq!(ask("", accel).1, FILE);
    for outside in ["/etc/passwd", &format!("{}/files/../page.txt", root.display()), "f.txt", ""] {
        let (head, _) = ask("", &format!("X-Sendfile: {outside}\r\n"));
        assert_eq!(head.status(), 502, "{outside}");
    }
    assert_eq!(ask("", "X-Accel-Redirect: /none\r\n").0.status(), 404);
    client.send(format!("GET /a.php HTTP/1.1\r\nHost: a\r\n{known}\r\n"));
    let mut link = link.unwrap();
    link.request();
    link.answer(&format!("{named}\r\n"));
    assert_eq!(client.response_head().status(), 304);
}

/// Accepts, reads all of a request and answers it as it is told: what a small SCGI server does.
fn scgi_responder(listener: TcpListener, body_max: usize) -> (Receiver<Vec<u8>>, Sender<Vec<u8>>) {
    let (said, heard) = channel();
    let (tell, told) = channel::<Vec<u8>>();
    std::thread::spawn(move || {
        for answer in told {
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_read_timeout(Some(wait::DEADLINE)).unwrap();
            let (mut all, mut part) = (Vec::new(), vec![0; 65_536]);
            while all.len() < body_max && !all.ends_with(b"#") {
                let n = socket.read(&mut part).unwrap();
                all.extend_from_slice(&part[..n]);
            }
            let _ = said.send(all);
            socket.write_all(&answer).unwrap();
        }
    });
    (heard, tell)
}

fn scgi_is_a_netstring_and_an_answer(architecture: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tables = format!(
        "[[site.scgi]]\npath = \"/app\"\nsocket = \"{at}\"\nhold = \"4B\"\n\
         [[site.scgi]]\npath = \"/off\"\nsocket = \"{at}\"\nhold = \"off\"\n",
        at = listener.local_addr().unwrap()
    );
    let Some(front) = start(architecture, &tables) else { return };
    let (heard, tell) = scgi_responder(listener, 1 << 20);
    let mut client = front.server.connect();
    for (framing, sent) in
        [("Content-Length: 5", "body#"), ("Transfer-Encoding: chunked", "5\r\nbody#\r\n0\r\n\r\n")]
    {
        tell.send(b"Status: 200 OK\nContent-Type: text/plain\n\nanswer".to_vec()).unwrap();
        client
            .send(format!("POST /app/x?y HTTP/1.1\r\nHost: a\r\n{CLAIMS}{framing}\r\n\r\n{sent}"));
        let (head, text) = answer(&mut client);
        assert_eq!((head.status(), &*text), (200, "answer"), "{framing}");
        let all = heard.recv_timeout(wait::DEADLINE).unwrap();
        let colon = all.iter().position(|&byte| byte == b':').unwrap();
        let len: usize = std::str::from_utf8(&all[..colon]).unwrap().parse().unwrap();
        let (variables, rest) = all[colon + 1..].split_at(len);
        assert!(variables.starts_with(b"CONTENT_LENGTH\x005\0SCGI\x001\0"), "{framing}");
        assert_eq!(rest, b",body#", "{framing}");
        let text = String::from_utf8_lossy(variables);
        for pair in ["SCRIPT_NAME\0/app\0", "PATH_INFO\0/x\0", "QUERY_STRING\0y\0"] {
            assert!(text.contains(pair), "{pair:?} is not in {text:?}");
        }
        assert!(!text.contains("chunked") && !text.contains("evil"), "{text:?}");
    }
    // Nobody can say how long it is.
    let chunk = "x".repeat(2000);
    client.send("POST /off/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("{:x}\r\n{chunk}\r\n0\r\n\r\n", chunk.len()));
    assert_eq!(client.response_head().status(), 411);
}

fn a_body_over_the_limit_reaches_no_server(architecture: &str) {
    let scgi = "[[site.scgi]]\npath = \"/scgi\"\nSOCKET\n";
    let Some(front) = start(architecture, &format!("{TABLES}{scgi}")) else { return };
    front.listener.set_nonblocking(true).unwrap();
    for path in ["/a.php", "/app/x", "/scgi/x"] {
        let mut client = front.server.connect();
        // `limit.body` is 64 MiB.
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 67108865\r\n\r\n"));
        assert_eq!(client.response().status(), 413, "{path}");
    }
    let came = front.listener.accept().map(|_| ()).map_err(|error| error.kind());
    assert_eq!(came, Err(std::io::ErrorKind::WouldBlock));
    assert_eq!(front.counted("backend_requests"), 0);
}

on_every_architecture! {
    [
        a_body_over_the_limit_reaches_no_server,
        a_request_and_its_answer_are_records,
        bodies_go_both_ways_in_records,
        what_goes_wrong_is_told_apart,
        an_answer_that_came_in_time_is_given_after_a_standstill,
        a_request_before_the_end_of_drain_is_answered_after_a_standstill,
        what_comes_beyond_the_length_that_was_told_is_dropped,
        a_link_that_was_kept_for_too_long_costs_no_request,
        a_backend_has_a_file_sent,
        scgi_is_a_netstring_and_an_answer,
    ]
}

on_every_architecture_over_tls! {
    a_request_and_its_answer_are_records,
    bodies_go_both_ways_in_records,
    what_goes_wrong_is_told_apart,
    a_request_before_the_end_of_drain_is_answered_after_a_standstill,
    a_backend_has_a_file_sent,
}

#[test]
fn an_answer_is_counted_for_the_site_that_was_asked_and_as_the_program_s_own() {
    let other = "[[site]]\nhosts = [\"b.example\"]\nroot = \"ROOT\"\n";
    let Some(front) = start("sped", &format!("{TABLES}{other}")) else { return };
    let mut client = front.server.connect();
    client.send(get("/a.php"));
    let mut link = front.accept();
    link.request();
    // Another site answers meanwhile.
    let mut meanwhile = front.server.connect();
    meanwhile.send("GET /page.txt HTTP/1.1\r\nHost: b.example\r\n\r\n");
    assert_eq!(answer(&mut meanwhile).1, "a page\n");
    // It is the program that says so: no backend has failed.
    link.answer("Status: 503 Later\r\n\r\nbusy");
    let (head, text) = answer(&mut client);
    assert_eq!((head.status(), &*text), (503, "busy"));
    let counts = r#""b.example":{"1xx":0,"2xx":1,"3xx":0,"4xx":0,"5xx":0}"#;
    let counted = || {
        let status: String = front.server.status().split_whitespace().collect();
        let all = front.counted("responses_5xx") == 1 && front.counted("responses_2xx") == 1;
        all.then(|| assert!(status.contains(counts), "{status}"))
    };
    assert!(wait::until(wait::DEADLINE, counted).is_some(), "{}", front.server.status());
    assert_eq!(front.counted("backend_failures_503"), 0);
}

#[test]
fn a_socket_that_is_missing_is_named_and_one_that_is_none_is_refused() {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("socket");
    let table = |socket: &str| {
        let root = files.path().display();
        format!("listen = \"127.0.0.1:0\"\n[[site]]\nroot = \"{root}\"\n[[site.fastcgi]]\n{socket}")
    };
    let socket = format!("socket = \"unix:{}\"\n", path.display());
    let server = Launch::config(table(&socket)).start().unwrap();
    let warned = server.errors();
    assert!(warned.contains("site.fastcgi.socket: the socket"), "{warned}");
    assert!(warned.contains("is not there yet"), "{warned}");
    let refused = |text: &str| Launch::config(table(text)).start().err().unwrap().to_string();
    assert!(refused("").contains("site.fastcgi.socket: is missing"));
    std::fs::write(&path, "").unwrap();
    let why = refused(&socket);
    assert!(why.contains("is no socket") && why.contains(":5:"), "{why}");
    let why = refused(&format!("socket = \"9000\"\nsendfile-roots = [\"{}\"]\n", path.display()));
    assert!(why.contains("site.fastcgi.sendfile-roots"), "{why}");
    assert!(Path::new(&path).exists());
}
