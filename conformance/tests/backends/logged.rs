//! What the access log tells of a program's answer: it is known when that has ended.

use std::fs;

use crate::common_programs::{on_every_architecture, on_every_architecture_over_tls};
use crate::dynamic::{answer, start_with};
use flyball_testkit::wait;

/// What a line must tell: path, status and end.
const TOLD: [[&str; 3]; 6] = [
    ["/page.txt", "200", "whole"],
    ["/run/flood", "200", "left"],
    ["/run/killed", "200", "failed"],
    ["/run/silent", "502", "whole"],
    ["/run/status", "409", "whole"],
    ["/run/sum", "200", "whole"],
];

fn a_line_of_a_program_says_how_its_answer_ended_and_what_it_took(architecture: &str) {
    let format = "log.format = \"$path $status $end $sent $backend_us $request_us\"\n";
    let Some(programs) = start_with(architecture, format, "") else { return };
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: example.org\r\n\r\n");
    let (mut client, mut sizes) = (programs.server.connect(), Vec::new());
    for path in ["/page.txt", "/run/silent", "/run/status", "/run/sum"] {
        client.send(get(path));
        sizes.push((path, answer(&mut client).text.len()));
    }
    let mut leaves = programs.server.connect();
    leaves.send(get("/run/flood"));
    assert_eq!(leaves.response_head().status(), 200);
    leaves.take(1000);
    leaves.reset();
    let mut killed = programs.server.connect();
    killed.send(get("/run/killed"));
    assert_eq!(killed.response_head().status(), 200);
    assert_eq!(killed.take(10), b"5\r\npart\n\r\n");
    fs::write(programs.files.path().join("go"), "").unwrap();
    assert_eq!(killed.rest_before_cut(), b"");
    sizes.push(("/run/killed", "part\n".len()));
    let log = programs.files.path().join("access.log");
    let written = || {
        let text = fs::read_to_string(&log).ok()?;
        (text.lines().count() == TOLD.len()).then_some(text)
    };
    let text = wait::until(wait::DEADLINE, written).expect("a line for each request");
    let mut lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    lines.sort();
    let told: Vec<&[&str]> = lines.iter().map(|words| &words[..3]).collect();
    assert_eq!(told, TOLD);
    for words in &lines {
        let number = |at: usize| words[at].parse::<u64>().ok();
        if let Some((_, size)) = sizes.iter().find(|(path, _)| *path == words[0]) {
            assert_eq!(number(3), Some(*size as u64), "{words:?}");
        } else {
            assert!(number(3) >= Some(900), "{words:?}");
        }
        let whole = number(5).expect("a time");
        match number(4) {
            Some(backend) => assert!(backend > 0 && backend <= whole, "{words:?}"),
            None => assert_eq!((words[0], words[4]), ("/page.txt", "-")),
        }
    }
}

on_every_architecture! {
    [a_line_of_a_program_says_how_its_answer_ended_and_what_it_took]
}

on_every_architecture_over_tls! {
    a_line_of_a_program_says_how_its_answer_ended_and_what_it_took,
}
