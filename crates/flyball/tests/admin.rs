//! `--admin`: what `/status` and `/metrics` tell, and who tells it.
#![forbid(unsafe_code)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use common::{Launch, Server, Site, get, last_get, proc_status, wait_for};
use flyball_testkit::{responses, skip, wait};
use serde_json::Value;

/// The user that the admin process becomes when it was started by the superuser.
const NOBODY: &str = "65534";

const KEPT: u64 = 3;

fn site() -> Site {
    Site::with(&[("small.txt", &[b'x'; 1024])])
}

/// A server that has answered 7 requests on 5 connections, of which 3 are kept.
struct Used {
    server: Server,
    _kept: Vec<flyball_testkit::Client>,
}

impl Used {
    fn start(site: &Site, arch: &str) -> Used {
        let launch = Launch::new(site, arch).args(&["--workers", "1", "--admin", "127.0.0.1:0"]);
        let server = launch.set("cache.revalidate=1h").start();
        let mut kept: Vec<_> = (0..KEPT).map(|_| server.connect()).collect();
        assert_eq!(kept[0].ask(get("/small.txt")).status(), 200);
        assert_eq!(kept[0].ask(get("/small.txt")).status(), 200);
        assert_eq!(kept[1].ask(get("/absent")).status(), 404);
        assert_eq!(kept[2].ask(get("/small.txt")).status(), 200);
        let unchanged = "GET /small.txt HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\n\r\n";
        assert_eq!(kept[2].ask(unchanged).status(), 304);
        let mut last = server.connect();
        assert_eq!(last.ask(last_get("/small.txt")).status(), 200);
        last.expect_closed();
        let mut refused = server.connect();
        assert_eq!(refused.ask("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").status(), 400);
        refused.half_close();
        refused.expect_closed();
        Used { server, _kept: kept }
    }

    /// `/status` once everything that happened is in it.
    fn settled(&self) -> Value {
        wait_for("the counters of all that happened", || {
            let status = self.server.status();
            let closed = status["closed"].as_object()?.values().filter_map(Value::as_u64);
            let open = status["connections"]["idle"].as_u64()?;
            (closed.sum::<u64>() == 2 && open == KEPT).then_some(status)
        })
    }
}

#[test]
fn status_counts_what_happened() {
    let site = site();
    for arch in ["sped", "n-copy", "amped", "knot-c", "knot-a", "tux"] {
        if flyball_arch::find(arch).is_none_or(|arch| arch.probe().is_err()) {
            flyball_testkit::skip(&format!("{arch} cannot run here"));
            continue;
        }
        let used = Used::start(&site, arch);
        let status = used.settled();
        let listen = format!("127.0.0.1:{}", used.server.port);
        assert_eq!(status["architecture"], arch);
        assert_eq!(status["workers"], 1);
        assert_eq!(status["listen"], serde_json::json!([listen]));
        let counters = &status["counters"];
        for (name, expected) in [
            ("accepted", 5),
            ("requests", 7),
            ("responses_2xx", 4),
            ("responses_3xx", 1),
            ("responses_4xx", 2),
            ("responses_5xx", 0),
            ("path_cache_misses", 2),
            ("path_cache_hits", 4),
            ("cache_evictions", 0),
            ("out_of_descriptors", 0),
        ] {
            assert_eq!(counters[name], expected, "{arch}, {name}: {status:#}");
        }
        let number = |name: &str| counters[name].as_u64().unwrap_or_else(|| panic!("no {name}"));
        assert!(number("bytes_sent") > 4 * 1024, "{arch}: {status:#}");
        assert!(number("bytes_received") > 7 * 30, "{arch}: {status:#}");
        for cache in ["head", "content"] {
            let counted = ["hits", "misses", "evictions", "revalidations"]
                .map(|what| number(&format!("{cache}_cache_{what}")));
            assert_eq!(counted, [4, 1, 0, 0], "{arch}, {cache}: {status:#}");
        }
        for phase in ["getevents", "accept", "work"] {
            assert!(number(&format!("{phase}_ns")) > 0, "{arch}, {phase}: {status:#}");
        }
        assert!(number("work_phases") <= number("worked_on"), "{arch}: {status:#}");
        // Work phases follow waits for events, but for one who asks for none while there is work.
        let waits = number("getevents_calls") >= number("work_phases");
        assert!(waits || arch == "tux", "{arch}: {status:#}");
        assert_eq!(status["closed"]["requested"], 1, "{arch}: {status:#}");
        assert_eq!(status["closed"]["refused"], 1, "{arch}: {status:#}");
        check_equation_1(&status);
    }
}

/// The accept rate is the accept phases times what each accepted on average, over time.
#[track_caller]
fn check_equation_1(status: &Value) {
    let equation = &status["equation_1"];
    let value = |name: &str| equation[name].as_f64().unwrap_or_else(|| panic!("no {name}"));
    let accepted = status["counters"]["accepted"].as_f64().expect("a number");
    let phases = status["counters"]["accept_phases"].as_f64().expect("a number");
    let seconds = status["uptime_ms"].as_f64().expect("a number") / 1000.0;
    assert!(phases > 0.0 && seconds > 0.0, "{status:#}");
    assert_eq!(value("accept_phases"), phases);
    let product = value("accept_phases") * value("accepted_per_phase");
    assert!((product - accepted).abs() < 1e-6, "{product} is not {accepted}");
    let rate = product / seconds;
    assert!((value("accepts_per_second") - rate).abs() < 1e-6, "{rate}: {equation}");
}

#[test]
fn connections_are_shown_by_state_and_none_is_shown_when_all_have_gone() {
    let site = site();
    let Used { server, _kept: kept } = Used::start(&site, "sped");
    let mut waiting = server.connect();
    waiting.send("GET /small");
    wait_for("a head under way beside the idle connections", || {
        let connections = server.status()["connections"].clone();
        (connections["idle"] == KEPT && connections["reading-head"] == 1).then_some(())
    });
    drop((kept, waiting));
    wait_for("no connection", || {
        let status = server.status();
        let states = status["connections"].as_object()?;
        states.values().all(|count| *count == 0).then_some(())
    });
    let status = server.status();
    assert_eq!(status["closed"]["client-done"], KEPT, "{status:#}");
    assert_eq!(status["closed"]["client-gone"], 1, "{status:#}");
}

/// A sample of the text format: its name, its labels and its value.
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: u64,
}

/// The text format of Prometheus, version 0.0.4, more strictly than it is defined: each family has
/// HELP and then TYPE before its samples, and they stay together. Samples by family.
fn parse_metrics(text: &str) -> BTreeMap<String, (String, Vec<Sample>)> {
    assert!(text.ends_with('\n'), "the last line ends");
    let mut families: BTreeMap<String, (String, Vec<Sample>)> = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let help = line.strip_prefix("# HELP ").unwrap_or_else(|| panic!("no HELP: {line:?}"));
        let (name, help) = help.split_once(' ').expect("a name and a sentence");
        assert!(is_name(name), "{name:?}");
        assert!(help.ends_with('.') && !help.contains('\\'), "{help:?}");
        let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE "));
        let kind = kind.and_then(|kind| kind.strip_prefix(name)).expect("TYPE of the same name");
        let kind = kind.trim_start().to_string();
        assert!(kind == "counter" || kind == "gauge", "{kind:?}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        let mut samples = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let sample = parse_sample(line);
            assert_eq!(sample.name, name, "a sample apart from its family: {line:?}");
            samples.push(sample);
        }
        let labels: BTreeSet<_> = samples.iter().map(|sample| sample.labels.clone()).collect();
        assert_eq!(labels.len(), samples.len(), "{name}: two samples with the same labels");
        assert!(!samples.is_empty(), "{name} has no sample");
        let twice = families.insert(name.to_string(), (kind, samples));
        assert!(twice.is_none(), "{name} comes twice");
    }
    families
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `name 1` or `name{label="value",...} 1`.
fn parse_sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line:?}"));
    let value = value.parse().unwrap_or_else(|_| panic!("not a count: {line:?}"));
    let (name, labels) = match series.split_once('{') {
        None => (series, ""),
        Some((name, rest)) => (name, rest.strip_suffix('}').expect("the labels end")),
    };
    assert!(is_name(name), "{name:?}");
    let label = |text: &str| {
        let (label, value) = text.split_once('=').unwrap_or_else(|| panic!("{text:?}"));
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let value = value.filter(|value| !value.contains(['"', '\\'])).expect("a quoted value");
        assert!(is_name(label), "{label:?}");
        (label.to_string(), value.to_string())
    };
    let labels = labels.split(',').filter(|label| !label.is_empty()).map(label).collect();
    Sample { name: name.to_string(), labels, value }
}

#[test]
fn metrics_are_prometheus_text_and_tell_the_same_as_status() {
    let site = site();
    let used = Used::start(&site, "sped");
    let status = used.settled();
    let response = used.server.connect_admin().ask("GET /metrics HTTP/1.1\r\nHost: admin\r\n\r\n");
    assert_eq!(response.expect("Content-Type"), "text/plain; version=0.0.4");
    let families = parse_metrics(response.text());
    let single = |name: &str| match families.get(name).map(|(_, samples)| samples.as_slice()) {
        Some([sample]) if sample.labels.is_empty() => sample.value,
        _ => panic!("no single sample of {name}"),
    };
    // Whatever does not grow by itself is the same in both.
    for name in ["accepted", "requests", "bytes_sent", "path_cache_hits", "content_cache_hits"] {
        let value = single(&format!("flyball_{name}_total"));
        assert_eq!(status["counters"][name], value, "{name}");
    }
    let labelled = |family: &str, label: &str| -> BTreeMap<String, u64> {
        let (_, samples) = families.get(family).unwrap_or_else(|| panic!("no {family}"));
        let by_label = |sample: &Sample| match sample.labels.iter().next() {
            Some((name, value)) if name == label => (value.clone(), sample.value),
            _ => panic!("{family} has another label than {label}"),
        };
        samples.iter().map(by_label).collect()
    };
    let of_status = |key: &str| -> BTreeMap<String, u64> {
        let object = status[key].as_object().unwrap_or_else(|| panic!("no {key}"));
        object.iter().map(|(name, n)| (name.clone(), n.as_u64().expect("a count"))).collect()
    };
    assert_eq!(labelled("flyball_closed_total", "reason"), of_status("closed"));
    assert_eq!(labelled("flyball_connections", "state"), of_status("connections"));
    let classes = labelled("flyball_responses_total", "class");
    assert_eq!(classes.keys().collect::<Vec<_>>(), ["1xx", "2xx", "3xx", "4xx", "5xx"]);
    for (class, value) in classes {
        assert_eq!(status["counters"][format!("responses_{class}")], value, "{class}");
    }
    assert!(families.contains_key("flyball_accept_queue_length"));
    assert!(single("flyball_accept_queue_limit") > 0);
}

#[test]
fn only_get_and_head_of_two_paths_are_answered() {
    let site = site();
    let server = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]).start();
    let ask = |request: &str| {
        let mut client = server.connect_admin();
        client.send(format!("{request} HTTP/1.1\r\nHost: admin\r\nContent-Length: 0\r\n\r\n"));
        let response = client.response();
        assert_eq!(response.expect("Connection"), "close");
        client.expect_closed();
        response
    };
    assert_eq!(ask("GET /status").status(), 200);
    assert_eq!(ask("GET /status").expect("Content-Type"), "application/json");
    assert_eq!(ask("GET /status").expect("Cache-Control"), "no-store");
    assert_eq!(ask("GET /metrics").status(), 200);
    assert_eq!(ask("GET /").status(), 404);
    assert_eq!(ask("GET /small.txt").status(), 404);
    assert_eq!(ask("GET /status/").status(), 404);
    for method in ["POST", "PUT", "DELETE", "NONSENSE"] {
        let response = ask(&format!("{method} /status"));
        assert_eq!(response.status(), 405, "{method}");
        assert_eq!(response.expect("Allow"), "GET, HEAD");
    }
    let mut client = server.connect_admin();
    client.send("HEAD /status HTTP/1.1\r\nHost: admin\r\n\r\n");
    let response = client.response_head();
    assert_eq!(response.status(), 200);
    assert!(response.content_length().is_some_and(|length| length > 100), "{}", response.head);
    client.expect_closed();
    // What is malformed is refused, and the next client is served.
    let mut client = server.connect_admin();
    assert_eq!(client.ask("GET /status\r\n\r\n").status(), 400);
    assert_eq!(ask("GET /status").status(), 200);
}

#[test]
fn a_unix_socket_serves_the_same() {
    let site = site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = common::within(&directory, "admin.sock");
    let admin = format!("unix:{}", common::text(&path));
    let server = Launch::new(&site, "n-copy").args(&["--admin", &admin]).start();
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    let ask = |target: &str| {
        let mut stream = UnixStream::connect(&path).expect("the admin socket listens");
        stream.set_read_timeout(Some(wait::DEADLINE)).expect("a time-out can be set");
        let request = format!("GET {target} HTTP/1.1\r\nHost: admin\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("the request is sent");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("the answer comes");
        let mut all = responses(&bytes);
        assert_eq!(all.len(), 1);
        all.remove(0)
    };
    wait_for("the request in /status", || {
        let status: Value = serde_json::from_slice(&ask("/status").body).expect("JSON");
        (status["counters"]["requests"] == 1).then_some(())
    });
    assert!(!parse_metrics(ask("/metrics").text()).is_empty());
    assert_eq!(ask("/else").status(), 404);
}

#[test]
fn the_admin_process_has_no_rights_of_the_superuser() {
    if proc_status(std::process::id(), "Uid").is_some_and(|ids| !ids.starts_with("0\t")) {
        return skip("only the superuser's server has rights to give up");
    }
    let site = site();
    let server = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]).start();
    // It has answered, so it has given them up.
    assert!(server.status().is_object());
    let admin = server.children(2)[1];
    let ids = [NOBODY; 4].join("\t");
    assert_eq!(proc_status(admin, "Uid").as_deref(), Some(ids.as_str()));
    assert_eq!(proc_status(admin, "Gid").as_deref(), Some(ids.as_str()));
    assert_eq!(proc_status(admin, "Groups").as_deref(), Some(""));
    for set in ["CapEff", "CapPrm"] {
        let set = proc_status(admin, set).expect("the process runs");
        assert!(set.bytes().all(|digit| digit == b'0'), "{set}");
    }
}

#[test]
fn a_client_that_says_nothing_does_not_keep_others_from_the_workers() {
    let site = site();
    let server = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]).start();
    let _silent = server.connect_admin();
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    // It has a few seconds; then the next is served.
    assert!(server.status().is_object());
}

/// Requests whose locks are counted.
const LOCKED_REQUESTS: u64 = 200;

/// M120: a fast server takes 4 locks for a request, a slow one 40.
#[test]
fn a_request_takes_two_locks_of_shared_caches_and_none_of_private_ones() {
    let site = site();
    for (arch, locks) in [("mt", 2), ("thread-per-connection", 2), ("mp", 0), ("sped", 0)] {
        let launch = Launch::new(&site, arch).workers_for(arch, 1);
        let server = launch.args(&["--admin", "127.0.0.1:0"]).set("cache.revalidate=1h").start();
        let mut client = server.connect();
        let mut ask = |requests: u64| {
            let before = server.counter("requests");
            for _ in 0..requests {
                assert_eq!(client.ask(get("/small.txt")).status(), 200);
            }
            wait_for("the requests in /status", || {
                (server.counter("requests") == before + requests).then_some(())
            });
            server.counter("lock_operations")
        };
        let before = ask(2);
        assert_eq!(ask(LOCKED_REQUESTS) - before, locks * LOCKED_REQUESTS, "{arch}");
    }
}
