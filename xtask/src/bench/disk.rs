//! `cargo xtask bench disk`: a file set four times as large as the memory that a server may use, so
//! that most answers come from the disk. What counts is throughput: an architecture that waits for
//! one file at a time leaves the disk and the processor idle in turn.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::contestant::{Contestant, Server, Setup};
use super::failure::Failure;
use super::files;
use super::measure::{self, Run};
use super::options::Options;
use super::report::{self, figure};
use super::work::{Connection, Unit, Work};

/// Number of files; lab/wrk/uniform.lua is told.
const FILES: usize = 16_384;

/// Bytes of each.
const FILE_BYTES: u64 = 16 * 1024;

/// Memory of the server's group, its share of the page cache included: a quarter of the files.
const MEMORY_BYTES: u64 = FILES as u64 * FILE_BYTES / 4;

/// Settings of every contestant: most of the memory is the page cache's.
const SETTINGS: &[&str] = &["cache.content=4MiB", "cache.files=64", "cache.paths=20000"];

/// Architectures, the one that all others are compared with first.
pub(crate) const ARCHS: &[&str] = &["sped", "amped", "mt", "watpipe", "uring"];

/// Least throughput of the others, as a multiple of the first one's.
const TIMES_AT_LEAST: f64 = 1.5;

/// Where version 1 of the kernel's memory controller is.
const CGROUP_1: &str = "/sys/fs/cgroup/memory";

/// Where version 2 of all controllers is.
const CGROUP_2: &str = "/sys/fs/cgroup";

const WORK: Work = Work {
    name: "disk",
    title: "16 KiB each of 16,384 files, keep-alive, 64 connections, memory for a quarter of them",
    connections: 64,
    crowded: false,
    script: "uniform.lua",
    arguments: &["16384", "1999"],
    path: "/",
    connection: Connection::KeepAlive,
    unit: Unit::Request,
    kernel: &[],
    targets: &[],
};

/// Compares, prints and records. Whether all targets were met.
pub(crate) fn compare(
    options: &Options,
    mut setup: Setup,
    scripts: &Path,
) -> Result<bool, Failure> {
    static WORK: Work = self::WORK;
    setup.site = setup.site.with_file_name("bench-disk");
    eprintln!("preparing {}", setup.site.display());
    files::prepare_many(&setup.site, FILES, FILE_BYTES)
        .map_err(Failure::io(setup.site.display()))?;
    files::let_settle(&setup.site);
    let settings = SETTINGS.iter().map(|setting| (*setting).to_owned());
    setup.flyball_settings = settings.chain(setup.flyball_settings).collect();
    let group = Group::make(MEMORY_BYTES)?;
    setup.joins = Some(group.processes());
    let mut runs: Vec<Run> = Vec::new();
    for round in 1..=options.rounds {
        for (nth, contestant) in options.contestants.iter().enumerate() {
            drop_caches()?;
            let mut server = Server::start(contestant, nth, &setup)?;
            let run = measure::run(&mut server, &WORK, scripts, round, options.seconds)?;
            super::progress(&run, options.rounds);
            runs.push(run);
        }
    }
    let text = summary(&options.contestants, &runs);
    if let Some(file) = &options.json {
        let record: Vec<_> = runs.iter().map(report::run_record).collect();
        let record = serde_json::json!({
            "work": WORK.title, "memory_bytes": MEMORY_BYTES, "settings": SETTINGS, "runs": record,
        });
        fs::write(file, format!("{record:#}\n")).map_err(Failure::io(file.display()))?;
    }
    print!("{}", text.0);
    Ok(text.1)
}

/// A line for each contestant, and whether every one of them is fast enough.
fn summary(contestants: &[Contestant], runs: &[Run]) -> (String, bool) {
    let spread = |name: &str, value: fn(&Run) -> f64| {
        report::Spread::of(runs.iter().filter(|run| run.contestant == name).map(value))
    };
    let mut text = format!("{}\n", WORK.title);
    let mut passed = true;
    let base = spread(&contestants[0].name(), Run::throughput).median;
    for (at, contestant) in contestants.iter().enumerate() {
        let name = contestant.name();
        let rate = spread(&name, Run::throughput);
        let times = rate.median / base;
        let verdict = match at {
            0 => "",
            _ if times >= TIMES_AT_LEAST => "PASS",
            _ => "MISS",
        };
        passed &= verdict != "MISS";
        text += &format!(
            "  {name:<22} {} req/s, {} CPU us/request, {times:.2} times {} {verdict}\n",
            rate.text(),
            figure(spread(&name, Run::cpu_us).median),
            contestants[0].name(),
        );
    }
    (text, passed)
}

/// Throws the page cache away, and the names that the kernel knows.
fn drop_caches() -> Result<(), Failure> {
    let file = "/proc/sys/vm/drop_caches";
    fs::write(file, "3").map_err(Failure::io(file))
}

/// A group of processes with limited memory. Removed when dropped.
struct Group {
    directory: PathBuf,
}

impl Group {
    /// Makes one; needs root.
    fn make(memory_bytes: u64) -> Result<Group, Failure> {
        let old = Path::new(CGROUP_1).is_dir();
        let base = if old { CGROUP_1 } else { CGROUP_2 };
        let directory = Path::new(base).join(format!("flyball-bench-{}", std::process::id()));
        let make = || -> io::Result<()> {
            fs::create_dir(&directory)?;
            let limit = if old { "memory.limit_in_bytes" } else { "memory.max" };
            fs::write(directory.join(limit), memory_bytes.to_string())
        };
        make().map_err(Failure::io(directory.display()))?;
        Ok(Group { directory })
    }

    /// Where a process writes its id to join.
    fn processes(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It fails while a process is left, which then has to be seen.
        let _ = fs::remove_dir(&self.directory);
    }
}
