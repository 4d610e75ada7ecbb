//! `cargo xtask bench quick`: what a request costs Flyball, beside nginx and lighttpd.
//!
//! Every contestant serves the same files with one worker on one CPU; wrk loads it from another.
//! The contestants take turns, so that a drift of the machine meets all of them; only ratios of
//! medians within one comparison count. The figure is the server's CPU time for a request, over all
//! its threads and processes, with wrk's closed loop keeping it busy.

mod beside;
mod check;
mod contestant;
mod disk;
mod failure;
mod fastcgi;
mod files;
mod instructions;
mod kernel;
mod load;
mod measure;
mod memory;
mod options;
mod process;
mod report;
mod rivals;
mod site;
mod tls;
mod work;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use beside::Pair;
use contestant::{Contestant, Server, Setup};
use failure::Failure;
use measure::Run;
use options::{Kind, Options};
use report::Header;
use work::{Connection, Work};

/// Runs `bench` with the arguments that follow it. The exit status is 0 when every target that was
/// measured is met, 1 when one is missed or something failed, 2 when nothing could be run.
pub(crate) fn main(args: Vec<String>) -> ExitCode {
    let result = match options::parse(&args) {
        Ok(Some(options)) => quick(&options),
        Ok(None) => {
            println!("{}", options::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(failure) => Err(failure),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("bench: {failure}");
            ExitCode::from(failure.exit_status())
        }
    }
}

/// Compares, prints and records. Whether all targets were met.
fn quick(options: &Options) -> Result<bool, Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = root.canonicalize().map_err(Failure::io(root.display()))?;
    require_programs(options)?;
    let setup = setup(options, &root)?;
    match options.kind {
        Kind::Disk => return disk::compare(options, setup, &root.join("lab/wrk")),
        Kind::Memory => return memory::measure(options, &setup),
        Kind::Instructions => return instructions::count(options, &setup),
        Kind::Load => return load::compare(options, &setup),
        Kind::Tls => return tls::compare(options, &setup),
        Kind::Site => return site::compare(options, setup, &root.join("lab/wrk")),
        Kind::FastCgi => return fastcgi::compare(options, setup, &root.join("lab/wrk")),
        Kind::Quick | Kind::Arch => {}
    }
    let mut header = header(options, &setup)?;
    eprintln!("preparing {}", setup.site.display());
    files::prepare(&setup.site).map_err(Failure::io(setup.site.display()))?;
    files::let_settle(&setup.site);

    let names: Vec<String> = options.contestants.iter().map(Contestant::name).collect();
    let mut runs = Vec::new();
    let (mut summaries, mut verdicts, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for work in &options.works {
        compare(work, options, &setup, &root.join("lab/wrk"), &mut header.notes, &mut runs)?;
        summaries = report::summarise(&options.works, &names, &runs);
        verdicts = match options.kind {
            Kind::Quick => report::verdicts(&options.works, &summaries),
            _ => rivals::verdicts(&summaries),
        };
        if options.beside.is_some() {
            pairs.extend(against_the_other(work, options, &setup, &runs)?);
        }
        // After each work, so that a comparison that is broken off leaves what it has.
        if let Some(file) = &options.json {
            let record = report::record(&header, &runs, &summaries, &verdicts, &pairs);
            fs::write(file, format!("{record:#}\n")).map_err(Failure::io(file.display()))?;
        }
    }
    print!("{}", report::text(&header, &options.works, &summaries, &verdicts, &pairs));
    Ok(verdicts.iter().all(|verdict| verdict.passed) && pairs.iter().all(Pair::passed))
}

/// What a work costs this build and the other, for each architecture.
fn against_the_other(
    work: &'static Work,
    options: &Options,
    setup: &Setup,
    runs: &[Run],
) -> Result<Vec<Pair>, Failure> {
    let mut pairs = Vec::new();
    for own in &options.contestants {
        if own.beside().is_some() && own.takes_part(work) {
            eprintln!("counting the calls of {} of {}", work.name, own.name());
            let calls = beside::calls(work, own, setup)?;
            pairs.extend(Pair::of(work, own, runs, calls));
        }
    }
    Ok(pairs)
}

/// One work: all contestants are started and checked, then take turns.
fn compare(
    work: &'static Work,
    options: &Options,
    setup: &Setup,
    scripts: &Path,
    notes: &mut Vec<String>,
    runs: &mut Vec<Run>,
) -> Result<(), Failure> {
    let mut changed = Vec::new();
    for (name, value) in work.kernel {
        match kernel::Changed::set(name, value) {
            Ok(change) => changed.push(change),
            Err(error) => {
                let kept = kernel::value(name);
                notes.push(format!("{}: {name} stays {kept}, not {value}: {error}", work.name));
            }
        }
    }
    let mut setup = setup.clone();
    if work.connection == Connection::Close {
        setup.null_arguments = vec!["1024".into(), "close".into()];
    }
    let mut servers = Vec::new();
    for (nth, contestant) in options.contestants.iter().enumerate() {
        if contestant.takes_part(work) {
            let server = Server::start(contestant, nth, &setup)?;
            eprintln!("checking {} of {}", work.name, contestant.name());
            // Its answers are not those of the site.
            if *contestant != Contestant::Null {
                check::answers(server.address, &setup.site, work).map_err(|why| {
                    Failure::Broken(format!("{} of {}: {why}", work.name, contestant.name()))
                })?;
            }
            servers.push(server);
        }
    }
    for round in 1..=options.rounds {
        for server in &mut servers {
            let run = measure::run(server, work, scripts, round, options.seconds)?;
            progress(&run, options.rounds);
            runs.push(run);
        }
    }
    Ok(())
}

/// One line on standard error for each timed run.
fn progress(run: &Run, rounds: u32) {
    let errors = match run.load.errors() {
        0 => String::new(),
        n => format!(", {n} errors"),
    };
    let limit = if run.generator_was_the_limit() { ", wrk was the limit" } else { "" };
    eprintln!(
        "round {}/{rounds} {} {} ... {}/s {} us/{}{errors}{limit}",
        run.round,
        run.work,
        run.contestant,
        report::figure(run.throughput()),
        report::figure(run.cpu_us()),
        run.unit.name(),
    );
}

/// Looks for all programs first, so that a missing one is not found half an hour into a comparison.
fn require_programs(options: &Options) -> Result<(), Failure> {
    for program in ["sh", "setpriv", "taskset", "wrk"] {
        process::find(program)?;
    }
    for contestant in &options.contestants {
        match contestant {
            Contestant::Flyball { .. } | Contestant::Null => {}
            Contestant::Nginx { .. } => drop(process::find("nginx")?),
            Contestant::Lighttpd => drop(process::find("lighttpd")?),
        }
    }
    for cpu in [contestant::SERVER_CPU, measure::GENERATOR_CPU] {
        let mut command = process::pinned(cpu, Path::new("true"))?;
        let output = command.output().map_err(Failure::io("running taskset"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure::Unusable(format!("CPU {cpu} cannot be used: {why}")));
        }
    }
    Ok(())
}

/// Directories, and Flyball's binary: the given one, or a release build of this workspace.
fn setup(options: &Options, root: &Path) -> Result<Setup, Failure> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    fs::create_dir_all(&target).map_err(Failure::io(target.display()))?;
    let target = target.canonicalize().map_err(Failure::io(target.display()))?;
    let given = |path: &PathBuf| match path.is_file() {
        false => Err(Failure::Unusable(format!("no such file: {}", path.display()))),
        // With its directory, or the search path would be looked through.
        true => path.canonicalize().map_err(Failure::io(path.display())),
    };
    let flyball = options.flyball.as_ref().map_or(Ok(target.join("release/flyball")), given)?;
    let beside = options.beside.as_ref().map_or(Ok(PathBuf::new()), given)?;
    let takes_part = options.contestants.iter().any(|c| matches!(c, Contestant::Flyball { .. }));
    if takes_part && options.flyball.is_none() {
        build("flyball", root)?;
    }
    if options.contestants.contains(&Contestant::Null) || options.kind == Kind::Load {
        build("flyball-null", root)?;
    }
    if options.kind == Kind::FastCgi {
        build("conformance", root)?;
    }
    Ok(Setup {
        peers: root.join("lab/peers"),
        site: target.join("bench-site"),
        scratch: target.join("bench-run"),
        flyball,
        beside,
        joins: None,
        counts: None,
        config: None,
        null: target.join("release/flyball-null"),
        null_arguments: Vec::new(),
        flyball_settings: options.flyball_settings.clone(),
    })
}

fn build(package: &str, root: &Path) -> Result<(), Failure> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--release", "--package", package]).current_dir(root);
    let status = cargo.status().map_err(Failure::io("running cargo build"))?;
    let failed = || Failure::Broken(format!("{package} does not build"));
    status.success().then_some(()).ok_or_else(failed)
}

fn header(options: &Options, setup: &Setup) -> Result<Header, Failure> {
    let mut wrk = Command::new(process::find("wrk")?);
    let mut versions = vec![("wrk".to_owned(), contestant::first_line(wrk.arg("-v"))?)];
    for contestant in &options.contestants {
        versions.push((contestant.name(), contestant.version(setup)?));
    }
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut models = cpu_info.lines().filter_map(|line| line.strip_prefix("model name"));
    let cpu_model = models.next().unwrap_or_default().trim_start_matches(['\t', ' ', ':']);
    Ok(Header {
        rounds: options.rounds,
        seconds: options.seconds,
        started_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs()),
        kernel: kernel::value("kernel/osrelease"),
        cpus: cpu_info.lines().filter(|line| line.starts_with("processor")).count(),
        cpu_model: cpu_model.to_owned(),
        congestion_control: kernel::value("net/ipv4/tcp_congestion_control"),
        versions,
        notes: Vec::new(),
    })
}
