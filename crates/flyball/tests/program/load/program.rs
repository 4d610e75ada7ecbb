//! `flyball load` as a program: what it prints, its exit codes, and agents on other machines, which
//! are network namespaces here.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::common::generator::{load, report, server_of};
use flyball_testkit::wait::{DEADLINE, until};
use flyball_testkit::{Site, binary, skip};

#[test]
fn a_run_at_a_rate_has_as_many_requests_as_it_says() {
    let site = Site::new();
    let server = server_of(&site.root());
    let url = format!("http://{}/", server.address());
    let output = load(&["--rate", "50", "--duration", "1s", "--json", &url]);
    assert_eq!(output.status.code(), Some(0));
    let report = report(&output);
    assert_eq!((&report["intended"], &report["replies"]), (&50.into(), &50.into()), "{report}");
    assert_eq!(report["status"]["200"], 50);
    assert!((report["intended_per_s"].as_f64().unwrap() - 50.0).abs() < 0.01);
    // Replies that come after the second do not count here.
    let per_s = report["replies_per_s"].as_f64().unwrap();
    assert!(per_s > 0.0 && per_s < 53.0, "{report}");
    assert_eq!(report["goodput_per_s"], report["replies_per_s"], "{report}");
    for key in ["p50", "p90", "p99", "p999", "max"] {
        assert!(report["latency_us"][key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert!(report["client_limited"].is_boolean());
    assert_eq!(report["errors"]["refused"], 0);
    let by_second = report["replies_by_second"].as_array().expect("a list").iter();
    assert_eq!(by_second.filter_map(serde_json::Value::as_u64).sum::<u64>(), 50, "{report}");
}

#[test]
fn a_condition_that_holds_is_an_exit_code_of_its_own() {
    let site = Site::new();
    let server = server_of(&site.root());
    let url = format!("http://{}/no-such-file", server.address());
    let quick = ["--connections", "1", "--duration", "200ms", &url];
    let output = load(&[&["--fail-if", "goodput < 1"], &quick[..]].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("failed: goodput < 1: it is 0.0/s"), "{errors}");
    // On a busy machine the client may be the limit, which is told before anything else.
    assert!(matches!(output.status.code(), Some(3 | 4)), "{:?}", output.status);
    let unmet = ["--fail-if", "errors > 1000000", "--fail-if", "p99 > 10m"];
    let output = load(&[&unmet, &quick[..]].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 4)), "{errors}");
    assert!(!errors.contains("failed:"), "{errors}");
    let output = load(&quick);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn wrong_bodies_within_the_warm_up_fail_the_run() {
    let site = Site::new();
    fs::write(site.root().join("a.txt"), "as it is").unwrap();
    let server = server_of(&site.root());
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("a.txt"), "as it was").unwrap();
    let (other, url) = (other.path().display().to_string(), server.address());
    let url = format!("http://{url}/a.txt");
    // It ends long before its warm-up does.
    let few = ["--connections", "1", "--requests", "3", "--warmup", "20s", "--duration", "30s"];
    let output = load(&[&few[..], &["--json", "--verify-with", &other, &url]].concat());
    let found = report(&output);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.contains("3 wrong bodies, 0 torn ones, 0 short ones within the warm-up"));
    let counts = (&found["warmup_errors"]["wrong_body"], &found["error_count"]);
    assert_eq!(counts, (&3.into(), &0.into()), "{found}");
}

#[test]
fn what_cannot_be_run_says_what_to_do() {
    let told = |arguments: &[&str]| {
        let output = load(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), errors)
    };
    for (arguments, code, why) in [
        (&["http://nowhere.invalid/"][..], 1, "is not known"),
        (&["--rate", "fast", "http://127.0.0.1/"], 2, "ramp:100..1000/10s"),
        (&["--rate", "5", "--connections", "5", "http://127.0.0.1/"], 2, "cannot be used with"),
        (&["--fail-if", "p98 > 1s", "http://127.0.0.1/"], 2, "none of p50"),
        (&["--fail-if", "p99 > 50", "http://127.0.0.1/"], 2, "give 50 a unit, as in 50ms"),
        (&["--warmup", "20s", "http://127.0.0.1/"], 1, "shorter than the --duration"),
        // Descriptors or ports, whichever are fewer here.
        (&["--connections", "200000", "http://127.0.0.1/"], 1, "200000 connections need"),
        (&["--list", "/nonexistent", "http://127.0.0.1/"], 2, "--list /nonexistent: No such file"),
        (&["--log", "/nonexistent", "http://127.0.0.1/"], 2, "--log /nonexistent: No such file"),
        (&["--body", "/nonexistent", "http://127.0.0.1/"], 2, "--body /nonexistent: No such file"),
        (&["127.0.0.1:80"], 2, "not a URL of http"),
        (&["--insecure", "http://127.0.0.1/"], 2, "--insecure has no effect on http://127.0.0.1/"),
        (&["-d", "0s", "http://127.0.0.1/"], 2, "nothing would begin"),
        (
            &[
                "--rate=1",
                "--log=/dev/null",
                "--client-gap=9s",
                "--requests-per-connection=2",
                "http://127.0.0.1/",
            ],
            2,
            "--requests-per-connection has no effect on sessions of a log",
        ),
        (
            &["--mix=s4", "--surge", "--pipeline=2", "http://127.0.0.1/"],
            2,
            "--pipeline has no effect with --surge",
        ),
        (&["--http1.0=singles", "http://127.0.0.1/"], 2, "--mix, --fileset or --wsesslog"),
        (&["--csv", "/nonexistent/a", "http://127.0.0.1/"], 1, "/nonexistent/a: No such file"),
        (&["--find-peak", "--plot=/nonexistent/b", "http://127.0.0.1/"], 1, "/nonexistent/b: No"),
        (&["--tui", "http://127.0.0.1/"], 1, "--tui needs a terminal"),
        (&["--http1.0=some", "http://127.0.0.1/"], 2, "singles"),
        (&["--source", "192.0.2.1", "http://127.0.0.1/"], 1, "192.0.2.1 is no address of this"),
        (&["--verify", "http://127.0.0.1/"], 1, "as a --fileset or by --verify-with"),
        (&["--agents", "127.0.0.1:1", "http://127.0.0.1/"], 1, "agent 127.0.0.1:1"),
    ] {
        let (found, errors) = told(arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(why), "{arguments:?}: {errors}");
    }
}

#[test]
fn seconds_are_written_as_csv_and_as_a_log_that_others_read() {
    let site = Site::new();
    let server = server_of(&site.root());
    let directory = tempfile::tempdir().unwrap();
    let (csv, hdr) = (directory.path().join("a.csv"), directory.path().join("a.hdr"));
    let (csv, hdr) = (csv.display().to_string(), hdr.display().to_string());
    let url = format!("http://{}/", server.address());
    load(&["--rate", "40", "--duration", "1s", "--csv", &csv, "--hdr", &hdr, &url]);
    let text = fs::read_to_string(&csv).unwrap();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("second,sent,replies,good,errors,p50_us"));
    let sum: u64 = lines.map(|line| line.split(',').nth(2).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 40, "{text}");
    let log = fs::read_to_string(&hdr).unwrap();
    assert!(log.contains("#[StartTime: ") && log.contains(",HISTFAAA"), "{log}");
}

#[test]
fn the_knee_is_looked_for_and_drawn() {
    let site = Site::new();
    let server = server_of(&site.root());
    let directory = tempfile::tempdir().unwrap();
    let plot = directory.path().join("a.svg");
    let url = format!("http://{}/", server.address());
    let quick = ["--find-peak", "--duration", "60ms", "--timeout", "200ms"];
    let more = ["--quiet", "--json", "--plot", plot.to_str().unwrap(), &url];
    for by in [&["--rate", "8000"][..], &["-R", "8000", "-c", "4"]] {
        let output = load(&[&quick[..], by, &more].concat());
        let curve = report(&output);
        let points = curve["points"].as_array().unwrap();
        assert!(points.len() >= 6, "{curve}");
        assert!(curve["peak_per_s"].as_f64().unwrap() > 0.0);
        let drawn = fs::read_to_string(&plot).unwrap();
        assert_eq!(drawn.matches("<circle").count(), points.len());
    }
}

/// Network namespaces with a bridge between them; they vanish with the value.
struct Machines {
    names: Vec<String>,
}

impl Machines {
    /// `count` machines with addresses 10.99.N.1 up in one of their own each, all of them beside a
    /// first one that bridges them; `None` where that is not allowed.
    fn new(count: usize) -> Option<Machines> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let unique = (std::process::id(), MADE.fetch_add(1, Relaxed));
        let names = (0..=count).map(|n| format!("fb-load-{}-{}-{n}", unique.0, unique.1)).collect();
        let machines = Machines { names };
        for name in &machines.names {
            ip(&["netns", "add", name])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        let hub = &machines.names[0];
        ip(&["-n", hub, "link", "add", "bridge0", "type", "bridge"])?;
        ip(&["-n", hub, "addr", "add", "10.99.0.1/24", "dev", "bridge0"])?;
        ip(&["-n", hub, "link", "set", "bridge0", "up"])?;
        for (n, name) in machines.names.iter().enumerate().skip(1) {
            let port = format!("port{n}");
            ip(&[
                "-n", hub, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns",
                name,
            ])?;
            ip(&["-n", hub, "link", "set", &port, "master", "bridge0", "up"])?;
            let address = format!("10.99.0.{}/24", n + 1);
            ip(&["-n", name, "addr", "add", &address, "dev", "eth0"])?;
            ip(&["-n", name, "link", "set", "eth0", "up"])?;
        }
        Some(machines)
    }

    /// `flyball` with these arguments on machine `n`.
    fn flyball(&self, n: usize, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[n]]).arg(binary()).args(arguments);
        command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Starts it, and waits for a line that holds `text`.
    fn start(&self, n: usize, arguments: &[&str], text: &str) -> Running {
        let mut child = self.flyball(n, arguments).spawn().expect("it can be started");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let found = lines.by_ref().map_while(Result::ok).any(|line| line.contains(text));
        let running = Running(child);
        assert!(found, "{arguments:?} does not say {text:?}");
        std::thread::spawn(move || lines.for_each(drop));
        running
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&["netns", "del", name]);
        }
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ip(arguments: &[&str]) -> Option<()> {
    let output = Command::new("ip").args(arguments).output().ok()?;
    output.status.success().then_some(())
}

#[test]
fn a_machine_without_ports_says_so_before_the_run_or_after_it() {
    let Some(machines) = Machines::new(1) else {
        return skip("network namespaces, which take root and ip");
    };
    let range = "echo 40000 40003 > /proc/sys/net/ipv4/ip_local_port_range";
    ip(&["netns", "exec", &machines.names[1], "sh", "-c", range]).expect("it is ours");
    let site = Site::new();
    let root = site.root().display().to_string();
    let listen = ["serve", &root, "--listen", "127.0.0.1:8080"];
    let _server = machines.start(1, &listen, "Ctrl-C stops it");
    let load = |arguments: &[&str]| {
        let url = "http://127.0.0.1:8080/";
        machines.flyball(1, &[&["load", "--json"], arguments, &[url]].concat()).output().unwrap()
    };
    let one = ["--source", "127.0.0.1"];
    let output = load(&[&["--connections", "10"][..], &one].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("there are 4") && errors.contains("add --source"), "{errors}");
    let found = report(&load(&["--connections", "10", "--requests", "50"]));
    assert!(found["notes"].to_string().contains("from 127.0.0.1 to 127.0.0.5,"), "{found}");
    assert_eq!((&found["replies"], &found["errors"]["no_port"]), (&50.into(), &0.into()));

    let unasked = ["--rate", "100", "--duration", "500ms"];
    let rate = [&unasked[..], &one].concat();
    let output = load(&rate);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("50 connections are opened within 1 s"), "{errors}");
    // Where the server ends connections, ports may do, and the run says whether they did.
    let close = ["--header", "Connection: close"];
    let found = report(&load(&[&rate[..], &close].concat()));
    assert!(found["notes"].to_string().contains("there are 4 for each of 1"), "{found}");
    assert_eq!(load(&[&rate[..], &close, &["--strict"]].concat()).status.code(), Some(1));
    // Connections that stay open, which cannot be known before.
    let slow = ["--close", "reset", "--read-rate", "100", "--timeout", "1s"];
    let found = report(&load(&[&rate[..], &slow].concat()));
    assert!(found["errors"]["no_port"].as_u64().unwrap() > 20, "{found}");
    assert_eq!(found["client_limited"], true);
    let sources = ["--source", "127.0.0.2-127.0.0.40"];
    for asked in [&[&unasked[..], &sources].concat()[..], &unasked] {
        let found = report(&load(asked));
        assert_eq!((&found["errors"]["no_port"], &found["replies"]), (&0.into(), &50.into()));
    }
}

#[test]
fn a_run_without_an_answer_is_void_and_has_an_exit_code_of_its_own() {
    // It accepts and says nothing; and nothing listens at all.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let quick = ["--duration=100ms", "--timeout=100ms", "--json"];
    for load_of in [&["--rate=20"][..], &["-c", "2"], &["-R", "20", "-c", "2"], &["--find-peak"]] {
        let url = format!("http://{address}/");
        let output = load(&[load_of, &quick, &[&url]].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{load_of:?}: {errors}");
        assert!(errors.contains("no request was answered"), "{load_of:?}: {errors}");
    }
    drop(silent);
    let output = load(&[&["--rate=20"], &quick[..], &[&format!("http://{address}/")]].concat());
    assert_eq!(output.status.code(), Some(4));
    let found = report(&output);
    assert_eq!(found["void_because"][0], "no request was sent: 2 times refused", "{found}");
    assert_eq!(found["valid"], false);
}

#[test]
fn reports_are_compared_with_intervals() {
    let site = Site::new();
    let server = server_of(&site.root());
    let url = format!("http://{}/", server.address());
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let late = "--late-after=10s";
    let few = load(&["-R", "100", "-c", "2", "-d", "1s", late, "--json", &url]);
    let found = report(&few);
    assert!(found["machine"]["cores"].as_u64() > Some(0), "{found}");
    assert!(found["machine"]["kernel"].is_string() && found["version"].is_string(), "{found}");
    let histogram = found["latency_histogram_us"].as_array().unwrap();
    let counted: u64 = histogram.iter().filter_map(|pair| pair[1].as_u64()).sum();
    assert_eq!(counted, 100, "{found}");
    fs::write(file("a"), &few.stdout).unwrap();
    fs::write(file("b"), few.stdout.repeat(3)).unwrap();
    let output = load(&["compare", &file("a"), &file("b")]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    if found["client_limited"] == false {
        assert_eq!(output.status.code(), Some(0), "{told}");
    }
    assert!(told.contains("one run\n   intervals: 95 % within one run"), "{told}");
    assert!(told.contains("3 runs\n   intervals: 95 % of the mean"), "{told}");
    let compared = report(&load(&["compare", "--json", &file("a"), &file("b")]));
    assert_eq!(compared["figures"][3]["figure"], "p50", "{compared}");
    assert_eq!(compared["figures"][3]["apart"], false, "{compared}");
    assert_eq!(load(&["compare", &file("a"), "/nonexistent"]).status.code(), Some(1));
    assert_eq!(load(&["compare", &file("a")]).status.code(), Some(2));
}

#[test]
fn a_machine_knows_which_addresses_are_its_own_and_where_no_way_leads() {
    let Some(machines) = Machines::new(1) else {
        return skip("network namespaces, which take root and ip");
    };
    let site = Site::new();
    let root = site.root().display().to_string();
    let listen = ["serve", &root, "--listen", "10.99.0.2:8080"];
    let _server = machines.start(1, &listen, "Ctrl-C stops it");
    let load = |n: usize, url: &str| {
        let quick = ["load", "--json", "--rate", "20", "--duration", "100ms", url];
        report(&machines.flyball(n, &quick).output().unwrap())
    };
    let own = load(1, "http://10.99.0.2:8080/");
    assert_eq!((&own["replies"], &own["listen_drops"]), (&2.into(), &0.into()), "{own}");
    let other = load(0, "http://10.99.0.2:8080/");
    assert_eq!((&other["replies"], other["listen_drops"].is_null()), (&2.into(), true), "{other}");
    let nowhere = load(1, "http://192.0.2.1/");
    assert_eq!(nowhere["errors"]["unreachable"], 2, "{nowhere}");
}

#[test]
#[ignore = "full tier"]
fn agents_on_other_machines_share_the_load_and_a_lost_one_makes_the_run_void() {
    let Some(machines) = Machines::new(3) else {
        return skip("network namespaces, which take root and ip");
    };
    let site = Site::new();
    let root = site.root().display().to_string();
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("access.log");
    let listen = ["--listen", "10.99.0.2:8080", "--access-log", log.to_str().unwrap()];
    let _server = machines.start(1, &[&["serve", &root], &listen[..]].concat(), "Ctrl-C stops it");
    let agents = [2, 3].map(|n| {
        let address = format!("10.99.0.{}:7000", n + 1);
        machines.start(n, &["load", "--agent", &address], "waits for coordinators")
    });
    let (both, url) = ("10.99.0.3:7000,10.99.0.4:7000", "http://10.99.0.2:8080/");
    let run = ["load", "--agents", both, "--rate", "60", "--json", "--duration"];
    let output = machines.flyball(0, &[&run[..], &["1s", url]].concat()).output().unwrap();
    let merged = report(&output);
    assert_eq!((&merged["intended"], &merged["replies"]), (&60.into(), &60.into()), "{merged}");
    assert_eq!(merged["latency_us"]["count"], 60);
    assert_eq!(merged["error_count"], 0);

    // The first agent dies in the middle of a run.
    let mut coordinator = machines.flyball(0, &[&run[..], &["8s", url]].concat()).spawn().unwrap();
    let [first, _second] = agents;
    let answered = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    // Those of the first run, and as many of this one as say that both have begun.
    assert!(until(DEADLINE, || (answered() > 2 * 60).then_some(())).is_some(), "{}", answered());
    drop(first);
    let ended = until(DEADLINE, || coordinator.try_wait().unwrap());
    assert_eq!(ended.and_then(|status| status.code()), Some(4));
    let output = coordinator.wait_with_output().unwrap();
    let void = report(&output);
    assert_eq!(void["valid"], false);
    let why = void["void_because"].to_string();
    assert!(why.contains("agent 10.99.0.3:7000: it was lost"), "{why}");
    assert!(void["replies"].as_u64().unwrap() > 0, "what the other one counted is there");
}
