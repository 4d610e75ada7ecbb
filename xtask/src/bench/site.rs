//! `cargo xtask bench site`: what the features of a site cost a cached request: rules of fields and
//! redirects, the access log, a body that was compressed before, and a module that answers.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use serde_json::json;

use super::contestant::{Contestant, Server, Setup};
use super::failure::Failure;
use super::files;
use super::measure::{self, Run};
use super::options::Options;
use super::report;
use super::work::{self, Work};

/// The architectures that are measured unless others are chosen.
pub(crate) const ARCHS: &[&str] = &["sped", "n-copy"];

/// Rules of the site that has many.
const REDIRECTS: usize = 50;
const FIELD_RULES: usize = 200;
const HOSTS: usize = 20;

/// A page that is compressed, and a file that is as long as the result.
const PAGE: &str = "/page.html";
const EQUAL: &str = "/equal.bin";

/// Bytes of the page: some KiB, as pages are.
const PAGE_BYTES: usize = 16 * 1024;

/// One way to serve, and what of its own is asked for.
struct Dress {
    name: &'static str,
    work: &'static Work,
    /// What its figure is divided by, and the most that this may be.
    target: Option<(&'static str, f64)>,
}

/// The small file of one of the hosts.
static SMALL: Work = Work { script: "host.lua", targets: &[], ..work::KEEP };

static PLAIN: Work =
    Work { name: "equal", path: EQUAL, script: "coded.lua", targets: &[], ..work::KEEP };

static CODED: Work =
    Work { name: "coded", path: PAGE, script: "coded.lua", targets: &[], ..work::KEEP };

/// A file, and a module that says the same.
const PONG: &str = "/pong.txt";
const MODULE: &str = "/module";
const SAID: &str = "pong";

static FILE: Work =
    Work { name: "pong", path: PONG, script: "get.lua", targets: &[], ..work::KEEP };

static ANSWERED: Work =
    Work { name: "module", path: MODULE, script: "get.lua", targets: &[], ..work::KEEP };

const DRESSES: &[Dress] = &[
    Dress { name: "bare", work: &SMALL, target: None },
    Dress { name: "rules", work: &SMALL, target: Some(("bare", 1.10)) },
    Dress { name: "logged", work: &SMALL, target: Some(("bare", 1.08)) },
    Dress { name: "equal", work: &PLAIN, target: None },
    Dress { name: "coded", work: &CODED, target: Some(("equal", 1.05)) },
    Dress { name: "file", work: &FILE, target: None },
    Dress { name: "module", work: &ANSWERED, target: Some(("file", 1.15)) },
];

/// Compares, prints and records. Whether all targets were met.
pub(crate) fn compare(
    options: &Options,
    mut setup: Setup,
    scripts: &Path,
) -> Result<bool, Failure> {
    setup.site = setup.site.with_file_name("bench-pages");
    prepare(&setup.site).map_err(Failure::io(setup.site.display()))?;
    let mut runs: Vec<(&str, Run)> = Vec::new();
    for contestant in &options.contestants {
        let mut servers = Vec::new();
        for (nth, dress) in DRESSES.iter().enumerate() {
            let setup = dressed(dress, &setup)?;
            let server = Server::start(contestant, nth, &setup)?;
            if dress.name == "equal" {
                let length = coded_length(server.address)
                    .map_err(|why| Failure::Broken(format!("{PAGE}: {why}")))?;
                let file = files::on_disk(&setup.site, EQUAL);
                fs::write(&file, vec![b'.'; length]).map_err(Failure::io(file.display()))?;
            }
            servers.push(server);
        }
        for round in 1..=options.rounds {
            for (dress, server) in DRESSES.iter().zip(&mut servers) {
                let mut run = measure::run(server, dress.work, scripts, round, options.seconds)?;
                run.contestant = format!("{}, {}", contestant.name(), dress.name);
                super::progress(&run, options.rounds);
                runs.push((dress.name, run));
            }
        }
    }
    let (text, passed) = summary(&options.contestants, &runs);
    if let Some(file) = &options.json {
        let record: Vec<_> = runs.iter().map(|(_, run)| report::run_record(run)).collect();
        let record = json!({ "summary": text, "runs": record });
        fs::write(file, format!("{record:#}\n")).map_err(Failure::io(file.display()))?;
    }
    print!("{text}");
    Ok(passed)
}

fn prepare(site: &Path) -> std::io::Result<()> {
    fs::create_dir_all(site)?;
    fs::write(files::on_disk(site, files::SMALL), vec![b'.'; 1024])?;
    fs::write(files::on_disk(site, PONG), SAID)?;
    let line = |at: usize| format!("<p>Line {at} of a page, number {}.</p>\n", at * 7919 % 1000);
    let mut page: String = (0..).map(line).take(PAGE_BYTES / 30).collect();
    page.truncate(PAGE_BYTES);
    fs::write(files::on_disk(site, PAGE), page)
}

/// The settings of a dress, in directories of its own.
fn dressed(dress: &Dress, setup: &Setup) -> Result<Setup, Failure> {
    let mut setup = setup.clone();
    setup.scratch = setup.scratch.join(dress.name);
    fs::create_dir_all(&setup.scratch).map_err(Failure::io(setup.scratch.display()))?;
    match dress.name {
        "logged" => {
            let log = setup.scratch.join("access.log");
            setup.flyball_settings.push(format!("access-log={}", log.display()));
        }
        "rules" => {
            let file = setup.scratch.join("rules.toml");
            fs::write(&file, rules(&setup.site)).map_err(Failure::io(file.display()))?;
            setup.config = Some(file);
        }
        "module" => {
            let file = setup.scratch.join("module.toml");
            let root = setup.site.display().to_string();
            let text = format!(
                "[[site]]\nroot = {root:?}\n[[site.module]]\npath = {MODULE:?}\n\
                 name = \"hello\"\noptions = {{ text = {SAID:?} }}\n"
            );
            fs::write(&file, text).map_err(Failure::io(file.display()))?;
            setup.config = Some(file);
        }
        _ => {}
    }
    Ok(setup)
}

/// A configuration with many rules, some of which hold for the small file.
fn rules(site: &Path) -> String {
    let mut hosts: Vec<String> = (1..HOSTS).map(|at| format!("\"host{at}.example.org\"")).collect();
    hosts.push("\"*\"".into());
    let root = site.display().to_string();
    let mut text = format!("[[site]]\nroot = {root:?}\nhosts = [{}]\n", hosts.join(", "));
    for at in 0..REDIRECTS {
        let from = match at % 3 {
            0 => format!("/old/{at}"),
            1 => format!("/past/{at}/*"),
            _ => format!("~^/gone/{at}/([a-z]+)$"),
        };
        text += &format!("[[site.redirect]]\nfrom = {from:?}\nto = \"/new/{at}\"\n");
    }
    for at in 0..FIELD_RULES {
        let path = match at % 4 {
            0 => "/*".to_owned(),
            1 => format!("/part/{at}/*"),
            2 => format!("/page/{at}"),
            _ => format!("~^/[a-z]+/{at}$"),
        };
        let set = if at < 8 { format!("X-Rule-{at}") } else { format!("X-Rule-{}", at % 8) };
        text += &format!("[[site.header]]\npath = {path:?}\nset = {{ {set} = \"{at}\" }}\n");
    }
    text
}

/// The length of the page for a client that accepts Brotli.
fn coded_length(address: SocketAddr) -> Result<usize, String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        let request = format!(
            "GET {PAGE} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = ask().map_err(|error| error.to_string())?;
    let field = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name));
    if field("Content-Encoding: ") != Some("br") {
        return Err("is not compressed".into());
    }
    let length = field("Content-Length: ").and_then(|value| value.parse().ok());
    length.ok_or_else(|| "has no length".into())
}

/// A line for each dress, and whether every one of them costs little enough: by the median of what
/// it costs more than its base in the same round.
fn summary(contestants: &[Contestant], runs: &[(&str, Run)]) -> (String, bool) {
    let (mut text, mut passed) = (format!("{}\n", SMALL.title), true);
    for contestant in contestants.iter().map(Contestant::name) {
        let rounds = |dress: &str| -> Vec<f64> {
            let name = format!("{contestant}, {dress}");
            let of_dress = runs.iter().filter(|(_, run)| run.contestant == name);
            of_dress.map(|(_, run)| run.cpu_us()).collect()
        };
        for dress in DRESSES {
            let own = rounds(dress.name);
            let verdict = dress.target.map(|(base, at_most)| {
                let pairs = own.iter().zip(rounds(base));
                let ratio = report::Spread::of(pairs.map(|(own, base)| own / base));
                let word = if ratio.median <= at_most { "PASS" } else { "MISS" };
                passed &= ratio.median <= at_most;
                format!(", {} of {base}, at most {at_most} {word}", ratio.text())
            });
            let own = report::Spread::of(own.into_iter());
            let name = format!("{contestant}, {}", dress.name);
            text += &format!(
                "  {name:<24} {} CPU us/request{}\n",
                own.text(),
                verdict.unwrap_or_default()
            );
        }
    }
    (text, passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_with_rules_has_as_many_as_it_says() {
        let text = rules(Path::new("site"));
        assert_eq!(text.matches("[[site.redirect]]").count(), REDIRECTS);
        assert_eq!(text.matches("[[site.header]]").count(), FIELD_RULES);
        assert_eq!(text.matches(".example.org").count() + 1, HOSTS);
    }
}
