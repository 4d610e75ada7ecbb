//! Programs that answer (RFC 3875), under every architecture: real programs, real sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::backend_faults::processes;
use crate::common_programs::{on_every_architecture, on_every_architecture_over_tls};
use flyball_testkit::{Client, Launch, Response, Server, as_ourselves, skip, wait};
use tempfile::TempDir;

/// Time that a program has where it is hurried. Those that must answer are not: on a busy machine
/// a shell alone may take as long to start.
const HURRIED_MS: u64 = 300;

/// Programs by name: shell scripts.
const PROGRAMS: [(&str, &str); 22] = [
    ("env", "echo Content-Type: text/plain; echo; env; echo done >&2"),
    ("echo", "echo Content-Type: application/octet-stream; echo; exec cat"),
    ("sum", "n=$(wc -c); echo Content-Type: text/plain; echo; echo $n"),
    ("keep", "cat > $HERE/kept; echo > $HERE/whole; echo A: b; echo; echo kept"),
    (
        "status",
        "echo Status: 409 Conflict; echo X-From: program; echo Content-Length: 3; echo; echo ok",
    ),
    ("local", "echo Location: /page.txt; echo"),
    ("onward", "echo Location: /run/env; echo"),
    ("away", "echo Location: http://elsewhere.example/; echo"),
    ("nph-raw", "printf 'HTTP/1.1 201 Created\\r\\nX-Raw: yes\\r\\n\\r\\nraw'"),
    ("silent", "exit 3"),
    ("malformed", "echo no header at all; echo; echo x"),
    (
        "cut",
        "echo Content-Length: 1000; echo; echo short; until [ -e $HERE/go ]; do sleep 0.05; done",
    ),
    ("late", "exec sleep 600"),
    ("tardy", "exec sleep 600"),
    ("stalls", "printf 'Content-Type: text/plain\\n\\nfirst\\n'; exec sleep 600"),
    ("limits", "echo Content-Type: text/plain; echo; ulimit -v; ulimit -t"),
    (
        "killed",
        "echo A: b; echo; echo part; until [ -e $HERE/go ]; do sleep 0.05; done; kill -9 $$",
    ),
    ("surplus", "echo Content-Length: 3; echo; printf 'one\n'; exec sleep 600"),
    ("detached", "echo Content-Type: text/plain; echo; echo whole; exec >&-; exec sleep 600"),
    ("flood", "echo Content-Type: text/plain; echo; exec yes"),
    ("dated", "echo 'Date: Sun, 06 Nov 1994 08:49:37 GMT'; echo A: b; echo; echo x"),
    ("misdated", "echo Date: yesterday; echo A: b; echo; echo x"),
];

pub(crate) struct Programs {
    pub(crate) server: Server,
    pub(crate) files: TempDir,
}

/// A server with these programs; `None` where its architecture cannot run here.
pub(crate) fn start(architecture: &str, more: &str) -> Option<Programs> {
    start_with(architecture, "", more)
}

/// The same with settings of the server before those of the programs.
pub(crate) fn start_with(architecture: &str, settings: &str, more: &str) -> Option<Programs> {
    let files = tempfile::tempdir().unwrap();
    let programs = files.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    for (name, script) in PROGRAMS {
        let pid = files.path().join(format!("{name}.pid"));
        let own = format!("HERE={}\n", files.path().display());
        let text = format!("#!/bin/sh\n{own}echo $$ > {}\n{script}\n", pid.display());
        add(&programs, name, &text, 0o755);
    }
    add(&programs, "closed", "#!/bin/sh\n", 0o644);
    add(&programs, "interpreted", "#!/no/such/interpreter -x\n", 0o755);
    add(files.path(), "page.txt", "a page\n", 0o644);
    let root = files.path().display();
    let config = format!(
        "{}arch = \"{architecture}\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n\
         access-log = \"{root}/access.log\"\n{settings}[[site]]\nroot = \"{root}\"\n\
         [[site.cgi]]\npath = \"/hurried\"\nroot = \"{root}/programs\"\n\
         answer-timeout = \"{HURRIED_MS}ms\"\nidle-timeout = \"{HURRIED_MS}ms\"\n\
         [[site.cgi]]\npath = \"/stalled\"\nroot = \"{root}/programs\"\n\
         idle-timeout = \"{HURRIED_MS}ms\"\n\
         [[site.cgi]]\npath = \"/streamed\"\nroot = \"{root}/programs\"\nhold = \"off\"\n\
         [[site.cgi]]\npath = \"/run\"\nroot = \"{root}/programs\"\n\
         environment = {{ OWN = \"value\" }}\n{more}",
        as_ourselves()
    );
    let server = Launch::config(config).start_where_possible()?;
    Some(Programs { server, files })
}

fn add(directory: &Path, name: &str, text: &str, mode: u32) {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// An answer whose content may come in chunks.
pub(crate) struct Answer {
    pub(crate) head: Response,
    pub(crate) text: String,
}

pub(crate) fn answer(client: &mut Client) -> Answer {
    let head = client.response_head();
    let body = match head.content_length() {
        Some(len) => client.take(len),
        None => client.chunks().concat(),
    };
    Answer { head, text: String::from_utf8_lossy(&body).into_owned() }
}

fn ask(client: &mut Client, request: impl AsRef<[u8]>) -> Answer {
    client.send(request);
    answer(client)
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.status()
    }
}

impl Programs {
    fn ask(&self, path: &str) -> Answer {
        ask(&mut self.server.connect(), get(path))
    }

    pub(crate) fn counted(&self, name: &str) -> u64 {
        let status = self.server.status();
        let at = status.find(&format!("\"{name}\"")).unwrap_or_else(|| panic!("{name}: {status}"));
        // A name may end in the number of a status.
        let after = status[at + name.len() + 2..].trim_start_matches([':', ' ']);
        after.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    }

    /// Waits until a program runs, and gives its process id.
    pub(crate) fn runs(&self, name: &str) -> u32 {
        let path = self.files.path().join(format!("{name}.pid"));
        let pid = || std::fs::read_to_string(&path).ok()?.trim().parse().ok();
        wait::until(wait::DEADLINE, pid).unwrap_or_else(|| panic!("{name} does not run"))
    }

    pub(crate) fn expect_ended(&self, name: &str, pid: u32) {
        let is_gone = || (!Path::new(&format!("/proc/{pid}")).exists()).then_some(());
        wait::until(wait::DEADLINE, is_gone).unwrap_or_else(|| panic!("{name} still runs"));
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: example.org\r\n\r\n")
}

fn a_program_may_say_when_its_answer_was_made(architecture: &str) {
    let Some(programs) = start(architecture, "") else { return };
    let dates = |path: &str| -> Vec<String> {
        let answer = programs.ask(path);
        assert_eq!((answer.status(), &*answer.text), (200, "x\n"), "{path}");
        let fields = answer.head.fields.iter().filter(|(name, _)| name == "Date");
        fields.map(|(_, value)| value.clone()).collect()
    };
    assert_eq!(dates("/run/dated"), ["Sun, 06 Nov 1994 08:49:37 GMT"]);
    // What is no time is not passed on: a client gets the time of the server.
    let told = dates("/run/misdated");
    assert!(matches!(&told[..], [one] if one.ends_with(" GMT") && !one.contains("1994")));
}

fn what_a_client_wrote_gives_no_orders_to_a_terminal_that_shows_the_log(architecture: &str) {
    let Some(programs) = start(architecture, "") else { return };
    let mut client = programs.server.connect();
    // The start of a control sequence, what shows text backwards, and a file name as it may be.
    let path = b"/run/env/\xc2\x9b2Jx\xe2\x80\xaeyz/\xc3\xa9";
    client.send([b"GET ", &path[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    let _ = answer(&mut client);
    let said = || Some(programs.server.errors()).filter(|said| said.contains("done"));
    let said = wait::until(wait::DEADLINE, said).expect("what the program said");
    assert!(said.contains("GET /run/env/\\u{9b}2Jx\\u{202e}yz/\u{e9} "), "{said:?}");
    let is_order = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    assert!(!said.contains(is_order), "{said:?}");
}

fn an_absolute_target_is_the_host_of_every_variable(architecture: &str) {
    let Some(programs) = start(architecture, "") else { return };
    for (target, version, fields, lines) in [
        (
            "http://public.example/run/env?a=b",
            "1.1",
            "Host: internal.example:8443\r\n",
            ["HTTP_HOST=public.example", "SERVER_PORT=80", "REQUEST_URI=/run/env?a=b"],
        ),
        (
            "HTTPS://public.example:81/run/env",
            "1.1",
            "Host: internal.example:8443\r\n",
            ["HTTP_HOST=public.example:81", "SERVER_PORT=81", "REQUEST_URI=/run/env"],
        ),
        (
            "http://public.example:81/run/env",
            "1.0",
            "",
            ["HTTP_HOST=public.example:81", "SERVER_PORT=81", "REQUEST_SCHEME=http"],
        ),
        (
            "http://public.example:81/run/onward",
            "1.1",
            "Host: internal.example:8443\r\n",
            ["HTTP_HOST=public.example:81", "SERVER_PORT=81", "REQUEST_URI=/run/env"],
        ),
    ] {
        let request = format!("GET {target} HTTP/{version}\r\n{fields}Connection: close\r\n\r\n");
        let mut client = programs.server.connect();
        client.send(request);
        let answer = client.rest();
        let text = String::from_utf8_lossy(&answer);
        for line in lines.into_iter().chain(["SERVER_NAME=public.example"]) {
            assert!(text.lines().any(|found| found == line), "{target}: {line}:\n{text}");
        }
        assert!(!text.contains("internal"), "{target}: {text}");
    }
}

fn a_program_gets_its_request_and_answers_it(architecture: &str) {
    let Some(programs) = start(architecture, "") else { return };
    let mut client = programs.server.connect();
    let answer = ask(
        &mut client,
        "POST /run/env/more%20path?a=b HTTP/1.1\r\nHost: example.org:81\r\nContent-Length: 0\r\n\
         Proxy: http://evil/\r\nHTTPS: evil\r\nSSL-Client-Verify: evil\r\n\
         SSL_CLIENT_S_DN: evil\r\nssl-protocol: evil\r\nX-Mine: 1\r\n\r\n",
    );
    assert_eq!(answer.status(), 200);
    let text = answer.text;
    for line in [
        "REQUEST_METHOD=POST",
        "SCRIPT_NAME=/run/env",
        "PATH_INFO=/more path",
        "QUERY_STRING=a=b",
        "SERVER_NAME=example.org",
        "SERVER_PORT=81",
        "REMOTE_ADDR=127.0.0.1",
        "GATEWAY_INTERFACE=CGI/1.1",
        "HTTP_X_MINE=1",
        "OWN=value",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("evil"), "{text}");
    // The connection is kept, whatever kind of answer it was.
    let answer = ask(&mut client, get("/run/status"));
    assert_eq!((answer.status(), answer.head.expect("X-From")), (409, "program"));
    assert_eq!(ask(&mut client, get("/run/local")).text, "a page\n");
    let away = ask(&mut client, get("/run/away"));
    assert_eq!((away.status(), away.head.expect("Location")), (302, "http://elsewhere.example/"));
    let raw = ask(&mut client, get("/run/nph-raw"));
    assert_eq!((raw.status(), raw.head.expect("X-Raw"), &*raw.text), (201, "yes", "raw"));
    assert_eq!(ask(&mut client, get("/page.txt")).text, "a page\n");
    let id = text.lines().find_map(|line| line.strip_prefix("REQUEST_ID=")).unwrap();
    let logged = || {
        let errors = programs.server.errors();
        errors.lines().any(|l| l.contains(&format!("[{id}]: done"))).then_some(())
    };
    assert!(wait::until(wait::DEADLINE, logged).is_some(), "{}", programs.server.errors());
}

/// A body, and its length in a field.
fn large_body() -> (Vec<u8>, String) {
    let body: Vec<u8> = (0..2_000_000u32).flat_map(|n| n.to_le_bytes()).take(3_000_001).collect();
    let length = format!("Content-Length: {}", body.len());
    (body, length)
}

fn a_body_reaches_a_program_with_a_length_and_in_chunks(architecture: &str) {
    let Some(programs) = start(architecture, "") else { return };
    let (body, length) = large_body();
    let mut chunked = Vec::new();
    for chunk in body.chunks(70_001) {
        chunked.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunked.extend_from_slice(chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    for (framing, sent) in [(&length[..], &body), ("Transfer-Encoding: chunked", &chunked)] {
        let head = format!("POST /run/sum HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
        let mut client = programs.server.connect();
        client.send(head);
        client.send(sent);
        assert_eq!(answer(&mut client).text.trim(), body.len().to_string());
    }
}

fn a_body_goes_there_and_its_echo_comes_back_at_the_same_time(architecture: &str) {
    let Some(programs) = start(architecture, "") else { return };
    let (body, length) = large_body();
    // An answer of HTTP/1.0 has no chunks.
    let head = format!("POST /run/echo HTTP/1.0\r\n{length}\r\n\r\n");
    let mut socket = TcpStream::connect(programs.server.address()).unwrap();
    let mut sending = socket.try_clone().unwrap();
    let all = [head.as_bytes(), &body].concat();
    let sender = std::thread::spawn(move || sending.write_all(&all));
    let mut answer = Vec::new();
    socket.set_read_timeout(Some(wait::DEADLINE)).unwrap();
    socket.read_to_end(&mut answer).unwrap();
    sender.join().unwrap().unwrap();
    let start = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(answer[start..] == body, "{} of {}", answer.len() - start, body.len());
}

/// The next request of a client is there as soon as it has its answer, when the program may not
/// have ended altogether: it counted as one that runs, and there was no place for another.
fn programs_that_end_make_room_for_the_next(architecture: &str) {
    let Some(programs) = start(architecture, "processes = 1\n") else { return };
    let mut client = programs.server.connect();
    let statuses: Vec<u16> = (0..20).map(|_| ask(&mut client, get("/run/env")).status()).collect();
    let refused = statuses.iter().filter(|status| **status == 503).count();
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    // A program that a busy machine does not let end is waited for for a tenth of a second.
    assert!(refused <= 2, "{statuses:?}");
    assert_eq!(programs.counted("backend_failures_503"), refused as u64);
}

fn failures_are_told_apart(architecture: &str) {
    let Some(programs) = start(architecture, "processes = 1\n") else { return };
    let mut client = programs.server.connect();
    for (path, status) in [
        ("/run/silent", 502),
        ("/run/malformed", 502),
        ("/run/none", 404),
        ("/run/closed", 403),
        ("/hurried/tardy", 504),
    ] {
        let answer = ask(&mut client, get(path));
        assert_eq!(answer.status(), status, "{path}");
        // The next may run when this one has ended. Of the last nobody knows how far it came.
        if status == 502 {
            let name = path.trim_start_matches("/run/");
            programs.expect_ended(name, programs.runs(name));
        }
    }
    // One more than may run at the same time.
    let mut first = programs.server.connect();
    first.send(get("/run/late"));
    let late = programs.runs("late");
    let busy = ask(&mut client, get("/run/env"));
    assert_eq!((busy.status(), busy.head.expect("Retry-After")), (503, "5"));
    drop(first);
    programs.expect_ended("late", late);
    // What has been sent cannot be taken back: the connection is broken off.
    let mut cut = programs.server.connect();
    cut.send(get("/run/cut"));
    let head = cut.response_head();
    assert_eq!((head.status(), head.expect("Content-Length")), (200, "1000"));
    assert_eq!(cut.take(6), b"short\n");
    std::fs::write(programs.files.path().join("go"), "").unwrap();
    assert_eq!(cut.rest_before_cut(), b"");
    let errors = programs.server.errors();
    assert!(errors.contains("502: its head has a line without a colon"), "{errors}");
    for why in ["it has said nothing for", "as many programs run as may", "has said nothing"] {
        assert!(errors.contains(why), "{why}: {errors}");
    }
    let counted = || {
        let counts = ["backend_failures_502", "backend_failures_503", "backend_failures_504"]
            .map(|name| programs.counted(name));
        (counts == [2, 1, 1]).then_some(())
    };
    assert!(wait::until(wait::DEADLINE, counted).is_some(), "{}", programs.server.status());
    let log = programs.files.path().join("access.log");
    let logged = || {
        let text = std::fs::read_to_string(&log).ok()?;
        let statuses = text.lines().filter_map(|line| line.split("HTTP/1.1\" ").nth(1)?.get(..3));
        let mut failed: Vec<&str> = statuses.filter(|status| *status != "200").collect();
        // Where several threads send, so do lines come. The one whose client has left is not said.
        let found = |wanted: &&str| {
            let at = failed.iter().position(|status| status == wanted);
            at.map(|at| failed.swap_remove(at)).is_some()
        };
        ["502", "502", "404", "403", "504", "503"].iter().all(found).then_some(())
    };
    assert!(wait::until(wait::DEADLINE, logged).is_some(), "{:?}", std::fs::read_to_string(&log));
}

fn a_program_that_waits_holds_nobody_up_and_ends_with_its_client(architecture: &str) {
    let Some(programs) = start(architecture, "") else { return };
    for name in ["late", "stalls", "flood"] {
        let mut waiting = programs.server.connect();
        waiting.send(get(&format!("/run/{name}")));
        let pid = programs.runs(name);
        for _ in 0..3 {
            assert_eq!(programs.ask("/page.txt").text, "a page\n", "beside {name}");
        }
        if name != "late" {
            assert_eq!(waiting.response_head().status(), 200);
        }
        drop(waiting);
        programs.expect_ended(name, pid);
    }
    let cancelled = || (programs.counted("backend_cancels") >= 1).then_some(());
    assert!(wait::until(wait::DEADLINE, cancelled).is_some());
    // One that stalls within its answer is not waited for.
    let mut stalled = programs.server.connect();
    stalled.send(get("/stalled/stalls"));
    assert_eq!(stalled.response_head().status(), 200);
    assert_eq!(stalled.rest_before_end(), b"6\r\nfirst\n\r\n");
}

/// Behind the next request that is there already, its end is not read; that the connection is gone
/// in both directions is told all the same, and told again for as long as it is not acted on.
#[test]
fn a_blocking_thread_whose_client_has_reset_behind_a_next_request_ends_its_program() {
    for architecture in ["mp", "mt", "thread-per-connection"] {
        let Some(programs) = start(architecture, "") else { continue };
        let mut client = programs.server.connect();
        client.send(get("/run/stalls"));
        let pid = programs.runs("stalls");
        client.send("POST /run/sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n");
        client.send(vec![b'x'; 100_000]);
        let head = client.response_head();
        assert_eq!(head.status(), 200, "{architecture}");
        client.reset();
        programs.expect_ended("stalls", pid);
        let cancelled = || (programs.counted("backend_cancels") == 1).then_some(());
        assert!(wait::until(wait::DEADLINE, cancelled).is_some(), "{architecture}");
    }
}

/// The end of a pipe says nothing of how the program ended.
fn an_answer_whose_program_was_killed_is_broken_off(architecture: &str) {
    let Some(programs) = start(architecture, "") else { return };
    let mut client = programs.server.connect();
    client.send(get("/run/killed"));
    assert_eq!(client.response_head().status(), 200);
    assert_eq!(client.take(10), b"5\r\npart\n\r\n");
    std::fs::write(programs.files.path().join("go"), "").unwrap();
    assert_eq!(client.rest_before_cut(), b"");
    let logged = || programs.server.errors().contains("signal 9 ended the program").then_some(());
    assert!(wait::until(wait::DEADLINE, logged).is_some(), "{}", programs.server.errors());
}

/// A line feed behind the end of a script is no part of what it answers.
fn what_a_program_says_beyond_the_length_that_it_told_is_dropped(architecture: &str) {
    let Some(programs) = start(architecture, "") else { return };
    let mut client = programs.server.connect();
    // Both may come in one piece, or one after the other.
    let answer = ask(&mut client, get("/run/surplus"));
    assert_eq!((answer.status(), answer.head.expect("Content-Length")), (200, "3"));
    assert_eq!(answer.text, "one");
    let pid = programs.runs("surplus");
    assert_eq!(ask(&mut client, get("/page.txt")).text, "a page\n");
    programs.expect_ended("surplus", pid);
    let logged = || programs.server.errors().contains("longer than its head says").then_some(());
    assert!(wait::until(wait::DEADLINE, logged).is_some(), "{}", programs.server.errors());
}

/// A program may close its output and go on: nothing is missing then.
#[test]
#[ignore = "full tier"]
fn an_answer_whose_program_goes_on_without_its_output_is_whole() {
    let Some(programs) = start("sped", "") else { return };
    let mut client = programs.server.connect();
    assert_eq!(ask(&mut client, get("/run/detached")).text, "whole\n");
    assert_eq!(ask(&mut client, get("/page.txt")).text, "a page\n");
}

#[test]
fn the_length_for_get_is_not_taken_from_an_answer_to_head() {
    let Some(programs) = start("sped", "") else { return };
    let mut client = programs.server.connect();
    for (path, length) in [("/run/env", None), ("/run/status", Some(3))] {
        client.send(get(path).replace("GET", "HEAD"));
        let head = client.response_head();
        assert_eq!(head.content_length(), length, "{path}");
    }
    assert_eq!(ask(&mut client, get("/page.txt")).text, "a page\n");
}

#[test]
fn a_program_whose_interpreter_is_missing_is_named_with_it() {
    let Some(programs) = start("sped", "") else { return };
    assert_eq!(programs.ask("/run/interpreted").status(), 502);
    let named = "programs/interpreted is not run by its interpreter \"/no/such/interpreter\"";
    let logged = || programs.server.errors().contains(named).then_some(());
    assert!(wait::until(wait::DEADLINE, logged).is_some(), "{}", programs.server.errors());
}

/// The only place is free until the body is whole, whose length the program is told then.
fn a_slow_body_takes_no_place_from_others(architecture: &str) {
    let Some(programs) = start(architecture, "processes = 1\n") else { return };
    let mut slow = programs.server.connect();
    slow.send("POST /run/env HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    slow.send("5\r\n12345\r\n");
    let taken = || (programs.counted("backend_requests") == 1).then_some(());
    assert!(wait::until(wait::DEADLINE, taken).is_some(), "{}", programs.server.status());
    assert_eq!(programs.ask("/run/env").status(), 200);
    programs.expect_ended("env", programs.runs("env"));
    slow.send("2\r\n67\r\n0\r\n\r\n");
    let text = answer(&mut slow).text;
    assert!(text.lines().any(|line| line == "CONTENT_LENGTH=7"), "{text}");
    assert!(!text.contains("TRANSFER_ENCODING"), "{text}");
}

fn a_request_behind_another_waits_for_its_turn(architecture: &str) {
    let Some(programs) = start(architecture, "") else { return };
    let mut client = programs.server.connect();
    let paths = ["/run/status", "/page.txt", "/run/env", "/run/local", "/page.txt"];
    client.send(paths.map(get).concat());
    let answers = paths.map(|_| answer(&mut client));
    assert_eq!(answers.each_ref().map(Answer::status), [409, 200, 200, 200, 200]);
    assert!(answers[2].text.contains("GATEWAY_INTERFACE"));
    let mut client = programs.server.connect();
    client.send(get("/run/late"));
    let late = programs.runs("late");
    // Nothing tells a client that closes its side from one that is gone.
    client.half_close();
    programs.expect_ended("late", late);
}

/// The end of a pipe would look like the end of the body to a program that was not told a length.
#[test]
fn a_body_whose_client_leaves_is_not_taken_for_the_whole() {
    for architecture in ["sped", "mt", "uring"] {
        let Some(programs) = start(architecture, "") else { continue };
        for _ in 0..10 {
            let mut client = programs.server.connect();
            let head = "POST /streamed/keep HTTP/1.1\r\nHost: a\r\n";
            client.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n"));
            let pid = programs.runs("keep");
            drop(client);
            programs.expect_ended("keep", pid);
            assert!(!programs.files.path().join("whole").exists(), "{architecture}");
            std::fs::remove_file(programs.files.path().join("keep.pid")).unwrap();
        }
    }
}

on_every_architecture! {
    [
        a_program_gets_its_request_and_answers_it,
        an_absolute_target_is_the_host_of_every_variable,
        a_program_may_say_when_its_answer_was_made,
        what_a_client_wrote_gives_no_orders_to_a_terminal_that_shows_the_log,
        a_body_reaches_a_program_with_a_length_and_in_chunks,
        a_body_goes_there_and_its_echo_comes_back_at_the_same_time,
        failures_are_told_apart,
        programs_that_end_make_room_for_the_next,
        a_program_that_waits_holds_nobody_up_and_ends_with_its_client,
        an_answer_whose_program_was_killed_is_broken_off,
        what_a_program_says_beyond_the_length_that_it_told_is_dropped,
        a_slow_body_takes_no_place_from_others,
        a_request_behind_another_waits_for_its_turn,
        a_body_over_the_limit_does_not_reach_a_program,
    ]
}

on_every_architecture_over_tls! {
    a_program_gets_its_request_and_answers_it,
    a_body_reaches_a_program_with_a_length_and_in_chunks,
    failures_are_told_apart,
    an_answer_whose_program_was_killed_is_broken_off,
    a_slow_body_takes_no_place_from_others,
    a_body_over_the_limit_does_not_reach_a_program,
}

/// Wherever passwords are verified: in place, by helpers, by whoever blocks, beside a ring.
#[test]
fn a_program_is_told_who_has_logged_in_and_not_by_what_password() {
    // ann:secret, by bcrypt of the lowest cost.
    let user = "ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy\n";
    let users = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(users.path(), user).unwrap();
    for architecture in ["sped", "amped", "mt", "uring"] {
        let files = tempfile::tempdir().unwrap();
        add(files.path(), "env", "#!/bin/sh\necho Content-Type: text/plain; echo; env\n", 0o755);
        let root = files.path().display();
        let site = |host: &str, auth: &str| {
            format!(
                "[[site]]\nhosts = [\"{host}\"]\nroot = \"{root}\"\n{auth}[[site.cgi]]\n\
                 path = \"/\"\nprogram = \"{root}/env\"\n"
            )
        };
        let auth = format!("auth.file = {:?}\nauth.paths = [\"/in\"]\n", users.path());
        let sites = site("open.example", "") + &site("closed.example", &auth);
        let config = format!("{}arch = \"{architecture}\"\n{sites}", as_ourselves());
        let Ok(server) = Launch::config(config).start() else { continue };
        let ask = |host: &str, path: &str, login: &str| {
            let login = format!("Authorization: Basic {login}\r\n");
            let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n");
            ask(&mut server.connect(), format!("{head}{login}\r\n"))
        };
        let (ann, wrong) = ("YW5uOnNlY3JldA==", "YW5uOndyb25n");
        for _ in 0..2 {
            let told = ask("closed.example", "/in/x", ann);
            assert_eq!(told.status(), 200);
            for line in ["AUTH_TYPE=Basic", "REMOTE_USER=ann"] {
                assert!(told.text.lines().any(|found| found == line), "{line}: {}", told.text);
            }
            assert!(!told.text.contains("AUTHORIZATION"), "{}", told.text);
        }
        assert_eq!(ask("closed.example", "/in/x", wrong).status(), 401);
        // Nobody has verified what is said here, and the program may.
        for (host, path) in [("open.example", "/in"), ("closed.example", "/out")] {
            let told = ask(host, path, wrong).text;
            assert!(told.contains("HTTP_AUTHORIZATION=Basic YW5uOndyb25n"), "{told}");
            assert!(!told.contains("REMOTE_USER") && !told.contains("AUTH_TYPE"), "{told}");
        }
    }
}

/// What is too long is refused by its length where that is told, so that no program is started for
/// it, and so is what is held. Else the program gets what may be, and is ended.
fn a_body_over_the_limit_does_not_reach_a_program(architecture: &str) {
    let Some(programs) = start_with(architecture, "limit.body = \"100KiB\"\n", "") else { return };
    let mut client = programs.server.connect();
    client.send("POST /run/keep HTTP/1.1\r\nHost: a\r\nContent-Length: 102401\r\n\r\n");
    assert_eq!(client.response().status(), 413);
    assert_eq!(programs.counted("backend_requests"), 0);
    let chunk = [&b"400\r\n"[..], &[b'x'; 1024], b"\r\n"].concat();
    let mut client = programs.server.connect();
    client.send("POST /run/keep HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(chunk.repeat(101));
    assert_eq!(client.response().status(), 413);
    assert!(!programs.files.path().join("kept").exists(), "a program was started");
    let mut client = programs.server.connect();
    client.send("POST /streamed/keep HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(&chunk);
    let pid = programs.runs("keep");
    client.send(chunk.repeat(100));
    assert_eq!(client.response().status(), 413);
    programs.expect_ended("keep", pid);
    let kept = std::fs::metadata(programs.files.path().join("kept")).map_or(0, |file| file.len());
    assert!(kept <= 100 * 1024, "{kept} bytes reached the program");
    // The program learns of its end by a signal, not by what looks like the end of the body.
    assert!(!programs.files.path().join("whole").exists());
}

#[test]
fn a_program_has_as_much_memory_and_processor_time_as_it_may() {
    let limits = "memory = \"64MiB\"\ncpu-time = \"7s\"\n";
    let Some(programs) = start("sped", limits) else { return };
    // In KiB, and in seconds.
    assert_eq!(programs.ask("/run/limits").text, "65536\n7\n");
}

/// For longer than it takes a client to ask a thousand times.
#[test]
fn a_program_that_has_ended_leaves_no_descriptor_behind() {
    let Some(programs) = start("sped", "") else { return };
    let held = || -> usize {
        processes(&programs.server).values().map(|process| process.descriptors).sum()
    };
    assert_eq!(programs.ask("/run/limits").status(), 200);
    let before = held();
    for _ in 0..40 {
        assert_eq!(programs.ask("/run/limits").status(), 200);
    }
    let is_as_before = || (held() <= before + 10).then_some(());
    assert!(wait::until(wait::DEADLINE, is_as_before).is_some(), "{} after {before}", held());
}

#[test]
fn a_program_that_is_missing_is_named_before_the_server_starts() {
    let site = "[[site]]\nroot = \"/tmp\"\n[[site.cgi]]\npath = \"/run\"\n";
    for (more, named) in [
        ("program = \"/no/such/program\"", "site.cgi.program: /no/such/program"),
        ("root = \"/no/such/directory\"", "site.cgi.root: /no/such/directory"),
        ("", "site.cgi.program: is missing"),
    ] {
        let refused = Launch::config(format!("{site}{more}\n")).start().err().unwrap().to_string();
        assert!(refused.contains(named), "{refused}");
        // A check says so too, and where.
        let text = format!("{site}{more}\n");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flyball.toml");
        std::fs::write(&path, &text).unwrap();
        let checked = std::process::Command::new(flyball_testkit::binary())
            .args(["check", "--config"])
            .arg(&path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        // Where the key is, or its table if there is none.
        let line = if more.is_empty() { 3 } else { 5 };
        assert!(!checked.status.success());
        assert!(said.contains(&format!("{}:{line}: {named}", path.display())), "{said}");
    }
}

/// The example as it is, with git itself on both sides: a push is a chunked body.
#[test]
#[ignore = "full tier"]
fn git_clones_and_pushes_by_the_example() {
    let backend = Path::new("/usr/lib/git-core/git-http-backend");
    if !crate::common_programs::have(&["git"]) || !backend.exists() {
        return skip("git-http-backend is not installed");
    }
    let files = tempfile::tempdir().unwrap();
    let root = files.path().join("root");
    let git = |arguments: &[&str]| {
        let mut git = crate::common_programs::program("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.compression=0"]);
        git.args(arguments);
        git.env("HOME", files.path()).env("GIT_CONFIG_NOSYSTEM", "1").current_dir(files.path());
        crate::common_programs::run(&mut git)
    };
    std::fs::create_dir(&root).unwrap();
    git(&["init", "-q", "--bare", "-b", "main", "root/project.git"]);
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/git-http.toml");
    let example = std::fs::read_to_string(example).unwrap();
    let example = example
        .replace("${GIT_ROOT}", root.to_str().unwrap())
        .replace("${LISTEN:-127.0.0.1:8080}", "127.0.0.1:0")
        .replace("user = \"${GIT_USER:-auto}\"\n", as_ourselves());
    let server = Launch::config(example).start().unwrap();
    let url = format!("http://{}/project.git", server.address());
    git(&["init", "-q", "-b", "main", "mine"]);
    // Longer than what git sends with a length.
    let noise = crate::common_programs::noise(7, 3_000_000);
    std::fs::write(files.path().join("mine/noise"), &noise).unwrap();
    git(&["-C", "mine", "add", "."]);
    git(&["-C", "mine", "commit", "-q", "-m", "first"]);
    git(&["-C", "mine", "push", "-q", &url, "main"]);
    git(&["clone", "-q", &url, "theirs"]);
    assert!(std::fs::read(files.path().join("theirs/noise")).unwrap() == noise);
    // What is pushed later is fetched; a pack that does not compress, in chunks of 64 KiB.
    let noise = crate::common_programs::noise(11, 50 << 20);
    std::fs::write(files.path().join("mine/large"), &noise).unwrap();
    git(&["-C", "mine", "add", "."]);
    git(&["-C", "mine", "commit", "-q", "-m", "second"]);
    git(&["-C", "mine", "-c", "http.postBuffer=65536", "push", "-q", &url, "main"]);
    git(&["-C", "theirs", "fetch", "-q", "origin"]);
    git(&["-C", "theirs", "merge", "-q", "--ff-only", "origin/main"]);
    assert!(std::fs::read(files.path().join("theirs/large")).unwrap() == noise);
    git(&["clone", "-q", &url, "others"]);
    let head = |clone: &str| git(&["-C", clone, "rev-parse", "HEAD"]).0;
    assert_eq!([head("theirs"), head("others")], [head("mine"), head("mine")]);
    git(&["-C", "root/project.git", "fsck", "--strict"]);
}

/// git opens `private.git` by the path `/private` too.
#[test]
#[ignore = "full tier"]
fn a_rule_for_a_repository_holds_by_all_names_that_git_opens_it_by() {
    let backend = Path::new("/usr/lib/git-core/git-http-backend");
    if !crate::common_programs::have(&["git"]) || !backend.exists() {
        return skip("git-http-backend is not installed");
    }
    let files = tempfile::tempdir().unwrap();
    let at = |name: &str| files.path().join(name).display().to_string();
    for name in ["root/private.git", "root/open.git"] {
        let mut git = crate::common_programs::program("git");
        crate::common_programs::run(git.args(["init", "-q", "--bare", &at(name)]));
    }
    let users = "ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy\n";
    std::fs::write(at("users"), users).unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/git-http.toml");
    let example = std::fs::read_to_string(example).unwrap();
    let (file, login) = ("# auth.file = \"/etc/flyball/users\"", "# auth.paths = [\"/\"]");
    assert!(example.contains(file) && example.contains(login));
    let one = "auth.paths = [\"/private\", \"/private.git\"]";
    let networks = "\n[[site.access]]\nmatch = '~^/private(\\.git)?(/|$)'\nallow = \"192.0.2.1\"\n";
    for (paths, more, refused, open) in
        [("auth.paths = [\"/\"]", "", 401, 401), (one, "", 401, 200), (one, networks, 403, 200)]
    {
        let example = example
            .replace(file, &format!("auth.file = {:?}", at("users")))
            .replace(login, paths)
            .replace("${GIT_ROOT}", &at("root"))
            .replace("${LISTEN:-127.0.0.1:8080}", "127.0.0.1:0")
            .replace("user = \"${GIT_USER:-auto}\"\n", as_ourselves());
        let server = Launch::config(example + more).start().unwrap();
        let ask = |name: &str, login: &str| {
            let target = format!("/{name}/info/refs?service=git-upload-pack");
            let mut client = server.connect();
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{login}\r\n"));
            answer(&mut client).status()
        };
        for name in ["private.git", "private", "private.git/.", "private%2Egit", "/private"] {
            assert_eq!(ask(name, ""), refused, "{name} {paths}");
        }
        let ann = "Authorization: Basic YW5uOnNlY3JldA==\r\n";
        let admitted = if more.is_empty() { 200 } else { 403 };
        assert_eq!(ask("private", ann), admitted, "{paths}");
        assert_eq!(ask("open", ""), open, "{paths}");
    }
}
