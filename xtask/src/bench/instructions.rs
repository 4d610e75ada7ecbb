//! `bench instructions`: how many instructions of a server's own a request takes, counted by
//! callgrind, of this build and of another. A count has no noise to speak of, so that a step of one
//! in a hundred is seen; what the kernel does for the request is not in it.

use std::fs;
use std::path::Path;

use super::check;
use super::contestant::{Contestant, Server, Setup};
use super::failure::Failure;
use super::files;
use super::options::Options;
use super::work::{Connection, PIPELINE_DEPTH, Work};

/// The architectures that are counted unless told otherwise: valgrind 3.19 knows too little of
/// io_uring for the ring's.
pub(crate) const ARCHS: &[&str] = &["sped", "mt"];

/// The works that are counted unless told otherwise.
pub(crate) const WORKS: &[&str] = &["new", "keep", "pipe"];

/// Requests by which two runs differ, at least: what a start costs is in both.
const COUNTED: usize = 2_000;

/// Requests of the shorter run, at least: caches are warm then.
const WARMING: usize = 100;

/// What this build may take of the other's instructions.
const AT_MOST: f64 = 1.02;

/// Counts and prints a line for each work of each architecture. Whether this build takes no more
/// than it may.
pub(crate) fn count(options: &Options, setup: &Setup) -> Result<bool, Failure> {
    files::prepare(&setup.site).map_err(Failure::io(setup.site.display()))?;
    files::let_settle(&setup.site);
    let mut setup = setup.clone();
    // Its filter would end the tool.
    setup.flyball_settings.push("sandbox=off".into());
    let mut passed = true;
    println!("{:<16} {:<6} {:>10} {:>10} {:>7}", "", "", "this build", "beside", "ratio");
    let own = |contestant: &&Contestant| {
        matches!(contestant, Contestant::Flyball { .. }) && contestant.beside().is_some()
    };
    for contestant in options.contestants.iter().filter(own) {
        let beside = options.beside.as_ref().and(contestant.beside());
        for work in &options.works {
            let of_this = per_request(contestant, work, &setup)?;
            print!("{:<16} {:<6} {of_this:>10.0}", contestant.name(), work.name);
            if let Some(beside) = &beside {
                let of_other = per_request(beside, work, &setup)?;
                let ratio = of_this / of_other;
                let verdict = if ratio <= AT_MOST { "PASS" } else { "MISS" };
                print!(" {of_other:>10.0} {ratio:>7.3} {verdict}");
                passed &= ratio <= AT_MOST;
            }
            println!();
        }
    }
    Ok(passed)
}

/// Instructions for a request: the difference of two runs.
fn per_request(contestant: &Contestant, work: &Work, setup: &Setup) -> Result<f64, Failure> {
    let once = match work.connection {
        Connection::Close => work.sample().len(),
        Connection::KeepAlive => work.kept_requests(),
        Connection::Pipelined => work.sample().len() * PIPELINE_DEPTH,
    };
    let (few, more) = (WARMING.div_ceil(once), COUNTED.div_ceil(once));
    let short = run(contestant, work, few, setup)?;
    let long = run(contestant, work, few + more, setup)?;
    Ok(long.saturating_sub(short) as f64 / (more * once) as f64)
}

/// Instructions of all processes of a server from its start to its end, with so many times the
/// requests of the work between.
fn run(contestant: &Contestant, work: &Work, times: usize, setup: &Setup) -> Result<u64, Failure> {
    let counts = setup.scratch.join("callgrind");
    // What an earlier run left; it need not be there.
    let _ = fs::remove_dir_all(&counts);
    fs::create_dir_all(&counts).map_err(Failure::io(counts.display()))?;
    let setup = Setup { counts: Some(counts.clone()), ..setup.clone() };
    eprintln!("counting {} of {}, {times} times", work.name, contestant.name());
    let server = Server::start(contestant, 0, &setup)?;
    let asked = (0..times).try_for_each(|_| check::answers(server.address, &setup.site, work));
    // Each process writes what it has counted when it ends.
    drop(server);
    asked
        .map_err(|why| Failure::Broken(format!("{} of {}: {why}", work.name, contestant.name())))?;
    let sum = sum(&counts).map_err(Failure::io(counts.display()))?;
    let none = || Failure::Broken(format!("callgrind left no count in {}", counts.display()));
    (sum > 0).then_some(sum).ok_or_else(none)
}

/// What the files of callgrind in a directory say.
fn sum(directory: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        sum += total(&fs::read_to_string(entry?.path())?).unwrap_or(0);
    }
    Ok(sum)
}

/// The count that a file of callgrind ends with.
fn total(text: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_a_file_is_its_total() {
        let text = "version: 1\nevents: Ir\nsummary: 7\n\nfn=(1)\n16 3\n\ntotals: 1234\n";
        assert_eq!(total(text), Some(1234));
        assert_eq!(total("version: 1\n"), None);
    }
}
