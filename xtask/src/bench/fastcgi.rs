//! `cargo xtask bench fastcgi`: what a request costs that php-fpm answers, beside nginx and a
//! gateway that does nothing (lab/null) with the same php-fpm. Only the web server's own processor
//! time counts. Then how many requests a second a module, a responder and a CGI program answer, the
//! last two the same program, on the server's processor: one that does nothing else, and php-cgi
//! where there is one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use flyball_testkit::wait;
use serde_json::json;

use super::contestant::{Contestant, Server, Setup, is_root};
use super::failure::Failure;
use super::measure::{self, Run};
use super::options::Options;
use super::process::{self, Running};
use super::report::{self, figure};
use super::work::{self, Work};

/// The architectures that are measured unless others are chosen.
pub(crate) const ARCHS: &[&str] = &["n-copy"];

/// Largest share of nginx's processor time that meets the target.
const AT_MOST: f64 = 0.85;

/// Longest wait for php-fpm.
const READY_MAX: Duration = Duration::from_secs(10);

static HELLO: Work = PAGE;

const PAGE: Work = Work {
    name: "fastcgi",
    title: "hello from php-fpm, 4 connections, a link for each request",
    path: "/hello.php",
    script: "get.lua",
    connections: 4,
    targets: &[],
    ..work::KEEP
};

/// What is to be how many times as fast as what, by medians.
const RATES: [(&str, &str, f64); 3] =
    [("module", "fastcgi", 3.0), ("responder", "cgi", 20.0), ("php-responder", "php-cgi", 20.0)];

static MODULE: Work = Work { name: "module", path: "/module", ..PAGE };
static RESPONDER: Work = Work { name: "responder", path: "/responder/hello", ..PAGE };
static CGI: Work = Work { name: "cgi", path: "/cgi/hello", ..PAGE };
static PHP_RESPONDER: Work = Work { name: "php-responder", path: "/php-responder", ..PAGE };
static PHP_CGI: Work = Work { name: "php-cgi", path: "/php-cgi/hello.cgi", ..PAGE };

/// php as a program that is started for each request, and as a responder.
const PHP_PROGRAM: &str = "/usr/bin/php-cgi";

/// What a Flyball is asked for.
const OF_FLYBALL: &[&Work] = &[&HELLO, &MODULE, &RESPONDER, &CGI, &PHP_RESPONDER, &PHP_CGI];

/// Whether what it takes is installed.
fn can_run(work: &Work) -> bool {
    !work.name.starts_with("php-") || Path::new(PHP_PROGRAM).exists()
}

/// What nginx is told beside what it is told for files.
const LOCATION: &str = "location ~ \\.php$ {
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_pass unix:@socket@;
        }
        root \"@site@\";";

/// Compares, prints and records. Whether the target was met.
pub(crate) fn compare(
    options: &Options,
    mut setup: Setup,
    scripts: &Path,
) -> Result<bool, Failure> {
    setup.site = setup.site.with_file_name("bench-php");
    setup.scratch = setup.scratch.join("fastcgi");
    let (socket, _php) = prepare(&mut setup)?;
    let script = setup.site.join("hello.php");
    setup.null = setup.null.with_file_name("flyball-null-gateway");
    setup.null_arguments = vec![socket.clone().into(), script.into()];
    let mut servers = Vec::new();
    for (nth, contestant) in options.contestants.iter().enumerate() {
        servers.push(Server::start(contestant, nth, &setup)?);
    }
    let mut runs: Vec<Run> = Vec::new();
    for round in 1..=options.rounds {
        for (contestant, server) in options.contestants.iter().zip(&mut servers) {
            let works: &[_] = match contestant {
                Contestant::Flyball { .. } => OF_FLYBALL,
                _ => &[&HELLO],
            };
            for work in works.iter().filter(|work| can_run(work)) {
                let run = measure::run(server, work, scripts, round, options.seconds)?;
                super::progress(&run, options.rounds);
                runs.push(run);
            }
        }
    }
    let (text, passed) = summary(&options.contestants, &runs);
    if let Some(file) = &options.json {
        let record: Vec<_> = runs.iter().map(report::run_record).collect();
        let record = json!({ "summary": text, "runs": record });
        fs::write(file, format!("{record:#}\n")).map_err(Failure::io(file.display()))?;
    }
    print!("{text}");
    // It is of no use to the next comparison, and need not be there.
    let _ = fs::remove_file(socket);
    Ok(passed)
}

/// Writes the script and the configurations, and starts php-fpm.
fn prepare(setup: &mut Setup) -> Result<(PathBuf, Running), Failure> {
    let scratch = setup.scratch.clone();
    let write =
        |path: &Path, text: &str| fs::write(path, text).map_err(Failure::io(path.display()));
    for directory in [&setup.site, &scratch, &scratch.join("peers")] {
        fs::create_dir_all(directory).map_err(Failure::io(directory.display()))?;
    }
    let socket = scratch.join("php.sock");
    let script = "<?php header('Content-Type: text/plain'); echo \"hello\\n\";\n";
    write(&setup.site.join("hello.php"), script)?;
    let template = setup.peers.join("nginx.conf.in");
    let nginx = fs::read_to_string(&template).map_err(Failure::io(template.display()))?;
    let location = LOCATION.replace("@socket@", &socket.display().to_string());
    let nginx = nginx.replace("root \"@site@\";", &location);
    write(&scratch.join("peers/nginx.conf.in"), &nginx)?;
    setup.peers = scratch.join("peers");
    let cgi = scratch.join("cgi");
    fs::create_dir_all(&cgi).map_err(Failure::io(cgi.display()))?;
    let program = cgi.join("hello.cgi");
    write(&program, &format!("#!{PHP_PROGRAM}\n{script}"))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
        .map_err(Failure::io(program.display()))?;
    let flyball = scratch.join("flyball.toml");
    let (root, at) = (setup.site.display(), socket.display());
    let program = setup.flyball.with_file_name("backend");
    let program = program.display();
    let php = match can_run(&PHP_CGI) {
        true => format!(
            "[[site.fastcgi]]\npath = \"{}\"\nprogram = \"{PHP_PROGRAM}\"\nprocesses = 1\n\
             script = \"{root}/hello.php\"\n\
             [[site.cgi]]\npath = \"/php-cgi\"\nroot = \"{}\"\n",
            PHP_RESPONDER.path,
            cgi.display()
        ),
        false => String::new(),
    };
    write(
        &flyball,
        &format!(
            "[[site]]\nroot = \"{root}\"\n[[site.fastcgi]]\nextensions = [\"php\"]\n\
             socket = \"unix:{at}\"\n\
             [[site.module]]\npath = \"/module\"\nname = \"hello\"\n\
             [[site.fastcgi]]\npath = \"/responder\"\nprogram = \"{program}\"\nprocesses = 1\n\
             [[site.cgi]]\npath = \"/cgi\"\nprogram = \"{program}\"\n{php}"
        ),
    )?;
    setup.config = Some(flyball);
    let user = if is_root() { "user = root\ngroup = root\n" } else { "" };
    let fpm = scratch.join("fpm.conf");
    let log = scratch.join("fpm.log");
    let pool = format!(
        "[global]\nerror_log = {}\ndaemonize = no\n[bench]\n{user}listen = {at}\n\
         listen.mode = 0666\npm = static\npm.max_children = 8\n",
        log.display()
    );
    write(&fpm, &pool)?;
    // An earlier one's.
    let _ = fs::remove_file(&log);
    let mut php = Command::new(process::find("php-fpm8.2")?);
    let php = Running::start(php.args(["-F", "-R", "-y"]).arg(&fpm))?;
    let ready = || {
        let said = fs::read_to_string(&log).unwrap_or_default();
        said.contains("ready to handle").then_some(())
    };
    let not_ready = || Failure::Broken("php-fpm does not get ready".into());
    wait::until(READY_MAX, ready).ok_or_else(not_ready)?;
    Ok((socket, php))
}

/// A line for each server, and whether every Flyball costs little enough.
fn summary(contestants: &[Contestant], runs: &[Run]) -> (String, bool) {
    let of = |name: &str, work: &str, figure: fn(&Run) -> f64| {
        let runs = runs.iter().filter(|run| run.contestant == name && run.work == work);
        report::Spread::of(runs.map(figure))
    };
    let spread = |name: &str| of(name, HELLO.name, Run::cpu_us);
    let (mut text, mut passed) = (format!("{}\n", HELLO.title), true);
    for contestant in contestants {
        let (name, own) = (contestant.name(), spread(&contestant.name()));
        let mut verdict = String::new();
        if matches!(contestant, Contestant::Flyball { .. }) {
            let ratio = own.median / spread("nginx").median;
            let word = if ratio <= AT_MOST { "PASS" } else { "MISS" };
            passed &= ratio <= AT_MOST;
            verdict = format!(", {} of nginx, at most {AT_MOST} {word}", figure(ratio));
        }
        text += &format!("  {name:<24} {} CPU us/request{verdict}\n", own.text());
    }
    text += "requests a second, each kind alone, answered on one processor (of php-fpm on two)\n";
    for contestant in contestants {
        let name = contestant.name();
        if !matches!(contestant, Contestant::Flyball { .. }) {
            continue;
        }
        for work in OF_FLYBALL.iter().filter(|work| can_run(work)) {
            let own = of(&name, work.name, Run::throughput);
            let mut verdict = String::new();
            for (_, base, least) in RATES.iter().filter(|(of, ..)| *of == work.name) {
                let times = own.median / of(&name, base, Run::throughput).median;
                let word = if times >= *least { "PASS" } else { "MISS" };
                passed &= times >= *least;
                verdict = format!(", {} times {base}, at least {least} {word}", figure(times));
            }
            text += &format!("  {name:<14} {:<13} {}{verdict}\n", work.name, own.text());
        }
    }
    (text, passed)
}
