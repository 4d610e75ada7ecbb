//! Modules in C and in Rust, under every architecture: the examples, raw bytes in and out.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;

use crate::backend_faults::children;
use crate::common_programs::on_every_architecture;
use flyball_testkit::{Client, Launch, Server, as_ourselves, wait};
use tempfile::TempDir;

const PAGE: &str = "<p>what a file of the site says</p>\n";

/// A library in C, compiled once for all tests.
fn hello() -> &'static Path {
    static COMPILED: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = COMPILED.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hello.so");
        compile(&source("examples/modules/hello.c"), &path, &[]);
        (directory, path)
    });
    path
}

fn source(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)
}

pub(crate) fn compile(source: &Path, library: &Path, more: &[&str]) {
    let include = format!("-I{}", self::source("crates/module/include").display());
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-std=c99", "-shared", "-fPIC", &include]);
    cc.args(more).arg("-o").args([library, source]);
    let output = cc.output().expect("there is a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The library in Rust, which is built with this test.
fn visits() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().join("libflyball_example_module.so")
}

pub(crate) struct Modules {
    pub(crate) server: Server,
    _files: TempDir,
}

impl Modules {
    /// Waits for the worker that takes the place of the one that ended.
    fn assert_serves_again(&self) {
        let serves_again = || {
            let mut client = Client::try_connect(self.server.address())?;
            let response = client.try_ask(get("/hello"))?;
            (response.status() == 200).then_some(())
        };
        assert!(wait::until(wait::DEADLINE, serves_again).is_some(), "{}", self.server.errors());
    }
}

/// A server with modules; `None` where its architecture cannot run here.
pub(crate) fn start(architecture: &str, more: &str) -> Option<Modules> {
    start_with(architecture, "", more)
}

/// The same with settings of the server.
fn start_with(architecture: &str, settings: &str, more: &str) -> Option<Modules> {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("index.html"), PAGE).unwrap();
    let (root, hello, visits) = (files.path().display(), hello().display(), visits());
    let visits = visits.display();
    let config = format!(
        "{}arch = \"{architecture}\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n\
         {settings}\
         [[site]]\nroot = \"{root}\"\n\
         [[site.module]]\npath = \"/hello\"\nlibrary = \"{hello}\"\n\
         options = {{ greeting = \"hi\" }}\n\
         [[site.module]]\npath = \"/rust\"\nlibrary = \"{visits}\"\n\
         [[site.module]]\npath = \"/late\"\nlibrary = \"{visits}\"\nload = \"first-use\"\n\
         [[site.module]]\npath = \"/slow\"\nlibrary = \"{visits}\"\nblocking = true\n{more}",
        as_ourselves()
    );
    let server = Launch::config(config).start_where_possible()?;
    Some(Modules { server, _files: files })
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Status and content of an answer, whose content may come in chunks.
fn answer(client: &mut Client) -> (u16, String) {
    let head = client.response_head();
    let body = match head.content_length() {
        Some(len) => client.take(len),
        None => client.chunks().concat(),
    };
    (head.status(), String::from_utf8(body).unwrap())
}

pub(crate) fn ask(client: &mut Client, request: impl AsRef<[u8]>) -> (u16, String) {
    client.send(request);
    answer(client)
}

fn ok(text: &str) -> (u16, String) {
    (200, text.to_owned())
}

fn an_answer_in_one_call_is_like_that_of_a_file(modules: &Modules) {
    let mut client = modules.server.connect();
    client.send(get("/hello?you"));
    let head = client.response_head();
    assert_eq!((head.status(), head.content_length()), (200, Some(8)));
    assert_eq!(head.expect("Content-Type"), "text/plain; charset=utf-8");
    assert_eq!(head.expect("Set-Cookie"), "seen=yes; Path=/; HttpOnly");
    assert_eq!(client.take(8), b"hi, you\n");
    // Known by its cookie, and by an escaped path; HEAD has no content; then all in one packet.
    let cookie = "GET /x/..//hell%6f/ HTTP/1.1\r\nHost: a\r\nCookie: a=b; seen=yes\r\n\r\n";
    assert_eq!(ask(&mut client, cookie), ok("hi again\n"));
    client.send("HEAD /hello?you HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_head().content_length(), Some(8));
    client.send([get("/hello"), get("/"), get("/rust"), get("/hello?b")].concat());
    assert_eq!(answer(&mut client), ok("hi\n"));
    assert_eq!(answer(&mut client), ok(PAGE));
    assert_eq!(answer(&mut client), ok("visit 1\n"));
    assert_eq!(answer(&mut client), ok("hi, b\n"));
    assert_eq!(ask(&mut client, get("/hello-not")).0, 404);
    assert_eq!(ask(&mut client, get("/late")), ok("visit 1\n"));
    assert_eq!(ask(&mut client, get("/slow")), ok("visit 1\n"));
    assert_eq!(ask(&mut client, get("/rust")), ok("visit 2\n"));
}

fn a_body_comes_in_pieces_and_an_answer_leaves_in_pieces(modules: &Modules) {
    let mut client = modules.server.connect();
    let body = vec![b'b'; 300_000];
    for path in ["/rust/sum", "/late/sum", "/slow/sum"] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n");
        client.send([head.as_bytes(), &body].concat());
        assert_eq!(answer(&mut client), ok("300000 bytes, sum 29400000\n"), "{path}");
    }
    // Piece by piece, each echoed before the next is sent, in the framing that fits.
    client.send("POST /hello/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("4\r\nsome\r\n");
    let head = client.response_head();
    assert_eq!((head.status(), head.content_length()), (200, None));
    assert_eq!(client.take(9), b"4\r\nsome\r\n");
    client.send("5\r\n more\r\n0\r\n\r\n");
    assert_eq!(client.rest(), b"5\r\n more\r\n0\r\n\r\n");
    let mut client = modules.server.connect();
    assert_eq!(ask(&mut client, get("/hello/count")), ok("1\n2\n3\n4\n5\n"));
    for path in ["/rust/stream", "/slow/stream"] {
        let (status, text) = ask(&mut client, get(path));
        assert_eq!((status, text.len()), (200, 1 << 20), "{path}");
    }
    assert_eq!(ask(&mut client, get("/")), ok(PAGE));
}

fn a_module_sends_files_of_the_site(modules: &Modules) {
    let mut client = modules.server.connect();
    // Once from the disk, once from the cache.
    for _ in 0..2 {
        assert_eq!(ask(&mut client, get("/hello/part")), ok("<p>what a>\n"));
        assert_eq!(ask(&mut client, get("/hello/file")), ok(PAGE));
    }
    let range = "GET /hello/file HTTP/1.1\r\nHost: a\r\nRange: bytes=3-6\r\n\r\n";
    assert_eq!(ask(&mut client, range), (206, "what".into()));
}

fn who_leaves_or_reads_slowly_harms_nobody(modules: &Modules) {
    for path in ["/hello/count", "/rust/stream", "/slow/stream", "/hello/echo"] {
        let mut client = modules.server.connect();
        client.send(
            get(path).replace("GET", "POST").replace("\r\n\r\n", "\r\nContent-Length: 9\r\n\r\nx"),
        );
        client.reset();
    }
    let mut slow = Client::connect_narrow(modules.server.address(), 64 * 1024);
    slow.send(get("/rust/stream"));
    let mut client = modules.server.connect();
    assert_eq!(ask(&mut client, get("/hello")), ok("hi\n"));
    assert_eq!(answer(&mut slow).1.len(), 1 << 20);
    modules.server.assert_sound();
}

fn answers_are_counted_by_module_and_class(modules: &Modules) {
    let counted = |library: &str| {
        let status: String =
            modules.server.status().chars().filter(|c| !c.is_whitespace()).collect();
        let (_, answers) = status.split_once("\"modules\":").expect("answers of modules");
        let at = answers.find(library).unwrap_or_else(|| panic!("{library} is not in {status}"));
        answers[at..].split_once('}').map(|(counts, _)| counts.to_owned()).unwrap_or_default()
    };
    // It has panicked twice, and nobody else answers so.
    let all = || counted("libflyball_example_module.so\"").contains("\"5xx\":2").then_some(());
    assert!(wait::until(wait::DEADLINE, all).is_some(), "{}", modules.server.status());
    let hello = counted("hello.so\"");
    assert!(hello.contains("\"5xx\":0") && !hello.contains("\"2xx\":0"), "{hello}");
}

fn a_panic_is_answered_with_500(modules: &Modules) {
    let mut client = modules.server.connect();
    assert_eq!(ask(&mut client, get("/rust/panic")).0, 500);
    assert_eq!(ask(&mut client, get("/slow/panic")).0, 500);
    assert_eq!(ask(&mut client, get("/rust")), ok("visit 3\n"));
    assert!(modules.server.errors().contains("GET /rust/panic ["), "{}", modules.server.errors());
}

/// Of one worker, but for processes that serve one client each.
fn a_module_that_blocks_holds_nobody_up(architecture: &str) {
    let settings = if architecture == "mp" { "mp.processes = 4\n" } else { "workers = 1\n" };
    let Some(modules) = start_with(architecture, settings, "") else { return };
    let mut slow = modules.server.connect();
    let mut client = modules.server.connect();
    assert_eq!(ask(&mut client, get("/hello")), ok("hi\n"));
    let began = Instant::now();
    // It sleeps for a second. On a busy machine somebody else may not have run for as long.
    let holds_up = (0..4).all(|_| {
        slow.send(get("/slow/sleep"));
        assert_eq!(ask(&mut client, get("/hello")), ok("hi\n"));
        let slept = slow.arrived();
        assert_eq!(answer(&mut slow), ok("slept\n"));
        slept
    });
    assert!(!holds_up, "nobody is answered while it sleeps; {:?} went by", began.elapsed());
    // A second is counted, wherever the call was made.
    let counted = || {
        let status = modules.server.status();
        let (_, times) = status.split_once("\"module_times_ns\"").expect("times of modules");
        let (_, of_it) = times.split_once("libflyball_example_module.so\": ").expect("the module");
        let ns: u64 = of_it[..of_it.find(|c: char| !c.is_ascii_digit())?].parse().ok()?;
        (ns >= 1_000_000_000).then_some(ns)
    };
    let ns = wait::until(wait::DEADLINE, counted)
        .unwrap_or_else(|| panic!("{}", modules.server.status()));
    let most = u64::try_from(began.elapsed().as_nanos()).unwrap();
    assert!(ns <= most, "{ns} of {most}");
}

fn a_module_that_aborts_takes_its_worker_along_and_no_other(architecture: &str) {
    let Some(modules) = start(architecture, "") else { return };
    let mut client = modules.server.connect();
    // Once one has answered, all have begun that do.
    assert_eq!(ask(&mut client, get("/hello")), ok("hi\n"));
    let before = children(&modules.server);
    client.send(get("/hello/abort"));
    assert_eq!(client.rest(), b"");
    modules.assert_serves_again();
    // The dead is a child until the master has seen it.
    let lost = || before.difference(&children(&modules.server)).count();
    assert!(
        wait::until(wait::DEADLINE, || (lost() == 1).then_some(())).is_some(),
        "{} ended",
        lost()
    );
}

/// A program that sends requests on to a module, and the other way round.
fn a_program_and_a_module_send_a_request_to_each_other_ten_times_at_most(architecture: &str) {
    let programs = tempfile::tempdir().unwrap();
    std::fs::set_permissions(programs.path(), Permissions::from_mode(0o755)).unwrap();
    let here = programs.path().display();
    for (name, script) in [
        ("loop", format!("echo x >> {here}/runs; echo Location: /thread/file; echo")),
        ("away", "echo Location: /hello/echo; echo".to_owned()),
    ] {
        let path = programs.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    let more = format!(
        "[[site.module]]\npath = \"/thread\"\nlibrary = \"{}\"\nblocking = true\n\
         [[site.cgi]]\npath = \"/cgi-bin\"\nroot = \"{here}\"\n\
         [[site.rewrite]]\nfrom = \"/index.html\"\nto = \"/cgi-bin/loop\"\n",
        hello().display()
    );
    let Some(modules) = start(architecture, &more) else { return };
    let mut client = modules.server.connect();
    assert_eq!(ask(&mut client, get("/cgi-bin/loop")).0, 502);
    let runs = std::fs::read_to_string(programs.path().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 11);
    // The body, longer than what is held, was for the program.
    let body = vec![b'x'; 1_500_000];
    let mut client = modules.server.connect();
    client.send(format!(
        "POST /cgi-bin/away HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    let _ = client.try_send(&body);
    assert_eq!(answer(&mut client), ok(""));
}

/// All of that of one server: starting one takes longer than asking it.
fn a_module_answers_as_files_do_in_pieces_and_after_a_panic(architecture: &str) {
    let Some(modules) = start(architecture, "") else { return };
    an_answer_in_one_call_is_like_that_of_a_file(&modules);
    a_body_comes_in_pieces_and_an_answer_leaves_in_pieces(&modules);
    a_module_sends_files_of_the_site(&modules);
    who_leaves_or_reads_slowly_harms_nobody(&modules);
    a_panic_is_answered_with_500(&modules);
    answers_are_counted_by_module_and_class(&modules);
}

on_every_architecture! {
    [
        a_module_answers_as_files_do_in_pieces_and_after_a_panic,
        a_module_that_blocks_holds_nobody_up,
        a_module_that_aborts_takes_its_worker_along_and_no_other,
        a_program_and_a_module_send_a_request_to_each_other_ten_times_at_most,
    ]
}

#[test]
fn with_abort_a_panic_ends_the_worker() {
    let more = format!(
        "[[site.module]]\npath = \"/strict\"\nlibrary = \"{}\"\non-panic = \"abort\"\n",
        visits().display()
    );
    let Some(modules) = start("n-copy", &more) else { return };
    let mut client = modules.server.connect();
    client.send(get("/strict/panic"));
    assert_eq!(client.rest(), b"");
    modules.assert_serves_again();
}

#[test]
fn what_is_wrong_with_a_module_is_told_with_its_line_before_the_server_starts() {
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let source = files.path().join(format!("{name}.c"));
        std::fs::write(&source, text).unwrap();
        let library = files.path().join(format!("{name}.so"));
        compile(&source, &library, &[]);
        library
    };
    let table = |fields: &str| {
        format!(
            "#include <flyball_module.h>\n\
             static const flyball_module m = {{ {fields} }};\n\
             const flyball_module *flyball_module_entry(uint32_t abi) {{ (void)abi; return &m; }}\n"
        )
    };
    let other = write("other", &table(".abi = 99, .size = sizeof m"));
    let short = write("short", &table(".abi = 1, .size = 8"));
    let silent = write("silent", &table(".abi = 1, .size = sizeof m"));
    let empty = write("empty", "int nothing;\n");
    std::fs::write(files.path().join("text.so"), "no library").unwrap();
    let hello = hello().to_owned();
    let cases = [
        (files.path().join("missing.so"), "", "No such file"),
        (files.path().join("text.so"), "", "is no shared object"),
        (empty, "", "no symbol flyball_module_entry"),
        (other, "", "version 99 of the ABI"),
        (short, "", "too short"),
        (silent, "", "no answer function"),
        (hello, "options = { other = \"x\" }\n", "its only option is a short greeting"),
    ];
    for (library, more, expected) in cases {
        let config = format!(
            "listen = \"127.0.0.1:0\"\n[[site]]\nroot = \"{}\"\n\
             [[site.module]]\npath = \"/m\"\nlibrary = \"{}\"\n{more}",
            files.path().display(),
            library.display()
        );
        let refused = Launch::config(config).start().expect_err("it is refused").to_string();
        assert!(refused.contains(expected), "{expected}: {refused}");
        assert!(refused.contains("site.module.library"), "{refused}");
        assert!(refused.contains(":6"), "the line of the key: {refused}");
    }
}

#[test]
fn the_example_starts_as_it_is_documented() {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("index.html"), PAGE).unwrap();
    let example = std::fs::read_to_string(source("examples/modules.toml")).unwrap();
    let example = example
        .replace("${MODULES_ROOT:-../demo/site}", files.path().to_str().unwrap())
        .replace("${HELLO:-modules/hello.so}", hello().to_str().unwrap())
        .replace(
            "${VISITS:-../target/release/libflyball_example_module.so}",
            visits().to_str().unwrap(),
        )
        .replace("${LISTEN:-127.0.0.1:8080}", "127.0.0.1:0")
        .replace("user = \"${MODULES_USER:-auto}\"\n", as_ourselves());
    let server = Launch::config(example).start().unwrap();
    let mut client = server.connect();
    assert_eq!(ask(&mut client, get("/hello?you")), ok("hello, you\n"));
    assert_eq!(ask(&mut client, get("/visits")), ok("visit 1\n"));
    assert_eq!(ask(&mut client, get("/slow")), ok("visit 1\n"));
    assert_eq!(ask(&mut client, get("/ping")), ok("pong"));
    assert_eq!(ask(&mut client, get("/ping/beneath")).0, 404);
}
