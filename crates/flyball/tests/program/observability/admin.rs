//! `--admin`: what `/status` and `/metrics` tell, and who tells it.
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::common::{
    Launch, Server, Site, architectures, get, last_get, metrics, proc_status, wait_for,
};
use flyball_testkit::{responses, skip, wait};
use serde_json::Value;

/// The user that the admin process becomes when it was started by the superuser.
const NOBODY: &str = "65534";

const KEPT: u64 = 3;

/// How long silent connections would be waited for by one who serves them in turn, a second each.
const SILENT_FOR: Duration = Duration::from_secs(40);

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
        assert_eq!(status["arch"], arch);
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

/// Longer than what the sockets of both ends hold.
const LARGE_BYTES: u64 = 64 * 1024 * 1024;

#[test]
fn who_still_sends_is_not_shown_as_idle() {
    let site = Site::with(&[]);
    let large = std::fs::File::create(site.path().join("large.bin")).expect("it is made");
    large.set_len(LARGE_BYTES).expect("it has a length");
    // All at once: each spends its time waiting until states are told again.
    std::thread::scope(|scope| {
        for arch in architectures() {
            scope.spawn(|| is_shown_as_sending(&site, arch));
        }
    });
}

fn is_shown_as_sending(site: &Site, arch: &str) {
    let launch = Launch::new(site, arch).workers_for(arch, 2).args(&["--admin", "127.0.0.1:0"]);
    // Who takes nothing is not to be closed before it is shown.
    let server = launch.set("rate.window=5min").start();
    let mut idle = server.connect();
    assert_eq!(idle.ask(get("/absent")).status(), 404);
    let address = ([127, 0, 0, 1], server.port).into();
    let mut slow = flyball_testkit::Client::connect_narrow(address, 128 * 1024);
    slow.send(get("/large.bin"));
    assert_eq!(slow.response_head().status(), 200);
    let shown = |sending: u64, idle: u64| {
        let status = server.status();
        let connections = &status["connections"];
        (connections["sending"] == sending && connections["idle"] == idle).then_some(())
    };
    wait_for(&format!("{arch}: one that sends beside one that is idle"), || shown(1, 1));
    drop(slow);
    wait_for(&format!("{arch}: one that is idle"), || shown(0, 1));
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

#[test]
fn metrics_are_prometheus_text_and_tell_the_same_as_status() {
    let site = site();
    let used = Used::start(&site, "sped");
    let status = used.settled();
    let response =
        used.server.connect_admin().ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(response.expect("Content-Type"), "text/plain; version=0.0.4");
    let families = metrics::parse(response.text());
    let family = |name: &str| families.get(name).unwrap_or_else(|| panic!("no {name}"));
    // Whatever does not grow by itself is the same in both.
    for name in ["accepted", "requests", "bytes_sent", "path_cache_hits", "content_cache_hits"] {
        let value = family(&format!("flyball_{name}_total")).single();
        assert_eq!(status["counters"][name].as_f64(), Some(value), "{name}");
    }
    let numbers = |object: &Value| -> BTreeMap<String, f64> {
        let object = object.as_object().expect("an object");
        object.iter().map(|(name, n)| (name.clone(), n.as_f64().expect("a number"))).collect()
    };
    assert_eq!(family("flyball_closed_total").by("reason"), numbers(&status["closed"]));
    assert_eq!(family("flyball_connections").by("state"), numbers(&status["connections"]));
    for (class, value) in family("flyball_responses_total").by("class") {
        let counter = &status["counters"][format!("responses_{class}")];
        assert_eq!(counter.as_f64(), Some(value), "{class}");
    }
    assert_eq!(family("flyball_responses_total").samples.len(), 5);
    for family in ["flyball_accept_queue_limit", "flyball_process_open_descriptors"] {
        let samples = &families[family].samples;
        assert!(samples.iter().all(|sample| sample.value > 0.0), "{family}: {samples:?}");
    }
    let batches = family("flyball_accept_batch_connections");
    let sum = batches.samples.iter().find(|sample| sample.suffix == "_sum").expect("a sum");
    assert_eq!((sum.value, batches.count()), (5.0, accept_phases(&status)));
    let worker = |name: &str| family(name).samples.iter().map(|sample| sample.value).sum::<f64>();
    assert_eq!(worker("flyball_worker_requests_total"), 7.0);
    assert_eq!(worker("flyball_worker_connections"), KEPT as f64);
    assert_eq!(family("flyball_worker_imbalance_ratio").single(), 1.0);
}

fn accept_phases(status: &Value) -> f64 {
    status["counters"]["accept_phases"].as_f64().expect("a number")
}

/// Six were answered by the site, one of them from the disk; what is malformed is not timed.
#[test]
fn requests_and_disk_work_are_timed_on_every_architecture() {
    let site = site();
    for arch in flyball_arch::ALL {
        let name = arch.name();
        if let Err(why) = arch.probe() {
            flyball_testkit::skip(&format!("{name} cannot run here: {why}"));
            continue;
        }
        let launch = Launch::new(&site, name).workers_for(name, 4);
        let server = launch.args(&["--admin", "127.0.0.1:0"]).start();
        let mut client = server.connect();
        for _ in 0..6 {
            assert_eq!(client.ask(get("/small.txt")).status(), 200);
        }
        let mut malformed = server.connect();
        assert_eq!(malformed.ask("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").status(), 400);
        drop((client, malformed));
        let status = wait_for("the times of all requests", || {
            let status = server.status();
            let counted = status["timings"]["request"]["count"] == 6;
            (counted && status["counters"]["requests"] == 7).then_some(status)
        });
        let timing = |name: &str, field: &str| {
            status["timings"][name][field].as_u64().unwrap_or_else(|| panic!("no {name} {field}"))
        };
        assert_eq!(timing("first-byte", "count"), 6, "{name}: {status:#}");
        for timed in ["first-byte", "request", "disk-wait"] {
            let (count, sum_ns) = (timing(timed, "count"), timing(timed, "sum_ns"));
            assert!(count > 0 && sum_ns > 0, "{name}, {timed}: {status:#}");
            let (p50, p99) = (timing(timed, "p50_ns"), timing(timed, "p99_ns"));
            assert!(0 < p50 && p50 <= p99, "{name}, {timed}: {status:#}");
            // Nothing here takes a second, unless the machine is very busy.
            assert!(sum_ns < 60_000_000_000, "{name}, {timed}: {status:#}");
        }
        assert!(timing("first-byte", "sum_ns") <= timing("request", "sum_ns"), "{name}");
        // `shared-symped` asks the disk for its names again.
        assert!(timing("disk-wait", "count") >= 1, "{name}: {status:#}");
        let phases = ["getevents", "accept", "work", "read-stage", "write-stage", "loop"];
        let timed = phases.map(|phase| timing(phase, "count") > 0);
        let expected = match name {
            "mp" | "mt" | "thread-per-connection" => [false; 6],
            "watpipe" => [true, true, false, true, true, false],
            "uring" => [true, false, true, false, false, true],
            _ => [true, true, true, false, false, true],
        };
        assert_eq!(timed, expected, "{name}, {phases:?}: {status:#}");
    }
}

#[test]
fn answers_are_counted_by_configured_host_and_no_client_makes_a_label() {
    let site = site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let root = crate::common::text(site.path());
    let table = |hosts: &str| format!("[[site]]\nhosts = [{hosts}]\nroot = {root:?}\n");
    let config = crate::common::within(&directory, "site.toml");
    let sites = table("\"one.example\", \"alias.example\"") + &table("\"*.two.example\"");
    std::fs::write(&config, format!("listen = [\"127.0.0.1:0\"]\n{sites}")).expect("written");
    let launch = Launch::bare::<&str>(&[]).args(&["--config", crate::common::text(&config)]);
    let server = launch.args(&["--arch", "sped", "--admin", "127.0.0.1:0"]).start();
    let mut client = server.connect();
    let mut ask = |host: &str, path: &str| {
        client.ask(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).status()
    };
    assert_eq!(ask("one.example", "/small.txt"), 200);
    assert_eq!(ask("alias.example", "/absent"), 404);
    assert_eq!(ask("a.two.example", "/small.txt"), 200);
    for at in 0..20 {
        assert_eq!(ask(&format!("evil{at}.example"), "/small.txt"), 421);
    }
    let status = wait_for("all answers", || {
        let status = server.status();
        (status["counters"]["requests"] == 23).then_some(status)
    });
    let counts = |good: u64, bad: u64| {
        let none = 0;
        serde_json::json!({"1xx": none, "2xx": good, "3xx": none, "4xx": bad, "5xx": none})
    };
    let expected = serde_json::json!({
        "one.example": counts(1, 1), "*.two.example": counts(1, 0), "other": counts(0, 20),
    });
    assert_eq!(status["hosts"], expected);
    let text = server.connect_admin().ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(!text.text().contains("evil"), "{}", text.text());
    let families = metrics::parse(text.text());
    assert_eq!(families["flyball_host_responses_total"].samples.len(), 3 * 5);
}

/// `ann` and her password, by a hash that is verified fast.
const USERS: &str = "ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy\n";

#[test]
fn wrong_passwords_and_denied_networks_are_counted() {
    let site = site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (config, users) = (
        crate::common::within(&directory, "site.toml"),
        crate::common::within(&directory, "users"),
    );
    std::fs::write(&users, USERS).expect("written");
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\nroot = {:?}\nauth.file = {:?}\n\
         auth.paths = [\"/small.txt\"]\n\
         [[site.access]]\npath = \"/absent\"\ndeny = [\"127.0.0.1\"]\n",
        crate::common::text(site.path()),
        crate::common::text(&users)
    );
    std::fs::write(&config, text).expect("written");
    let launch = Launch::bare::<&str>(&[]).args(&["--config", crate::common::text(&config)]);
    let server = launch.args(&["--arch", "sped", "--admin", "127.0.0.1:0"]).start();
    let mut client = server.connect();
    let mut ask = |path: &str, login: &str| {
        let login = if login.is_empty() {
            String::new()
        } else {
            format!("Authorization: Basic {login}\r\n")
        };
        client.ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{login}\r\n")).status()
    };
    assert_eq!(ask("/small.txt", ""), 401);
    assert_eq!(ask("/small.txt", "YW5uOndyb25n"), 401);
    assert_eq!(ask("/small.txt", "YW5uOnNlY3JldA=="), 200);
    assert_eq!(ask("/absent", ""), 403);
    let status = wait_for("all answers", || {
        let status = server.status();
        (status["counters"]["requests"] == 4).then_some(status)
    });
    // Who asks without a password is only told to have one.
    assert_eq!(status["counters"]["logins_failed"], 1, "{status:#}");
    assert_eq!(status["counters"]["requests_denied"], 1, "{status:#}");
    assert_eq!(status["counters"]["logins_throttled"], 0, "{status:#}");
}

/// Names in the first column of the tables of that page that start with one of these.
fn documented(section: &str, prefixes: &[&str]) -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/logs-and-metrics.md");
    let text = std::fs::read_to_string(path).expect("the document is there");
    let (_, text) = text.split_once(section).expect("the section is there");
    let text = text.split("\n#").next().unwrap_or_default();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let names = rows.flat_map(|names| names.split(", ")).map(|name| name.trim_matches('`'));
    let is_wanted = |name: &&str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let is_head = |name: &&str| ["metric", "key", "reason", "---"].contains(name);
    names.filter(|name| is_wanted(name) && !is_head(name)).map(String::from).collect()
}

#[test]
fn every_metric_every_key_and_every_reason_is_documented_and_no_other() {
    let site = site();
    // Sockets that defer do not tell what they drop.
    let launch = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]);
    let server = launch.set("accept.defer=off").start();
    // There is a worker.
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    let metrics = server.connect_admin().ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let told: BTreeSet<String> = metrics::parse(metrics.text()).into_keys().collect();
    assert_eq!(documented("\n### Metrics\n", &["flyball_", "process_"]), told);
    let status = server.status();
    let keys: BTreeSet<String> = status.as_object().expect("an object").keys().cloned().collect();
    assert_eq!(documented("\n### Status\n", &[""]), keys);
    let reasons = status["closed"].as_object().expect("reasons").keys().cloned().collect();
    assert_eq!(documented("\n### Why connections close\n", &[""]), reasons);
}

#[test]
fn the_page_is_whole_and_may_do_nothing_but_ask_for_the_status() {
    let site = site();
    let server = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]).start();
    for path in ["/", "/dashboard"] {
        let page =
            server.connect_admin().ask(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(page.status(), 200);
        assert_eq!(page.expect("Content-Type"), "text/html; charset=utf-8");
        assert_eq!(page.expect("X-Content-Type-Options"), "nosniff");
        let policy = page.expect("Content-Security-Policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'nonce-"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(page.text().ends_with("</html>\n"));
    }
}

/// A browser opens connections that it does not use.
#[test]
fn connections_that_say_nothing_keep_nobody_waiting() {
    let site = site();
    let server = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]).start();
    let silent: Vec<_> = (0..SILENT_FOR.as_secs()).map(|_| server.connect_admin()).collect();
    let began = std::time::Instant::now();
    assert!(server.status().is_object());
    wait::assert_within(began, SILENT_FOR / 2, "others are waited for");
    drop(silent);
    assert!(server.status().is_object());
}

#[test]
fn only_get_and_head_of_known_paths_are_answered() {
    let site = site();
    let server = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]).start();
    let ask = |request: &str| {
        let mut client = server.connect_admin();
        client.send(format!("{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"));
        let response = client.response();
        assert_eq!(response.expect("Connection"), "close");
        client.expect_closed();
        response
    };
    assert_eq!(ask("GET /status").status(), 200);
    assert_eq!(ask("GET /status").expect("Content-Type"), "application/json");
    assert_eq!(ask("GET /status").expect("Cache-Control"), "no-store");
    assert_eq!(ask("GET /metrics").status(), 200);
    assert_eq!(ask("GET /small.txt").status(), 404);
    assert_eq!(ask("GET /status/").status(), 404);
    for method in ["POST", "PUT", "DELETE", "NONSENSE"] {
        let response = ask(&format!("{method} /status"));
        assert_eq!(response.status(), 405, "{method}");
        assert_eq!(response.expect("Allow"), "GET, HEAD");
    }
    let mut client = server.connect_admin();
    client.send("HEAD /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
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
    let path = crate::common::within(&directory, "admin.sock");
    let admin = format!("unix:{}", crate::common::text(&path));
    let server = Launch::new(&site, "n-copy").args(&["--admin", &admin]).start();
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    let ask = |target: &str| {
        let mut stream = UnixStream::connect(&path).expect("the admin socket listens");
        stream.set_read_timeout(Some(wait::DEADLINE)).expect("a time-out can be set");
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
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
    assert!(!metrics::parse(ask("/metrics").text()).is_empty());
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
