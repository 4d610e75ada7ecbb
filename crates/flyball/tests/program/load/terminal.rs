//! `flyball load` while it runs: what stands on a terminal, and what ends it early.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::common::generator::server_of;
use crate::common::terminal::Terminal;
use crate::common::{children, has, is_running, signal, wait_for};
use flyball_testkit::wait::DEADLINE;
use flyball_testkit::{Server, Site, binary};
use serde_json::Value;

/// `flyball load` that runs, and the lines that it says.
struct Loading {
    child: Child,
    said: Receiver<String>,
}

impl Loading {
    fn start(arguments: &[&str]) -> Loading {
        let mut command = Command::new(binary());
        command.arg("load").args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be started");
        let (tell, said) = channel();
        let lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).try_for_each(|line| tell.send(line))
        });
        Loading { child, said }
    }

    #[track_caller]
    fn wait_for(&self, text: &str) {
        while !self.said.recv_timeout(DEADLINE).expect("it says so").contains(text) {}
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An agent, and where it is.
fn agent() -> (Loading, String) {
    let mut agent = Loading::start(&["--agent", "127.0.0.1:0"]);
    let mut line = String::new();
    let out = agent.child.stdout.as_mut().expect("it is piped");
    BufReader::new(out).read_line(&mut line).expect("it says where it is");
    let address = line.trim().rsplit(' ').next().expect("an address").to_owned();
    (agent, address)
}

#[test]
#[ignore = "full tier"]
fn a_run_of_agents_has_its_line_on_a_terminal() {
    if !has("script") {
        return;
    }
    let site = Site::new();
    let server = server_of(&site.root());
    let ((_one, first), (_other, second)) = (agent(), agent());
    let url = format!("http://{}/", server.address());
    let run = format!(
        "load --agents {first},{second} --connections 2 --duration 5s --warmup 100ms {url}"
    );
    let mut terminal = Terminal::run(&run);
    // Written over and over, with what both have told.
    terminal.wait_for("\r\x1b[K");
    terminal.wait_for("/5 s  ");
    terminal.wait_for(" replies/s  2 open  0 errors");
    assert!(terminal.ended().success());
    terminal.wait_for("goodput");
}

#[test]
fn agents_end_with_their_coordinator_and_say_what_they_have_counted() {
    let site = Site::new();
    let server = server_of(&site.root());
    let (agent, address) = agent();
    let url = format!("http://{}/", server.address());
    let long = ["--rate", "50", "--duration", "60s", "--json", "--agents", &address, &url];
    let coordinator = Loading::start(&long);
    agent.wait_for("coordinates");
    signal(coordinator.child.id(), "INT");
    agent.wait_for("is done");
    let mut coordinator = coordinator;
    wait_for("its end", || coordinator.child.try_wait().expect("a child of ours"));
    let out = coordinator.child.stdout.take().expect("it is piped");
    let found: Value = serde_json::from_reader(out).expect("a report");
    assert_eq!(found["intended"], found["replies"], "{found}");
    assert!(found["window_s"].as_f64().expect("a number") < 30.0, "{found}");
    assert!(!found["void_because"].to_string().contains("lost"), "{found}");
}

#[test]
fn a_search_that_is_interrupted_shows_the_curve_that_it_has() {
    let site = Site::new();
    let server = server_of(&site.root());
    let url = format!("http://{}/", server.address());
    let search = Loading::start(&["--find-peak", "--rate", "50", "--duration", "500ms", &url]);
    search.wait_for("offered 50.0/s: ");
    signal(search.child.id(), "INT");
    search.wait_for("flyball: it was interrupted");
    let mut search = search;
    let status = wait_for("its end", || search.child.try_wait().expect("a child of ours"));
    assert_eq!(status.code(), Some(1));
    let mut out = String::new();
    search.child.stdout.take().expect("it is piped").read_to_string(&mut out).expect("text");
    for part in ["offered/s     replies/s     goodput/s       p99  no reply\n", "         50.0"] {
        assert!(out.contains(part), "{out}");
    }
    assert!(out.contains("area under the curve: ") && out.contains("STOPPED: it was"), "{out}");
}

/// A run that is not awaited, the server that it loads, and the site of that.
fn a_minute_on_a_screen() -> (Terminal, Server, Site) {
    let site = Site::new();
    let server = server_of(&site.root());
    let url = format!("http://{}/", server.address());
    let terminal = Terminal::run(&format!("load --tui --connections 2 --duration 60s {url}"));
    (terminal, server, site)
}

#[test]
fn a_run_has_a_screen_of_its_own_and_q_ends_it() {
    if !has("script") {
        return;
    }
    let (mut terminal, _server, _site) = a_minute_on_a_screen();
    // Blanks are not written, where the screen is blank already.
    terminal.wait_for("reports");
    terminal.wait_for("second:");
    terminal.press("q");
    assert!(terminal.ended().success());
    // The screen of before is there again, with the report on it.
    terminal.wait_for("\x1b[?1049l");
    terminal.wait_for("goodput");
}

#[test]
fn a_run_whose_terminal_is_taken_away_ends() {
    if !has("script") {
        return;
    }
    let (mut terminal, _server, _site) = a_minute_on_a_screen();
    terminal.wait_for("second:");
    let [run] = children(terminal.id())[..] else { panic!("script runs one program") };
    terminal.take_away();
    wait_for("the end of the run", || (!is_running(run)).then_some(()));
}
