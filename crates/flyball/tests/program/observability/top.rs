//! `flyball top`: what it draws, what it prints, and that it lives through the end of a server.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::terminal::Terminal as Tty;
use crate::common::{Launch, Server, Site, get, has, signal, wait_for};
use flyball::top::{Look, Screen, draw};
use flyball_sys::net::Endpoint;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent};
use serde_json::{Value, json};

fn look(seconds: u64, requests: u64) -> Look {
    Look::read(&status(seconds, requests).to_string()).expect("a status")
}

/// `/status` of a server that has answered so many requests in so many seconds.
fn status(seconds: u64, requests: u64) -> Value {
    let worker = |at: u64, share: u64| {
        json!({
            "role": "worker", "process": 100 + at, "worker": at, "generation": 2,
            "requests": requests * share / 4, "accepted": 10, "connections": 3 * at + 1,
            "cpu_ms": 250 * seconds * share, "resident_bytes": 4 << 20, "descriptors": 12,
        })
    };
    let timing = |count: u64, sum: u64| {
        let buckets = json!({"1280": count, "2048": count / 50});
        json!({"count": count, "sum_ns": sum, "buckets": buckets})
    };
    json!({
        "arch": "n-copy", "workers": 2, "generation": 2, "uptime_ms": seconds * 1_000,
        "listeners": [{"address": "127.0.0.1:8080", "tls": false}],
        "counters": {
            "requests": requests, "responses_4xx": requests / 100, "accepted": seconds * 7,
            "bytes_sent": requests * 1_000, "path_cache_hits": requests * 9,
            "path_cache_misses": requests, "logins_failed": 5,
        },
        "connections": {"idle": 40, "asked": 2, "streaming": 0},
        "accept_queue": {"length": 1, "limit": 4096, "drops": seconds * 3, "head_age_ms": 12},
        "timings": {
            "request": timing(requests, requests * 1_000), "loop": timing(requests, 1),
            "getevents": timing(requests, seconds * 3_000),
            "work": timing(requests, seconds * 1_000),
        },
        "processes": [worker(0, 3), worker(1, 1), {"role": "master", "process": 1}],
    })
}

fn screen() -> Screen {
    let mut screen = Screen::new(&Endpoint::Unix(PathBuf::from("admin.sock")));
    screen.take(Ok(look(10, 1_000)));
    screen.take(Ok(look(12, 5_000)));
    screen
}

/// The lines of a terminal of this size.
fn drawn(screen: &Screen, columns: u16, lines: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).expect("a terminal");
    terminal.draw(|frame| draw(screen, frame)).expect("it is drawn");
    let cells = terminal.backend().buffer().content();
    let line = |cells: &[ratatui::buffer::Cell]| {
        cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_string()
    };
    cells.chunks(usize::from(columns)).map(line).collect()
}

#[test]
fn what_a_server_says_gives_a_terminal_no_orders() {
    let status = json!({
        "arch": "\u{202e}tm\u{1b}[2J",
        "listeners": [{"address": "\u{200b}a\nb\u{9b}", "tls": true}],
        "connections": {"idle\u{2066}": 7}, "counters": {}, "timings": {},
    });
    let mut screen = Screen::new(&Endpoint::Unix(PathBuf::from("admin.sock")));
    for _ in 0..2 {
        screen.take(Ok(Look::read(&status.to_string()).expect("a status")));
    }
    let lines = drawn(&screen, 120, 24);
    assert!(lines[0].contains(r"\u{202e}tm\u{1b}[2J, workers 0"), "{lines:?}");
    assert!(lines[0].ends_with(r"\u{200b}a\u{a}b\u{9b}"), "{lines:?}");
    assert!(lines.concat().contains(r"idle\u{2066} 7"), "{lines:?}");
}

/// `/status` of a server that speaks TLS, with so many handshakes behind it.
fn secure_look(seconds: u64, handshakes: u64) -> Look {
    let certificate = |name: &str, holds_s: i64, error: Option<&str>| {
        json!({
            "name": name, "names": [name, "www.a.test"], "issuer": "CN=an authority",
            "key": "ECDSA", "not_after": 1_800_000_000_u64, "holds_s": holds_s,
            "renews_at": null, "error": error,
        })
    };
    let status = json!({
        "uptime_ms": seconds * 1_000, "timings": {}, "connections": {},
        "listeners": [
            {"address": "[::]:80", "tls": false}, {"address": "[::]:443", "tls": true},
        ],
        "counters": {
            "tls_full": handshakes / 4, "tls_resumed": handshakes * 3 / 4,
            "tls_failed_late": handshakes / 100, "tls_failed_name": handshakes / 100,
        },
        "certificates": [
            certificate("a.test", 90 * 86_400, None),
            certificate("b.test", -3_600, Some("no answer\u{1b}[2J")),
            {"name": "c.test", "names": ["c.test"], "holds_s": null, "renews_at": 1_800_000_000},
        ],
    });
    Look::read(&status.to_string()).expect("a status")
}

#[test]
fn handshakes_and_certificates_are_shown_where_tls_is_spoken() {
    let mut screen = Screen::new(&Endpoint::Unix(PathBuf::from("admin.sock")));
    screen.take(Ok(secure_look(10, 400)));
    screen.take(Ok(secure_look(12, 1_200)));
    let lines = drawn(&screen, 100, 24);
    assert!(lines[0].ends_with("[::]:80 https://[::]:443"), "{lines:#?}");
    let first = lines.iter().position(|line| line.starts_with("handshake/s")).expect("handshakes");
    assert_eq!(lines[first], "handshake/s 400  resumed 75.0%  failed/s 8");
    assert!(
        lines[first + 1].starts_with("certificate 1 of 3 hold  c.test is still to come  b.test:")
    );
    assert!(lines[first + 2].starts_with("┌requests/s"), "{lines:#?}");
    press(&mut screen, KeyCode::Char('c'));
    let shown = drawn(&screen, 100, 24).concat();
    for text in [
        "ECDSA by CN=an authority, until Fri, 15 Jan 2027 08:00:00 GMT",
        "ends in 90 days",
        "ended 1 hour ago",
        r"failed last: no answer\u{1b}[2J",
        "is still to come, is renewed from Fri, 15 Jan 2027 08:00:00 GMT",
    ] {
        assert!(shown.contains(text), "{text}\n{shown}");
    }
    press(&mut screen, KeyCode::Esc);
    assert!(!screen.is_over() && !drawn(&screen, 100, 24).concat().contains("ends in 90 days"));
}

#[test]
fn what_sockets_do_not_tell_of_drops_is_told_of_their_namespace() {
    let mut screen = Screen::new(&Endpoint::Unix(PathBuf::from("admin.sock")));
    for seconds in [10, 12] {
        let mut status = status(seconds, 1_000);
        status["accept_queue"]["drops"] = Value::Null;
        status["kernel_drops"] = json!({"listen_drops": seconds * 5});
        screen.take(Look::read(&status.to_string()));
    }
    let shown = drawn(&screen, 80, 24).join("\n");
    assert!(shown.contains("drops/s 5"), "{shown}");
}

fn press(screen: &mut Screen, key: KeyCode) {
    screen.event(&Event::Key(KeyEvent::from(key)));
}

#[test]
fn everything_is_shown_in_eighty_columns_and_twenty_four_lines() {
    let lines = drawn(&screen(), 80, 24);
    let expected = [
        "flyball top  live  n-copy, workers 2, generation 2, up 12 s  127.0.0.1:8080",
        "",
        "requests/s  2000  4xx and 5xx 20",
        "traffic/s   sent 1.9 MiB  received 0 B",
        "request     p50 1.3 us  p90 1.3 us  p99 2.0 us  p99.9 2.0 us",
        "p99 of      first-byte -  loop 2.0 us  disk-wait -",
        "phases      getevents 75.0%  work 25.0%",
        "connections 42  idle 40  asked 2",
        "accepts/s   7  queue 1 of 4096  head 12 ms  drops/s 3",
        "cache hits  path 90.0%  head -  content -  descriptor -",
        "refused     turned away 0  throttled 0  crowded 0  wrong logins 5  denied 0",
        "short of    descriptors 0 times  log lines 0",
        "workers; busiest to mean 1.50",
        "worker  gen  requests/s  accepts/s    open      cpu     memory    fds",
        "     0    2        1500          0       1    75.0%    4.0 MiB     12",
        "     1    2         500          0       4    25.0%    4.0 MiB     12",
    ];
    // What is left is the history, between the figures and the workers.
    let workers = lines.iter().position(|line| line.starts_with("workers")).expect("it is there");
    let shown = [&lines[..12], &lines[workers..23]].concat();
    assert_eq!(shown, expected);
    assert_eq!(lines[23], "q quit  p pause  s sort: number  h help");
}

#[test]
fn the_history_ends_with_what_is_newest_and_says_how_high_it_is() {
    let mut screen = screen();
    for second in 13..200 {
        screen.take(Ok(look(second, 5_000 + (second - 12) * 100)));
    }
    screen.take(Ok(look(200, 5_000 + 187 * 100 + 3_000)));
    let lines = drawn(&screen, 80, 24);
    let top = lines.iter().position(|line| line.starts_with("┌requests/s, at most 3000─"));
    let top = top.unwrap_or_else(|| panic!("{lines:#?}"));
    // All lines that two workers leave.
    assert!(lines[22].starts_with("     1    2"), "{lines:#?}");
    assert!(lines[top + 1].ends_with(" █│"), "{lines:#?}");
    assert_eq!(lines[18].chars().next(), Some('└'), "{lines:#?}");
}

#[test]
fn any_size_of_a_terminal_is_drawn() {
    let mut screen = screen();
    for help in [false, true] {
        for (columns, lines) in [(1, 1), (3, 2), (20, 5), (79, 23), (80, 30), (300, 100)] {
            assert_eq!(drawn(&screen, columns, lines).len(), usize::from(lines), "{help}");
        }
        press(&mut screen, KeyCode::Char('h'));
    }
    let tall = drawn(&screen, 80, 40);
    assert!(tall.iter().any(|line| line.contains("requests/s, at most")), "{tall:#?}");
}

#[test]
fn keys_order_scroll_hold_and_end() {
    let mut screen = screen();
    let first_worker = |screen: &Screen| {
        let lines = drawn(screen, 80, 24);
        let heads = lines.iter().position(|line| line.starts_with("worker  gen")).expect("heads");
        lines[heads + 1].clone()
    };
    press(&mut screen, KeyCode::Char('s'));
    assert!(first_worker(&screen).trim_start().starts_with("0 "), "by requests");
    press(&mut screen, KeyCode::Char('s'));
    assert!(first_worker(&screen).trim_start().starts_with("1 "), "by connections");
    assert!(drawn(&screen, 80, 24)[23].contains("sort: connections"));
    for _ in 0..9 {
        press(&mut screen, KeyCode::Down);
    }
    assert!(first_worker(&screen).trim_start().starts_with("0 "), "the last one stays");
    press(&mut screen, KeyCode::Char('p'));
    screen.take(Ok(look(14, 99_000)));
    let held = drawn(&screen, 80, 24);
    assert!(held[0].contains("paused") && held[2].contains("2000"), "{held:#?}");
    press(&mut screen, KeyCode::Char('?'));
    assert!(drawn(&screen, 80, 24).iter().any(|line| line.contains("order workers")));
    press(&mut screen, KeyCode::Esc);
    assert!(!screen.is_over());
    press(&mut screen, KeyCode::Char('q'));
    assert!(screen.is_over());
}

#[test]
fn a_server_that_has_gone_is_told_and_one_that_comes_is_not_compared_with_it() {
    let mut screen = screen();
    screen.take(Err("no server listens on unix:admin.sock".into()));
    let lost = drawn(&screen, 80, 24);
    assert!(lost[0].contains("LOST: no server listens"), "{}", lost[0]);
    // What was seen last stays.
    assert!(lost[2].contains("2000"), "{}", lost[2]);
    screen.take(Ok(look(1, 10)));
    assert!(drawn(&screen, 80, 24)[0].contains("live"));
    screen.take(Ok(look(2, 110)));
    assert!(drawn(&screen, 80, 24)[2].contains("requests/s  100"));
    assert!(Look::read("{}").is_err() && Look::read("<html>").is_err());
}

fn top(admin: &str, more: &[&str]) -> Output {
    let flyball = env!("CARGO_BIN_EXE_flyball");
    let arguments = ["top", "--admin", admin, "--every", "0.2"];
    Command::new(flyball).args(arguments).args(more).output().expect("it runs")
}

fn serve(site: &Site, socket: &Path) -> Server {
    let admin = format!("unix:{}", crate::common::text(socket));
    Launch::new(site, "n-copy").args(&["--workers", "2", "--admin", &admin]).start()
}

/// One look as JSON, unless no request was served meanwhile.
fn busy_look(admin: &str) -> Option<Value> {
    let told = top(admin, &["--once", "--json"]);
    assert!(told.status.success(), "{told:?}");
    let told: Value = serde_json::from_slice(&told.stdout).expect("a line of JSON");
    (told["requests"].as_f64()? > 0.0).then_some(told)
}

#[test]
fn one_look_is_printed_as_text_and_as_json() {
    let site = Site::with(&[("small.txt", b"small")]);
    let server = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]).start();
    let admin = format!("127.0.0.1:{}", server.admin.expect("an admin address"));
    let told = std::thread::scope(|scope| {
        let told = scope.spawn(|| wait_for("a look that saw a request", || busy_look(&admin)));
        let mut client = server.connect();
        while !told.is_finished() {
            assert_eq!(client.ask(get("/small.txt")).status(), 200);
        }
        told.join().expect("no panic")
    });
    let p50 = told["request_ns"]["p50"].as_u64();
    assert!(p50.is_some() && p50 <= told["request_ns"]["p99"].as_u64(), "{told:#}");
    let shares = told["phases"].as_object().expect("phases").values().filter_map(Value::as_f64);
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-6, "{told:#}");
    assert_eq!(told["workers"].as_array().map(Vec::len), Some(1), "{told:#}");
    assert_eq!(told["workers"][0]["connections"], 1, "{told:#}");
    let text = String::from_utf8(top(&admin, &["--once"]).stdout).expect("text");
    assert!(text.starts_with("flyball top  live  sped, workers 1"), "{text}");
    assert!(text.contains("\nrequests/s  ") && text.contains("\nworker  gen"), "{text}");
    assert!(text.bytes().all(|byte| byte == b'\n' || !byte.is_ascii_control()), "{text}");
}

#[test]
fn what_cannot_be_shown_is_said() {
    let unserved = top("unix:/nowhere/admin.sock", &["--once"]);
    assert_eq!(unserved.status.code(), Some(1));
    let said = String::from_utf8_lossy(&unserved.stderr);
    assert_eq!(said, "flyball: no server listens on unix:/nowhere/admin.sock\n");
    let blind = top("127.0.0.1:1", &[]);
    assert_eq!(blind.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&blind.stderr).contains("no terminal"), "{blind:?}");
    for wrong in [["--admin", "nonsense"], ["--every", "0"]] {
        let flyball = env!("CARGO_BIN_EXE_flyball");
        let mut command = Command::new(flyball);
        command.arg("top").args(wrong);
        if wrong[0] == "--every" {
            command.args(["--admin", "127.0.0.1:1"]);
        }
        assert_eq!(command.output().expect("it runs").status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn in_a_terminal_it_hears_keys_sees_a_new_size_and_finds_a_server_again() {
    if !has("script") {
        return;
    }
    let site = Site::with(&[("small.txt", b"small")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = crate::common::within(&directory, "admin.sock");
    let mut server = serve(&site, &socket);
    let within = crate::common::text(&socket);
    let mut tty = Tty::run(&format!("top --admin unix:{within} --every 0.1"));
    tty.wait_for_on_screen("live  n-copy, workers 2, generation 1");
    tty.wait_for_on_screen("busiest to mean");
    tty.press("s");
    tty.wait_for_on_screen("sort: requests");
    tty.press("h");
    tty.wait_for_on_screen("order workers by another column");
    tty.press("h");
    signal(server.master(), "TERM");
    server.ended();
    tty.wait_for_on_screen("LOST: no server listens");
    let _again = serve(&site, &socket);
    tty.wait_for_on_screen("live  n-copy");
    // Larger: the keys stand in the last line.
    let program = crate::common::children(tty.id())[0];
    let terminal = std::fs::read_link(format!("/proc/{program}/fd/0")).expect("its terminal");
    let mut resize = Command::new("stty");
    resize.arg("-F").arg(terminal).args(["rows", "40", "cols", "100"]);
    assert!(resize.status().expect("stty runs").success());
    tty.wait_for_on_screen(&"─".repeat(90));
    tty.press("q");
    assert!(tty.ended().success());
    wait_for("the screen of before, and its cursor", || {
        let written = tty.written();
        (written.contains("\x1b[?1049l") && written.contains("\x1b[?25h")).then_some(())
    });
}
