//! `/metrics` tells how long requests took by site: each that was answered is in one bucket of its
//! site, whichever worker answered it and whatever was asked beside it.
use std::collections::BTreeMap;

use crate::common::metrics::{self, Family};
use crate::common::{Launch, Server, Site, architectures, signal, text, wait_for, within};

/// Requests of each client.
const ROUNDS: u64 = 5;

/// Clients: more than there are workers.
const CLIENTS: u64 = 8;

fn families(server: &Server) -> BTreeMap<String, Family> {
    let answer = server.connect_admin().ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    metrics::parse(answer.text())
}

/// What the samples of a suffix say, by host.
fn by_host(family: &Family, suffix: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for sample in family.samples.iter().filter(|sample| sample.suffix == suffix) {
        *sums.entry(sample.labels["host"].clone()).or_default() += sample.value as u64;
    }
    sums
}

/// Waits until so many requests of each site have been timed.
#[track_caller]
fn wait_for_times(server: &Server, arch: &str, wanted: &[(&str, u64)]) {
    let wanted: BTreeMap<String, u64> =
        wanted.iter().map(|(host, count)| ((*host).to_owned(), *count)).collect();
    let mut told = BTreeMap::new();
    let all = flyball_testkit::wait::until(flyball_testkit::wait::DEADLINE, || {
        let families = families(server);
        told = by_host(&families["flyball_host_request_seconds"], "_count");
        (told == wanted).then_some(families)
    });
    let all = all.unwrap_or_else(|| panic!("{arch}: {told:?} instead of {wanted:?}"));
    // The same by all that is counted else.
    assert_eq!(by_host(&all["flyball_host_responses_total"], ""), wanted, "{arch}");
    let in_all = all["flyball_request_seconds"].count() as u64;
    assert_eq!(in_all, wanted.values().sum::<u64>(), "{arch}");
    let sum = |name: &str| {
        let samples = all[name].samples.iter().filter(|sample| sample.suffix == "_sum");
        samples.map(|sample| sample.value).sum::<f64>()
    };
    let (by_site, sum) = (sum("flyball_host_request_seconds"), sum("flyball_request_seconds"));
    assert!((by_site - sum).abs() <= 1e-9 && sum > 0.0, "{arch}: {by_site} s of {sum} s");
}

fn request(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

#[test]
fn every_answer_is_timed_by_its_site_with_several_workers_and_after_a_reload() {
    let site = Site::with(&[("small.txt", &[b'x'; 1024]), ("large.bin", &[b'y'; 3 << 20])]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let config = within(&directory, "flyball.toml");
    let configure = |arch: &str, hosts: &[&str]| {
        let mut lines = format!("arch = \"{arch}\"\nworkers = 2\nmp.processes = {CLIENTS}\n");
        for host in hosts {
            lines += &format!("[[site]]\nhosts = [\"{host}\"]\nroot = {:?}\n", text(site.path()));
        }
        std::fs::write(&config, lines).expect("it is written");
    };
    for arch in architectures() {
        configure(arch, &["a.test", "b.test"]);
        let launch = Launch::bare::<&str>(&[]).args(&["--config", text(&config)]);
        let listen = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let server = launch.args(&listen).set("mt.threads=8").start();
        for _ in 0..CLIENTS {
            let mut client = server.connect();
            for _ in 0..ROUNDS {
                assert_eq!(client.ask(request("a.test", "/small.txt")).status(), 200, "{arch}");
            }
            // Large ones leave in several turns, and of two sites beside one another.
            client.send(request("b.test", "/large.bin") + &request("a.test", "/small.txt"));
            assert_eq!(client.response().body.len(), 3 << 20, "{arch}");
            assert_eq!(client.response().body.len(), 1024, "{arch}");
            client.send(
                request("b.test", "/no") + &request("c.test", "/") + &request("a.test", "/no"),
            );
            let statuses = [0; 3].map(|_| client.response().status());
            assert_eq!(statuses, [404, 421, 404], "{arch}");
        }
        let first =
            [("a.test", CLIENTS * (ROUNDS + 2)), ("b.test", 2 * CLIENTS), ("other", CLIENTS)];
        wait_for_times(&server, arch, &first);
        configure(arch, &["c.test", "b.test"]);
        signal(server.master(), "HUP");
        wait_for("the new site", || {
            let status = server.connect().ask(request("c.test", "/none")).status();
            assert!(status == 404 || status == 421, "{status}");
            (status == 404).then_some(())
        });
        let waited = by_host(&families(&server)["flyball_host_responses_total"], "")["other"];
        let later = [first[0], first[1], ("c.test", 1), ("other", waited.max(CLIENTS))];
        wait_for_times(&server, arch, &later);
    }
}
