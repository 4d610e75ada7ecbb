//! The dynamic requests of SPECweb99 against a server that keeps their rules, or breaks one.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use crate::common::{options, request, run, server};
use flyball_load::fileset::{FileContent, Kind, Manifest, Parameters};
use flyball_load::job::{Asking, Job, Load, Options};
use flyball_load::observe::{Kind as Failure, Report, json};

const SCRIPT: &str = "/specweb99-dynamic";
const ONE: Parameters = Parameters { directories: 1, size: 0, mib: 0, seed: 1 };

/// A server of one set, whose ads match no user, and which has `posts` in its log.
struct Benchmark {
    posts: AtomicU64,
    /// What a page ends with.
    tail: &'static str,
    /// How many posts are forgotten.
    lost: u64,
}

impl Benchmark {
    fn answers(&self, mut stream: TcpStream) {
        while let Some(head) = request(&mut stream) {
            let line = head.lines().next().unwrap_or_default();
            let mut words = line.split(' ');
            let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or(""));
            let mut cookie = "";
            let body = match target.strip_prefix(SCRIPT) {
                None if target == "/User.Personality" => format!("{:5} {:8X}\n", 0, 1),
                None => {
                    (0..360).map(|ad| format!("{ad:5} {0:8X} {0:8X} 999 {0:10}\n", 0)).collect()
                }
                Some(rest) if rest.contains("command/Reset") => "reset".into(),
                Some(rest) if rest.contains("command/Fetch") => self.log(),
                Some(_) if method == "POST" => {
                    let length = head.split("Content-Length: ").nth(1).expect("it has one");
                    let length = length.lines().next().expect("a line").parse().expect("a number");
                    let mut posted = vec![0; length];
                    stream.read_exact(&mut posted).expect("it is sent");
                    let posted = String::from_utf8(posted).expect("text");
                    let value = |key: &str| {
                        let (_, rest) = posted.split_once(key).expect("it is there");
                        rest.split('&').next().expect("a value").to_owned()
                    };
                    let directory: u32 = value("dir=").parse().expect("a number");
                    let (class, number) = (value("class="), value("num="));
                    self.posts.fetch_add(1, SeqCst);
                    cookie = "Set-Cookie: my_cookie=10000\r\n";
                    self.page("", &format!("file_set/dir{directory:05}/class{class}_{number}"))
                }
                Some(rest) => {
                    if head.contains("\r\nCookie: ") {
                        cookie = "Set-Cookie: found_cookie=Ad_id=-1&Ad_weight=0&Expired=1\r\n";
                    }
                    let query = rest.trim_start_matches('?');
                    self.page(query, query.trim_start_matches('/'))
                }
            };
            let len = body.len();
            let head = format!("HTTP/1.1 200 OK\r\n{cookie}Content-Length: {len}\r\n\r\n");
            if stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).is_err() {
                return;
            }
        }
    }

    fn page(&self, query: &str, name: &str) -> String {
        let files = Manifest { kind: Kind::SpecWeb99, parameters: ONE }.files().expect("a set");
        let size = files.iter().find(|file| file.name == name).expect("a file").size;
        let mut file = vec![0; size as usize];
        FileContent::new(name, size, 1).fill(0, &mut file);
        let file = String::from_utf8(file).expect("text");
        format!(
            "<html>\n<head><title>SPECweb99 Dynamic GET & POST Test</title></head>\n<body>\n\
             <p>SERVER_SOFTWARE = t\n<p>REMOTE_ADDR = 127.0.0.1\n<p>SCRIPT_NAME = {SCRIPT}\n\
             <p>QUERY_STRING = {query}\n<pre>\n{file}{}",
            self.tail
        )
    }

    fn log(&self) -> String {
        let posts = self.posts.load(SeqCst).saturating_sub(self.lost);
        let record = |nth: u64| {
            format!(
                "{nth:10} {0:10} {0:10} {0:5} {0:2} {0:2} {0:10} {1:<60} {0:10} {0:10}\n",
                1, "/file_set/dir00000/class0_0"
            )
        };
        format!("{posts:10}\n") + &(1..=posts).map(record).collect::<String>()
    }
}

fn loaded(tail: &'static str, lost: u64) -> Report {
    let benchmark = Arc::new(Benchmark { posts: AtomicU64::new(0), tail, lost });
    let address = server(move |_, stream| benchmark.answers(stream));
    let mut options: Options = options(address, Load::Connections(2), 60_000);
    options.requests = Some(60);
    options.asking = Asking::Mix(Manifest { kind: Kind::SpecWeb99, parameters: ONE });
    options.dynamic = Some("100:1/0/1/1".parse().expect("shares"));
    run(&options)
}

#[test]
fn a_server_that_keeps_the_rules_of_specweb99_has_no_wrong_replies() {
    let report = loaded("\n</pre></body></html>\n", 0);
    let tally = &report.tally;
    assert!(tally.replies > 30, "{:?}", tally.errors);
    assert_eq!(tally.error_count(), 0, "{:?} {:?}", tally.errors, tally.broken_rules);
    let log = report.post_log.clone().expect("it is looked at");
    assert_eq!(log.wrong, Vec::<String>::new());
    assert!(tally.posts > 5 && log.records >= tally.posts, "{} {}", tally.posts, log.records);
    let value = json(&report);
    assert_eq!(value["dynamic"]["posts"], tally.posts);
    let words = value["workload"].to_string();
    assert!(words.contains("100.0 % dynamic: 33.3 % GET, 0.0 % CGI, 33.3 % with ads"), "{words}");
}

#[test]
fn wrong_replies_are_counted_apart_by_the_rule_that_they_break() {
    let report = loaded("</body></html>", 0);
    let tally = &report.tally;
    assert!(tally.replies > 30, "{:?}", tally.errors);
    assert_eq!(tally.errors_of(Failure::WrongDynamic), tally.replies);
    assert_eq!((tally.good_in_window, tally.errors_of(Failure::WrongBody)), (0, 0));
    let value = json(&report);
    assert_eq!(value["dynamic"]["broken_rules"]["tail"], tally.replies);
}

#[test]
fn posts_that_are_missing_in_the_log_are_told() {
    let report = loaded("</pre></body></html>", 1);
    assert_eq!(report.tally.error_count(), 0);
    let wrong = report.post_log.expect("it is looked at").wrong.join("; ");
    assert!(wrong.contains("posts were answered, and "), "{wrong}");
}

#[test]
fn without_the_script_there_is_no_run() {
    let address = server(|_, stream| {
        crate::common::answer_all(stream, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    });
    let mut options = options(address, Load::Connections(1), 100);
    options.asking = Asking::Mix(Manifest { kind: Kind::SpecWeb99, parameters: ONE });
    options.dynamic = Some("30".parse().expect("a share"));
    let why = Job::prepare(&options).unwrap_err();
    assert!(why.contains("status 404") && why.contains("--dynamic-script"), "{why}");
    options.asking = Asking::Mix(Manifest { kind: Kind::WebStone, parameters: ONE });
    assert!(Job::prepare(&options).unwrap_err().contains("is of specweb99"));
}
