//! `cargo xtask bench load`: what `flyball load` costs beside httperf and wrk.
//!
//! One server, the generators in turn on one CPU of their own. Compared is the generator's CPU time
//! for a new connection (httperf at the same rate, which has to be high: it spins while it waits)
//! and for a request on kept connections (wrk with as many of them).

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::contestant::{Server, Setup};
use super::failure::Failure;
use super::files;
use super::measure::{GENERATOR_CPU, awaited_children_ns};
use super::options::Options;
use super::process;

/// The architectures of the server; the first one that was asked for serves.
pub(crate) const ARCHS: &[&str] = &["n-copy"];

/// New connections per second: near to what httperf can do on one CPU, so that it spins little.
const RATE: u32 = 10_000;

/// Connections that are kept.
const CONNECTIONS: u32 = 32;

/// Most of httperf's CPU time for a new connection that ours may take.
const OF_HTTPERF: f64 = 0.5;

/// Most of wrk's CPU time for a request that ours may take.
const OF_WRK: f64 = 1.2;

/// A generator at one work.
struct Subject {
    name: &'static str,
    /// Whether each request has a connection of its own.
    is_new: bool,
    command: fn(&Setup, SocketAddr, u32) -> Result<Command, Failure>,
    /// The requests that were answered, from what it printed.
    answered: fn(&str) -> Option<u64>,
}

const SUBJECTS: [Subject; 4] = [
    Subject { name: "httperf", is_new: true, command: httperf, answered: of_httperf },
    Subject { name: "flyball load", is_new: true, command: new, answered: of_flyball },
    Subject { name: "wrk", is_new: false, command: wrk, answered: of_wrk },
    Subject { name: "flyball load", is_new: false, command: kept, answered: of_flyball },
];

/// Measures in turns, prints, and says whether both targets are met.
pub(crate) fn compare(options: &Options, setup: &Setup) -> Result<bool, Failure> {
    process::find("httperf")?;
    files::prepare(&setup.site).map_err(Failure::io(setup.site.display()))?;
    let contestant = options.contestants.first();
    let contestant = contestant.ok_or_else(|| Failure::Unusable("no server".into()))?;
    let server = Server::start(contestant, 0, setup)?;
    let mut each: [Vec<f64>; SUBJECTS.len()] = Default::default();
    for round in 1..=options.rounds {
        for (subject, costs) in SUBJECTS.iter().zip(&mut each) {
            let (cost, answered) = measure(subject, setup, server.address, options.seconds)?;
            let unit = if subject.is_new { "connection" } else { "request" };
            let (rounds, name) = (options.rounds, subject.name);
            eprintln!(
                "round {round}/{rounds} {name}: {cost:.2} us of CPU per {unit}, {answered} answered"
            );
            costs.push(cost);
        }
    }
    let [httperf, new, wrk, kept] = each.map(median);
    let mut met = true;
    for (what, ours, theirs, most) in
        [("new connection", new, httperf, OF_HTTPERF), ("kept request", kept, wrk, OF_WRK)]
    {
        let ratio = ours / theirs;
        met &= ratio <= most;
        let verdict = if ratio <= most { "met" } else { "missed" };
        println!(
            "{what}: {ours:.2} us, {theirs:.2} us: ratio {ratio:.3}, at most {most}: {verdict}"
        );
    }
    Ok(met)
}

/// CPU microseconds of a generator for an answer, and the answers.
fn measure(
    subject: &Subject,
    setup: &Setup,
    address: SocketAddr,
    seconds: u32,
) -> Result<(f64, u64), Failure> {
    let mut command = (subject.command)(setup, address, seconds)?;
    let before = awaited_children_ns();
    let Output { stdout, stderr, .. } = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .map_err(Failure::io(format!("starting {command:?}")))?;
    let cpu_ns = awaited_children_ns() - before;
    let text = String::from_utf8_lossy(&stdout);
    let answered = (subject.answered)(&text).filter(|answered| *answered > 0);
    let answered = answered.ok_or_else(|| {
        let said = String::from_utf8_lossy(&stderr);
        Failure::Broken(format!("{} answered nothing: {text}{said}", subject.name))
    })?;
    Ok((cpu_ns as f64 / 1e3 / answered as f64, answered))
}

fn httperf(_: &Setup, address: SocketAddr, seconds: u32) -> Result<Command, Failure> {
    let mut command = process::pinned(GENERATOR_CPU, &process::find("httperf")?)?;
    // The system gives the ports: those that `--hog` takes by itself run out in a minute.
    command.args(["--timeout", "10", "--server", &address.ip().to_string()]);
    command.args(["--port", &address.port().to_string(), "--uri", files::SMALL]);
    command.args(["--rate", &RATE.to_string(), "--num-conns", &(RATE * seconds).to_string()]);
    Ok(command)
}

fn wrk(_: &Setup, address: SocketAddr, seconds: u32) -> Result<Command, Failure> {
    let mut command = process::pinned(GENERATOR_CPU, &process::find("wrk")?)?;
    command.args(["--threads", "1", "--connections", &CONNECTIONS.to_string()]);
    command.args(["--duration", &format!("{seconds}s")]);
    command.arg(format!("http://{address}{}", files::SMALL));
    Ok(command)
}

fn new(setup: &Setup, address: SocketAddr, seconds: u32) -> Result<Command, Failure> {
    load(&setup.flyball, address, seconds, &["--rate", &RATE.to_string()])
}

fn kept(setup: &Setup, address: SocketAddr, seconds: u32) -> Result<Command, Failure> {
    load(&setup.flyball, address, seconds, &["--connections", &CONNECTIONS.to_string()])
}

fn load(
    flyball: &Path,
    address: SocketAddr,
    seconds: u32,
    amount: &[&str],
) -> Result<Command, Failure> {
    let mut command = process::pinned(GENERATOR_CPU, flyball)?;
    command.args(["load", "--json", "--duration", &format!("{seconds}s")]).args(amount);
    command.arg(format!("http://{address}{}", files::SMALL));
    Ok(command)
}

/// `Total: connections 100 requests 100 replies 100 test-duration 1.000 s`
fn of_httperf(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Total: "))?;
    let mut words = line.split_ascii_whitespace().skip_while(|word| *word != "replies");
    words.nth(1)?.parse().ok()
}

/// `  270404 requests in 1.00s, 300.00MB read`
fn of_wrk(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains(" requests in "))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn of_flyball(text: &str) -> Option<u64> {
    serde_json::from_str::<serde_json::Value>(text).ok()?.get("replies")?.as_u64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_generators_print_is_understood() {
        let text = "x\nTotal: connections 500 requests 499 replies 498 test-duration 0.9 s\n";
        assert_eq!(of_httperf(text), Some(498));
        assert_eq!(of_wrk("  270404 requests in 1.00s, 300.00MB read\n"), Some(270_404));
        assert_eq!(of_flyball("{\"replies\": 7}"), Some(7));
        assert_eq!(of_flyball("nothing"), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
