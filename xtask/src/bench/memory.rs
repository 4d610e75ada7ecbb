//! `cargo xtask bench memory`: what a connection and a unit of concurrency cost in user memory, for
//! every architecture, as S4's memory models do (section 8).
//!
//! Counted is the proportional share of memory that belongs to no file (anonymous and shared), over
//! all processes of the server. A connection is idle, after one answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use flyball_testkit::wait;

use super::contestant::{Contestant, Server, Setup};
use super::failure::Failure;
use super::files;
use super::options::Options;

/// Idle connections of architectures whose units each hold many.
const MANY: usize = 4_000;

/// Idle connections of architectures that need a unit for each.
const FEW: usize = 64;

/// Helpers that there may be, and connections that ask at once.
const HELPERS: usize = 64;

/// Requests of each of these connections.
const BURSTS: usize = 8;

/// Time that a server gets to settle before it is looked at.
const SETTLE: Duration = Duration::from_millis(1_500);

/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// The architectures, in the order in which they are measured.
pub(crate) const ARCHS: &[&str] = &[
    "sped",
    "symped",
    "n-copy",
    "shared-symped",
    "amped",
    "tux",
    "uring",
    "mp",
    "mt",
    "thread-per-connection",
    "knot-c",
    "knot-a",
    "watpipe",
];

/// How an architecture is measured.
struct Subject {
    arch: &'static str,
    connections: usize,
    /// What one more unit is, the setting that says how many, and two numbers of them.
    unit: Option<(&'static str, &'static str, u32, u32)>,
}

const fn subject(
    arch: &'static str,
    connections: usize,
    unit: Option<(&'static str, &'static str, u32, u32)>,
) -> Subject {
    Subject { arch, connections, unit }
}

const SUBJECTS: &[Subject] = &[
    subject("sped", MANY, None),
    subject("symped", MANY, Some(("process", "workers", 1, 5))),
    subject("n-copy", MANY, Some(("process", "workers", 1, 5))),
    subject("shared-symped", MANY, Some(("process", "workers", 1, 5))),
    subject("amped", MANY, Some(("process", "workers", 1, 5))),
    subject("tux", MANY, None),
    subject("uring", MANY, Some(("process", "workers", 1, 5))),
    subject("mp", FEW, Some(("process", "mp.processes", 64, 96))),
    subject("mt", FEW, Some(("thread", "mt.threads", 64, 128))),
    subject("thread-per-connection", FEW, None),
    subject("knot-c", FEW, Some(("user-level thread", "knot.threads", 100, 1_100))),
    subject("knot-a", MANY, None),
    subject("watpipe", MANY, Some(("thread", "watpipe.writers", 10, 110))),
];

/// Measures and prints a line for each architecture.
pub(crate) fn measure(options: &Options, setup: &Setup) -> Result<bool, Failure> {
    files::prepare(&setup.site).map_err(Failure::io(setup.site.display()))?;
    println!("{:<22} {:>12} {:>16}  one more unit", "", "at rest", "per connection");
    for subject in SUBJECTS {
        let contestant = Contestant::flyball(subject.arch);
        if !options.contestants.contains(&contestant) {
            continue;
        }
        let few = subject.unit.map(|(_, key, few, _)| format!("{key}={few}"));
        let (rest, connected) = look(&contestant, few, subject.connections, setup)?;
        let each = connected.saturating_sub(rest) / subject.connections as u64;
        let unit = match subject.unit {
            None => String::new(),
            Some((name, key, few, many)) => {
                let (more, _) = look(&contestant, Some(format!("{key}={many}")), 0, setup)?;
                let of_unit = more.saturating_sub(rest) / u64::from(many - few);
                format!("{} KiB for a {name}", of_unit / 1024)
            }
        };
        println!("{:<22} {:>8} KiB {each:>10} bytes  {unit}", subject.arch, rest / 1024);
        if subject.arch == "amped" {
            for kind in ["thread", "process"] {
                helper(&contestant, kind, setup)?;
            }
        }
    }
    Ok(true)
}

/// Prints what a helper costs: those that a burst of names on the disk brings, beside the same
/// burst with one helper at most.
fn helper(contestant: &Contestant, kind: &str, setup: &Setup) -> Result<(), Failure> {
    let with = |most: usize| {
        let mut setup = setup.clone();
        let settings = [
            format!("amped.helper-kind={kind}"),
            format!("amped.helpers={most}"),
            format!("amped.reserve={most}"),
        ];
        setup.flyball_settings.extend(settings);
        let server = Server::start(contestant, 0, &setup)?;
        let before = server.running.threads();
        burst(server.address, &format!("{}-{kind}-{most}", std::process::id()))
            .map_err(|error| Failure::Broken(format!("{}: {error}", contestant.name())))?;
        settle();
        Ok::<_, Failure>((server.running.memory(), server.running.threads() - before))
    };
    let ((one, _), (many, helpers)) = (with(1)?, with(HELPERS)?);
    let each = many.saturating_sub(one) / (helpers.max(2) - 1) as u64;
    println!("{:<22} {:>43} KiB for a helper {kind}, of {helpers}", "", each / 1024);
    Ok(())
}

/// Asks for names that nothing knows yet, also no other run, many at once: each needs a helper.
fn burst(address: SocketAddr, name: &str) -> std::io::Result<()> {
    let mut open: Vec<_> =
        (0..HELPERS).map(|_| TcpStream::connect(address)).collect::<Result<_, _>>()?;
    for round in 0..BURSTS {
        for (nth, stream) in open.iter_mut().enumerate() {
            let path = format!("/missing-{name}-{round}-{nth}");
            write!(stream, "HEAD {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
        }
        for stream in &mut open {
            stream.set_read_timeout(Some(ANSWER))?;
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                let mut piece = [0; 1024];
                match stream.read(&mut piece)? {
                    0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                    n => answer.extend_from_slice(&piece[..n]),
                }
            }
        }
    }
    Ok(())
}

/// Bytes at rest, and with so many idle connections.
fn look(
    contestant: &Contestant,
    setting: Option<String>,
    connections: usize,
    setup: &Setup,
) -> Result<(u64, u64), Failure> {
    let mut setup = setup.clone();
    setup.flyball_settings.extend(setting);
    setup.flyball_settings.push("timeout.idle=10min".into());
    let server = Server::start(contestant, 0, &setup)?;
    let broken = |error: std::io::Error| Failure::Broken(format!("{}: {error}", contestant.name()));
    // The first answers fill the caches.
    let warm: Vec<_> =
        (0..4).map(|_| ask(server.address)).collect::<Result<_, _>>().map_err(broken)?;
    drop(warm);
    settle();
    let rest = server.running.memory();
    let open: Vec<_> =
        (0..connections).map(|_| ask(server.address)).collect::<Result<_, _>>().map_err(broken)?;
    settle();
    let connected = server.running.memory();
    drop(open);
    Ok((rest, connected))
}

/// A connection that has had an answer.
fn ask(address: SocketAddr) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER))?;
    let request = format!("GET {} HTTP/1.1\r\nHost: {address}\r\n\r\n", files::SMALL);
    stream.write_all(request.as_bytes())?;
    let mut answer = [0; 8192];
    let mut len = 0;
    // Head and body of the small file, which ends in a line feed or in the middle of a line.
    while len < 1024 || !answer[..len].windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut answer[len..])? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            n => len += n,
        }
    }
    Ok(stream)
}

fn settle() {
    wait::dawdle(SETTLE);
}
