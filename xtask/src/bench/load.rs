//! `cargo xtask bench load`: what `flyball load` costs beside httperf and wrk.
//!
//! One server, the generators in turn on one CPU of their own. Compared is the generator's CPU time
//! for a new connection (httperf at the same rates: it spins while it waits, so that the highest is
//! what it costs without waiting) and for a request on kept connections (wrk with as many of them).
//! Beside them runs a client that only opens, asks and closes (lab/null): the kernel's part.

use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

use super::contestant::{Server, Setup};
use super::failure::Failure;
use super::files;
use super::measure::{GENERATOR_CPU, awaited_children_ns};
use super::options::Options;
use super::process;
use super::report::Spread;

/// The architectures of the server; the first one that was asked for serves.
pub(crate) const ARCHS: &[&str] = &["n-copy"];

/// New connections per second, up to nearly what httperf can do on one CPU.
const RATES: [u32; 4] = [2_000, 5_000, 10_000, 14_000];

/// The client that does nothing, beside the server that does nothing.
const NULL_CLIENT: &str = "flyball-null-client";

/// Its connections for each second that others run, some of which it takes.
const NULL_PER_S: u32 = 5_000;

/// Connections that are kept.
const CONNECTIONS: u32 = 32;

/// Most of httperf's CPU time for a new connection that ours may take.
const OF_HTTPERF: f64 = 0.5;

/// Most of wrk's CPU time for a request that ours may take.
const OF_WRK: f64 = 1.2;

/// What generators are compared at.
#[derive(Clone, Copy)]
enum Work {
    /// So many new connections per second, with a request each.
    New(u32),
    /// Kept connections.
    Kept,
}

/// A generator.
struct Subject {
    name: &'static str,
    command: fn(&Setup, SocketAddr, Work, u32) -> Result<Command, Failure>,
    /// The requests that were answered, from what it printed.
    answered: fn(&str) -> Option<u64>,
}

const HTTPERF: Subject = Subject { name: "httperf", command: httperf, answered: of_httperf };
const WRK: Subject = Subject { name: "wrk", command: wrk, answered: of_wrk };
const NULL: Subject =
    Subject { name: "a client that does nothing", command: null, answered: of_null };
const OURS: Subject = Subject { name: "flyball load", command: load, answered: of_flyball };

/// A work, the generator that ours is compared with, and the most of its CPU time that ours may
/// take.
fn comparisons() -> Vec<(Work, Subject, f64)> {
    let new = RATES.map(|rate| (Work::New(rate), HTTPERF, OF_HTTPERF));
    new.into_iter().chain([(Work::Kept, WRK, OF_WRK)]).collect()
}

/// Measures in turns, prints, and says whether all targets are met.
pub(crate) fn compare(options: &Options, setup: &Setup) -> Result<bool, Failure> {
    process::find("httperf")?;
    files::prepare(&setup.site).map_err(Failure::io(setup.site.display()))?;
    let contestant = options.contestants.first();
    let contestant = contestant.ok_or_else(|| Failure::Unusable("no server".into()))?;
    let server = Server::start(contestant, 0, setup)?;
    let comparisons = comparisons();
    let mut pairs: Vec<Vec<[f64; 2]>> = vec![Vec::new(); comparisons.len()];
    let mut floor = Vec::new();
    for round in 1..=options.rounds {
        for ((work, other, _), pairs) in comparisons.iter().zip(&mut pairs) {
            let mut costs = [0.0; 2];
            for (subject, cost) in [&OURS, other].into_iter().zip(&mut costs) {
                let (name, rounds) = (subject.name, options.rounds);
                let answered;
                (*cost, answered) =
                    measure(subject, *work, setup, server.address, options.seconds)?;
                eprintln!(
                    "round {round}/{rounds} {}: {name}: {cost:.2} us of CPU for each of {answered}",
                    told(*work)
                );
            }
            pairs.push(costs);
        }
        let work = Work::New(RATES[0]);
        let (cost, answered) = measure(&NULL, work, setup, server.address, options.seconds)?;
        let (name, rounds) = (NULL.name, options.rounds);
        eprintln!("round {round}/{rounds}: {name}: {cost:.2} us of CPU for each of {answered}");
        floor.push(cost);
    }
    let mut met = true;
    for ((work, other, most), pairs) in comparisons.iter().zip(&pairs) {
        let [ours, theirs] = [0, 1].map(|at| Spread::of(pairs.iter().map(|pair| pair[at])).text());
        let ratio = Spread::of(pairs.iter().map(|[ours, theirs]| ours / theirs));
        met &= ratio.median <= *most;
        let verdict = if ratio.median <= *most { "met" } else { "missed" };
        println!(
            "{}: {ours} us, {} {theirs} us: ratio {}, at most {most}: {verdict}",
            told(*work),
            other.name,
            ratio.text()
        );
    }
    println!("a new connection of {}: {} us", NULL.name, Spread::of(floor.into_iter()).text());
    Ok(met)
}

fn told(work: Work) -> String {
    match work {
        Work::New(rate) => format!("{rate} new connections/s"),
        Work::Kept => format!("{CONNECTIONS} kept connections"),
    }
}

/// CPU microseconds of a generator for an answer, and the answers.
fn measure(
    subject: &Subject,
    work: Work,
    setup: &Setup,
    address: SocketAddr,
    seconds: u32,
) -> Result<(f64, u64), Failure> {
    let mut command = (subject.command)(setup, address, work, seconds)?;
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

fn httperf(_: &Setup, address: SocketAddr, work: Work, seconds: u32) -> Result<Command, Failure> {
    let Work::New(rate) = work else {
        return Err(Failure::Unusable("httperf is compared at new connections".into()));
    };
    let mut command = process::pinned(GENERATOR_CPU, &process::find("httperf")?)?;
    // The system gives the ports: those that `--hog` takes by itself run out in a minute.
    command.args(["--timeout", "10", "--server", &address.ip().to_string()]);
    command.args(["--port", &address.port().to_string(), "--uri", files::SMALL]);
    command.args(["--rate", &rate.to_string(), "--num-conns", &(rate * seconds).to_string()]);
    Ok(command)
}

fn null(setup: &Setup, address: SocketAddr, _: Work, seconds: u32) -> Result<Command, Failure> {
    let mut command = process::pinned(GENERATOR_CPU, &setup.null.with_file_name(NULL_CLIENT))?;
    let count = NULL_PER_S * seconds;
    command.args([address.to_string(), files::SMALL.into(), count.to_string()]);
    Ok(command)
}

fn wrk(_: &Setup, address: SocketAddr, _: Work, seconds: u32) -> Result<Command, Failure> {
    let mut command = process::pinned(GENERATOR_CPU, &process::find("wrk")?)?;
    command.args(["--threads", "1", "--connections", &CONNECTIONS.to_string()]);
    command.args(["--duration", &format!("{seconds}s")]);
    command.arg(format!("http://{address}{}", files::SMALL));
    Ok(command)
}

fn load(setup: &Setup, address: SocketAddr, work: Work, seconds: u32) -> Result<Command, Failure> {
    let mut command = process::pinned(GENERATOR_CPU, &setup.flyball)?;
    command.args(["load", "--json", "--duration", &format!("{seconds}s")]);
    match work {
        Work::New(rate) => command.args(["--rate", &rate.to_string()]),
        Work::Kept => command.args(["--connections", &CONNECTIONS.to_string()]),
    };
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

/// `5000 answered`
fn of_null(text: &str) -> Option<u64> {
    text.strip_suffix(" answered\n")?.parse().ok()
}

fn of_flyball(text: &str) -> Option<u64> {
    serde_json::from_str::<serde_json::Value>(text).ok()?.get("replies")?.as_u64()
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
        assert_eq!(of_null("25000 answered\n"), Some(25_000));
        assert_eq!(of_flyball("nothing"), None);
    }
}
