//! `cargo xtask bench tls`: what TLS costs the server, beside nginx, lighttpd, h2o, HAProxy and
//! Caddy.
//!
//! All have one worker on one CPU and the same certificate, of P-256; `flyball load` asks from
//! another CPU, with the same group for all. They take turns within each round. The figure is the
//! server's CPU time for a request, a connection or a MiB; then come what an idle connection has in
//! memory, the calls of a request, and how long requests on kept connections wait while others
//! shake hands without end.

mod peers;
mod standing;

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::contestant::{Contestant, Setup};
use super::failure::Failure;
use super::files;
use super::measure::GENERATOR_CPU;
use super::options::Options;
use super::process;
use super::report::{Spread, figure};
use peers::{Peer, Server};

/// Flyball's architectures unless others are chosen: the bars hold for the better of the two.
pub(crate) const ARCHS: &[&str] = &["sped", "n-copy"];

/// Names of the servers, as the command line has them.
pub(crate) const SERVERS: &[&str] = &["flyball", "nginx", "lighttpd", "h2o", "haproxy", "caddy"];

/// What is measured again and again.
#[derive(Debug)]
struct Work {
    name: &'static str,
    title: &'static str,
    path: &'static str,
    /// What the generator is told beside the URL and for how long.
    arguments: &'static [&'static str],
    unit: Unit,
    /// Of whom the best is compared with.
    bar: Bar,
}

/// What CPU time is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Request,
    Connection,
    Mebibyte,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Request => "request",
            Unit::Connection => "connection",
            Unit::Mebibyte => "MiB",
        }
    }
}

/// The most of the cheapest of these peers' cost that ours may be; none for what is only reported.
#[derive(Debug)]
struct Bar {
    peers: &'static [&'static str],
    at_most: f64,
}

/// Of one group, so that all do the same arithmetic.
const X25519: &str = "--tls-group=X25519";

/// Addresses to connect from: a port rests for a second when its connection has ended.
const SOURCES: &str = "--source=127.0.0.101-127.0.0.108";

const WORKS: &[Work] = &[
    Work {
        name: "keep",
        title: "1 KB, 32 connections, kept",
        path: files::SMALL,
        arguments: &["--connections=32", X25519],
        unit: Unit::Request,
        bar: Bar { peers: &["nginx", "lighttpd", "h2o", "haproxy"], at_most: 0.90 },
    },
    Work {
        name: "full",
        title: "1 KB, a full handshake for each, X25519",
        path: files::SMALL,
        arguments: &["--connections=16", "--requests-per-connection=1", X25519],
        unit: Unit::Connection,
        bar: Bar { peers: &["nginx", "lighttpd", "h2o", "haproxy"], at_most: 0.80 },
    },
    Work {
        name: "full-pq",
        title: "1 KB, a full handshake for each, X25519MLKEM768",
        path: files::SMALL,
        arguments: &[
            "--connections=16",
            "--requests-per-connection=1",
            "--tls-group=X25519MLKEM768",
        ],
        unit: Unit::Connection,
        bar: Bar { peers: &[], at_most: 0.0 },
    },
    Work {
        name: "resumed",
        title: "1 KB, a resumed session for each",
        path: files::SMALL,
        arguments: &["--connections=16", "--requests-per-connection=1", "--tls-resume=on", X25519],
        unit: Unit::Connection,
        bar: Bar { peers: &["nginx"], at_most: 0.60 },
    },
    Work {
        name: "large",
        title: "10 MiB, 4 connections, kept",
        path: files::LARGE,
        arguments: &["--connections=4", X25519],
        unit: Unit::Mebibyte,
        bar: Bar { peers: &["nginx", "lighttpd"], at_most: 1.0 },
    },
];

/// One server in one work: what each round cost, and what the first handshake agreed on.
#[derive(Debug, Default)]
struct Cost {
    work: &'static str,
    server: String,
    cpu_us: Vec<f64>,
    agreed: String,
    errors: u64,
}

/// A bar, and whether it is met.
#[derive(Debug)]
pub(super) struct Verdict {
    text: String,
    passed: bool,
}

impl Verdict {
    /// Holds the best of ours against the best of others, both in the same unit.
    fn of(what: &str, ours: f64, others: f64, at_most: f64) -> Verdict {
        let ratio = ours / others;
        let passed = ratio <= at_most;
        let word = if passed { "met" } else { "missed" };
        Verdict { text: format!("{what}: {ratio:.2}, at most {at_most}: {word}"), passed }
    }
}

/// Measures, prints and records. Whether all bars that were measured are met.
pub(crate) fn compare(options: &Options, setup: &Setup) -> Result<bool, Failure> {
    let setup = &Setup { scratch: setup.scratch.join("tls"), ..setup.clone() };
    files::prepare(&setup.site).map_err(Failure::io(setup.site.display()))?;
    files::let_settle(&setup.site);
    let mut servers = Vec::new();
    for peer in chosen(options) {
        servers.push(Server::start(&peer, servers.len(), setup)?);
    }
    let mut costs: Vec<Cost> = Vec::new();
    for round in 1..=options.rounds {
        for work in WORKS {
            for server in servers.iter_mut().filter(|server| server.peer.takes_part(work.path)) {
                let (rounds, name) = (options.rounds, server.name());
                let told = format!("round {round}/{rounds} {} {name}", work.name);
                measure(server, work, setup, options.seconds, &told, &mut costs)?;
            }
        }
    }
    let of_works = WORKS.iter().filter_map(|work| verdict(work, &costs));
    let mut verdicts: Vec<Verdict> = of_works.collect();
    let stood = standing::measure(&mut servers, setup, options, &mut verdicts)?;
    let text = report(&costs, &stood, &verdicts);
    if let Some(file) = &options.json {
        let record = json!({ "summary": text, "costs": costs.iter().map(of).collect::<Vec<_>>() });
        fs::write(file, format!("{record:#}\n")).map_err(Failure::io(file.display()))?;
    }
    print!("{text}");
    Ok(verdicts.iter().all(|verdict| verdict.passed))
}

/// Flyball by each architecture, then the others; those that were named, if any was.
fn chosen(options: &Options) -> Vec<Peer> {
    let mut peers = Vec::new();
    for contestant in &options.contestants {
        if let Contestant::Flyball { arch, .. } = contestant {
            peers.push(Peer::Flyball(arch.clone()));
        }
    }
    let named = &options.servers;
    let is_named = |name: &str| named.is_empty() || named.iter().any(|one| one == name);
    peers.extend(peers::OTHERS.iter().filter(|other| is_named(other.name)).map(Peer::Other));
    peers
}

/// One run: a second that is not counted, then those that are.
fn measure(
    server: &mut Server,
    work: &'static Work,
    setup: &Setup,
    seconds: u32,
    told: &str,
    costs: &mut Vec<Cost>,
) -> Result<(), Failure> {
    let name = server.name();
    let place = costs.iter().position(|cost| cost.work == work.name && cost.server == name);
    let place = place.unwrap_or_else(|| {
        costs.push(Cost { work: work.name, server: name.clone(), ..Cost::default() });
        costs.len() - 1
    });
    let warm = generate(setup, server.address, work, 1)?;
    if warm["replies"].as_u64() == Some(0) {
        // A group that it does not have.
        eprintln!("{told}: {}", warm["handshakes"]["failure"].as_str().unwrap_or("no answer"));
        return Ok(());
    }
    let before = server.running.cpu();
    let report = generate(setup, server.address, work, seconds)?;
    let (cpu_ns, _) = server.running.cpu().since(&before);
    if server.running.has_ended() {
        return Err(Failure::Broken(format!("{name} ended during {}", work.name)));
    }
    let units = match work.unit {
        Unit::Request => report["replies_total"].as_f64(),
        Unit::Connection => report["connections"].as_f64(),
        Unit::Mebibyte => report["bytes_in"].as_f64().map(|bytes| bytes / f64::from(1 << 20)),
    };
    let cpu_us = cpu_ns as f64 / 1e3 / units.unwrap_or(0.0).max(1.0);
    let cost = &mut costs[place];
    cost.cpu_us.push(cpu_us);
    cost.errors += report["error_count"].as_u64().unwrap_or(0);
    cost.agreed = report["handshakes"]["agreed"].as_str().unwrap_or_default().to_owned();
    let (resumed, full) = (&report["handshakes"]["resumed"], &report["handshakes"]["full"]);
    eprintln!(
        "{told}: {} us/{}, {full} full handshakes, {resumed} resumed, {} errors",
        figure(cpu_us),
        work.unit.name(),
        report["error_count"]
    );
    Ok(())
}

/// Runs the generator to its end; its report.
fn generate(
    setup: &Setup,
    address: SocketAddr,
    work: &Work,
    seconds: u32,
) -> Result<Value, Failure> {
    let duration = format!("--duration={seconds}s");
    let mut command = generator(setup, address, work.path)?;
    reported(command.arg(duration).args(work.arguments))
}

/// The generator on its CPU, without what it is to do.
fn generator(setup: &Setup, address: SocketAddr, path: &str) -> Result<Command, Failure> {
    let mut command = process::pinned(GENERATOR_CPU, &setup.flyball)?;
    command.args(["load", "--json", "--quiet", "--insecure", "--timeout=10s", SOURCES]);
    command.arg(format!("https://{address}{path}"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

fn reported(command: &mut Command) -> Result<Value, Failure> {
    let output = command.output().map_err(Failure::io(format!("starting {command:?}")))?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        Failure::Broken(format!("flyball load reported nothing: {error}: {said}"))
    })
}

fn median(cost: &Cost) -> Option<f64> {
    (!cost.cpu_us.is_empty()).then(|| Spread::of(cost.cpu_us.iter().copied()).median)
}

fn verdict(work: &Work, costs: &[Cost]) -> Option<Verdict> {
    let cheapest = |of: &dyn Fn(&str) -> bool| {
        let costs = costs.iter().filter(|cost| cost.work == work.name && of(&cost.server));
        costs.filter_map(median).min_by(f64::total_cmp)
    };
    let ours = cheapest(&|server| server.starts_with("flyball-"))?;
    let others = cheapest(&|server| work.bar.peers.contains(&server))?;
    Some(Verdict::of(&format!("{} of the best peer", work.name), ours, others, work.bar.at_most))
}

fn of(cost: &Cost) -> Value {
    json!({
        "work": cost.work,
        "server": cost.server,
        "cpu_us": cost.cpu_us,
        "agreed": cost.agreed,
        "errors": cost.errors,
    })
}

fn report(costs: &[Cost], stood: &str, verdicts: &[Verdict]) -> String {
    let mut lines = Vec::new();
    for work in WORKS {
        lines.push(format!("{}: {}, us of CPU for a {}", work.name, work.title, work.unit.name()));
        for cost in costs.iter().filter(|cost| cost.work == work.name) {
            let spread = match cost.cpu_us.is_empty() {
                true => "not spoken".to_owned(),
                false => Spread::of(cost.cpu_us.iter().copied()).text(),
            };
            let mut line = format!("  {:<16} {spread:<28} {}", cost.server, cost.agreed);
            if cost.errors > 0 {
                line += &format!(", {} errors", cost.errors);
            }
            lines.push(line);
        }
    }
    lines.push(stood.trim_end().to_owned());
    lines.extend(verdicts.iter().map(|verdict| verdict.text.clone()));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(server: &str, cpu_us: &[f64]) -> Cost {
        Cost { work: "keep", server: server.into(), cpu_us: cpu_us.to_vec(), ..Cost::default() }
    }

    #[test]
    fn the_better_of_ours_is_held_against_the_best_of_the_peers_that_are_named() {
        let costs = [
            cost("flyball-sped", &[9.0, 8.0, 10.0]),
            cost("flyball-n-copy", &[9.5]),
            cost("nginx", &[12.0]),
            cost("haproxy", &[10.0]),
            cost("h2o", &[]),
            cost("caddy", &[1.0]),
        ];
        let found = verdict(&WORKS[0], &costs).unwrap();
        assert_eq!(found.text, "keep of the best peer: 0.90, at most 0.9: met");
        let even = [cost("flyball-sped", &[10.0]), cost("nginx", &[10.0])];
        assert!(found.passed && !verdict(&WORKS[0], &even).unwrap().passed);
        assert!(verdict(&WORKS[0], &costs[..2]).is_none(), "none to be held against");
        let text = report(&costs, "", &[found]);
        assert!(text.contains("h2o              not spoken"), "{text}");
    }
}
