//! Access logs of sites: each line is in the file of the site that answered, whatever else is asked
//! on the same connection, and what one file suffers is no other's.
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::common::trace::{Traced, whole_calls};
use crate::common::{
    Launch, Server, Site, architectures, copy_program, end_successor, has, signal, text, told,
    wait_for, within,
};

/// Sites, and what each says of its log; the directory stands for `{}`.
const SITES: [(&str, &str); 5] = [
    ("own.test", "access-log = \"{}/own/log\""),
    ("shared.test", "access-log = \"{}/shared/log\""),
    ("off.test", "access-log = \"off\""),
    ("too.test", "access-log = \"{}/shared/log\""),
    ("none.test", ""),
];

/// A server with logs of its own and of its sites, each in a directory of its own.
struct Logged {
    directory: TempDir,
    server: Server,
    _site: Site,
}

impl Logged {
    fn start(arch: &str, sites: &[(&str, &str)], more: &str) -> Logged {
        let site = Site::with(&[("small.txt", b"small"), ("large.bin", &[b'y'; 3 << 20])]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        for name in ["own", "shared", "server"] {
            fs::create_dir(within(&directory, name)).expect("it can be made");
        }
        copy_program(&within(&directory, "flyball"));
        let more = format!("arch = \"{arch}\"\naccess-log = \"{{}}/server/log\"\n{more}");
        configure(&directory, &site, sites, &more);
        let launch = Launch::program(&[within(&directory, "flyball").into()]).asked();
        let launch = launch.args(&["--config", text(&within(&directory, "flyball.toml"))]);
        let server = launch.args(&["--listen", "127.0.0.1:0"]).start();
        Logged { directory, server, _site: site }
    }

    fn configure(&self, sites: &[(&str, &str)], more: &str) {
        configure(&self.directory, &self._site, sites, more);
    }

    fn socket(&self) -> PathBuf {
        within(&self.directory, "admin")
    }

    fn log(&self, name: &str) -> PathBuf {
        within(&self.directory, name).join("log")
    }

    /// The lines of a log, sorted: those of several workers are in no order.
    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.log(name)).unwrap_or_default();
        assert!(text.is_empty() || text.ends_with('\n'), "{name}: a torn line");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// Waits until the logs of the server, of the one site and of the two hold just these lines.
    #[track_caller]
    fn wait_for_lines(&self, what: &str, wanted: [&[&str]; 3]) {
        let names = ["server", "own", "shared"];
        let mut seen = Vec::new();
        let all = flyball_testkit::wait::until(flyball_testkit::wait::DEADLINE, || {
            seen = names.map(|name| self.lines(name)).to_vec();
            (seen == wanted).then_some(())
        });
        assert!(all.is_some(), "{what}: {seen:#?} instead of {wanted:#?}");
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        end_successor(&self.directory, &self.server);
    }
}

fn configure(directory: &TempDir, site: &Site, sites: &[(&str, &str)], more: &str) {
    let here = text(directory.path());
    let mut lines = format!(
        "{more}\nadmin = \"unix:{{}}/admin\"\npid-file = \"{{}}/pid\"\nworkers = 2\n\
         mt.threads = 4\nmp.processes = 2\nlog.format = '$host $path $status $sent $end'\n{}",
        flyball_testkit::as_ourselves(),
    );
    for (host, says) in sites {
        lines +=
            &format!("[[site]]\nhosts = [\"{host}\"]\nroot = {:?}\n{says}\n", text(site.path()));
    }
    let path = directory.path().join("flyball.toml");
    fs::write(path, lines.replace("{}", here)).expect("the file is written");
}

fn request(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

/// Asks all sites on one connection, several at once.
fn ask_all(server: &Server, arch: &str) {
    let mut client = server.connect();
    let hosts = SITES.map(|(host, _)| host);
    for path in ["/small.txt", "/none", "/small.txt"] {
        client.send(hosts.map(|host| request(host, path)).concat());
        for host in hosts {
            let status = client.response().status();
            assert_eq!(status, if path == "/none" { 404 } else { 200 }, "{arch}, {host}");
        }
    }
    let large = ["own.test", "off.test", "shared.test"];
    client.send(large.map(|host| request(host, "/large.bin")).concat());
    large.iter().for_each(|_| assert_eq!(client.response().body.len(), 3 << 20, "{arch}"));
    // What no site answers.
    client
        .send(request("other.test", "/small.txt") + "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    assert_eq!([client.response().status(), client.response().status()], [421, 400], "{arch}");
}

#[test]
fn signals_are_looked_for_where_one_has_come_and_not_for_each_log() {
    if !has("strace") {
        return;
    }
    let (site, directory) = (Site::with(&[("small.txt", b"small")]), tempfile::tempdir());
    let directory = directory.expect("a temporary directory");
    for name in ["own", "shared"] {
        fs::create_dir(within(&directory, name)).expect("it can be made");
    }
    configure(&directory, &site, &SITES, "");
    let config = within(&directory, "flyball.toml");
    let traced = Traced::start_from(&["--config", text(&config)], "sped", &["sandbox=off"]);
    let (log, mut client) = (within(&directory, "own").join("log"), traced.server.connect());
    for asked in 1..=3 {
        assert_eq!(client.ask(request("own.test", "/small.txt")).status(), 200);
        let has_line = || fs::read_to_string(&log).is_ok_and(|text| text.lines().count() == asked);
        wait_for("the line", || has_line().then_some(()));
    }
    let trace = fs::read_to_string(&traced.log).expect("there is a trace");
    let calls = whole_calls(&trace);
    let is_line = |text: &str| text.contains("\"own.test /small.txt 200 ");
    let writer = calls.iter().find(|(_, call)| call.name == "write" && is_line(&call.arguments));
    let (writer, _) = writer.expect("it wrote the lines");
    let of_writer = calls.iter().filter(|(process, _)| process == writer);
    let in_vain = of_writer.filter(|(_, call)| call.name == "read" && call.result < 0);
    assert_eq!(in_vain.count(), 0);
}

#[test]
fn each_line_is_in_the_log_of_its_site_on_every_architecture_and_after_reopening() {
    let small =
        |host: &str| [format!("{host} /none 404 "), format!("{host} /small.txt 200 5 whole")];
    for arch in architectures() {
        let logged = Logged::start(arch, &SITES, "");
        for round in ["at first", "after the files were moved away"] {
            ask_all(&logged.server, arch);
            let told = |name: &str| -> BTreeMap<String, usize> {
                let mut counts = BTreeMap::new();
                for line in logged.lines(name) {
                    // How long the text of a refusal is does not matter here.
                    let end = line.find(" 404 ").map_or(line.len(), |at| at + " 404 ".len());
                    *counts.entry(line[..end].to_owned()).or_default() += 1;
                }
                counts
            };
            let of = |hosts: &[&str], more: &[&str]| -> BTreeMap<String, usize> {
                let mut counts = BTreeMap::new();
                for host in hosts {
                    let [none, whole] = small(host);
                    counts.extend([(none, 1), (whole, 2)]);
                }
                counts.extend(more.iter().map(|line| ((*line).to_owned(), 1)));
                counts
            };
            let whole = format!("/large.bin 200 {} whole", 3 << 20);
            let own = of(&["own.test"], &[&format!("own.test {whole}")]);
            let shared = of(&["shared.test", "too.test"], &[&format!("shared.test {whole}")]);
            wait_for(&format!("{arch}: the lines of sites, {round}"), || {
                (told("own") == own && told("shared") == shared).then_some(())
            });
            let server = wait_for("the lines of the server", || {
                let server = told("server");
                (server.values().sum::<usize>() == 5).then_some(server)
            });
            let [none, some] = small("none.test");
            assert_eq!((server[&none], server[&some]), (1, 2), "{arch}: {server:?}");
            let by_none =
                |start: &str| server.keys().filter(|line| line.starts_with(start)).count();
            assert_eq!(
                [by_none("other.test /small.txt 421 "), by_none("- - 400 ")],
                [1, 1],
                "{server:?}"
            );
            for name in ["own", "shared", "server"] {
                fs::rename(logged.log(name), logged.log(name).with_extension(round))
                    .expect("moved");
            }
            signal(logged.server.master(), "USR1");
            wait_for("new files", || {
                ["own", "shared", "server"]
                    .iter()
                    .all(|name| logged.log(name).exists())
                    .then_some(())
            });
        }
    }
}

/// What a connection asked before says nothing about the site of a request that is refused.
#[test]
fn a_request_that_is_refused_for_its_length_is_in_the_log_of_its_site() {
    let logged = Logged::start("sped", &SITES, "");
    let mut client = logged.server.connect();
    assert_eq!(client.ask(request("shared.test", "/small.txt")).status(), 200);
    let long = "POST /up HTTP/1.1\r\nHost: own.test\r\nContent-Length: 99999999\r\n\r\n";
    assert_eq!(client.ask(long).status(), 413);
    wait_for("its line", || {
        logged.lines("own").iter().any(|line| line.starts_with("own.test /up 413 ")).then_some(())
    });
}

#[test]
fn a_reload_and_an_upgrade_move_lines_to_where_the_site_says_now() {
    let mut logged = Logged::start("n-copy", &[("a.test", "access-log = \"{}/own/log\"")], "");
    let ask = |server: &Server, host: &str, path: &str| {
        let mut client = server.connect();
        assert_eq!(client.ask(request(host, path)).status(), 200);
    };
    ask(&logged.server, "a.test", "/small.txt");
    let old = "a.test /small.txt 200 5 whole";
    logged.wait_for_lines("at first", [&[], &[old], &[]]);
    // Another site stands before it, and the log of the server is off.
    let server = "access-log = \"off\"\n";
    logged.configure(
        &[("b.test", "access-log = \"{}/shared/log\""), ("a.test", "access-log = \"{}/own/log\"")],
        server,
    );
    told(&logged.socket(), &["reload"]);
    for host in ["a.test", "b.test"] {
        ask(&logged.server, host, "/small.txt?again");
    }
    let new = "b.test /small.txt 200 5 whole";
    logged.wait_for_lines("after a reload", [&[], &[old, old], &[new]]);
    told(&logged.socket(), &["upgrade"]);
    assert!(logged.server.ended().success());
    for host in ["a.test", "b.test"] {
        ask(&logged.server, host, "/small.txt");
    }
    logged.wait_for_lines("after an upgrade", [&[], &[old, old, old], &[new, new]]);
    // A file that cannot be had changes nothing.
    logged.configure(&[("a.test", "access-log = \"{}/absent/log\"")], server);
    let said = crate::common::refused(&logged.socket(), &["reload"]);
    assert!(said.contains("site.access-log: ") && said.contains("flyball.toml:"), "{said}");
    ask(&logged.server, "b.test", "/small.txt");
    logged.wait_for_lines("afterwards", [&[], &[old, old, old], &[new, new, new]]);
}

#[test]
fn a_full_disk_beneath_the_log_of_one_site_loses_no_line_of_others() {
    let full = ("full.test", "access-log = \"/dev/full\"");
    let logged = Logged::start("symped", &[full, SITES[0], SITES[4]], "");
    let mut client = logged.server.connect();
    for host in ["full.test", "own.test", "none.test", "full.test"] {
        assert_eq!(client.ask(request(host, "/small.txt")).status(), 200);
    }
    let own = "own.test /small.txt 200 5 whole";
    logged.wait_for_lines("the others", [&["none.test /small.txt 200 5 whole"], &[own], &[]]);
    let status = || -> serde_json::Value {
        serde_json::from_str(&told(&logged.socket(), &["status"])).expect("JSON")
    };
    wait_for("what was lost", || {
        let counters = &status()["counters"];
        (counters["access_log_lost"] == 2 && counters["access_log_lines"] == 2).then_some(())
    });
    let said = logged.server.errors.wait_for("why", |said| said.contains("lines are lost"));
    assert!(said.contains("the access log /dev/full cannot be written"), "{said}");
}

#[test]
fn the_log_of_a_site_is_put_aside_by_itself() {
    let logged =
        Logged::start("sped", &[SITES[0], SITES[4]], "log.rotate-size = \"64KiB\"\nlog.keep = 2");
    let mut client = logged.server.connect();
    let long = format!("/{}", "n".repeat(1_000));
    for _ in 0..100 {
        assert_eq!(client.ask(request("own.test", &long)).status(), 404);
    }
    assert_eq!(client.ask(request("none.test", "/small.txt")).status(), 200);
    let aside = |name: &str| logged.log(name).with_extension("1");
    wait_for("a file that is put aside", || aside("own").exists().then_some(()));
    wait_for("the line of the server", || (logged.lines("server").len() == 1).then_some(()));
    assert!(!aside("server").exists());
}

#[test]
fn a_log_of_a_site_that_cannot_be_appended_to_is_refused_with_its_line() {
    let site = Site::with(&[("small.txt", b"x")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let link = within(&directory, "link");
    std::os::unix::fs::symlink("/tmp/elsewhere", &link).expect("a link");
    let config = within(&directory, "flyball.toml");
    for (log, why) in [
        (text(&link), "is a symbolic link, which no log follows"),
        (text(directory.path()), "is a directory"),
        ("/absent/directory/log", "/absent/directory"),
    ] {
        let lines = format!("[[site]]\nroot = {:?}\naccess-log = {log:?}\n", text(site.path()));
        fs::write(&config, lines).expect("it is written");
        let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_flyball"));
        let output = check.args(["check", "--config", text(&config)]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("flyball.toml:3: site.access-log: ") && said.contains(why), "{said}");
    }
    // Only so many: each is a descriptor.
    let one = |at: usize| {
        format!(
            "[[site]]\nhosts = [\"h{at}.test\"]\nroot = {:?}\naccess-log = \"{at}.log\"\n",
            text(site.path())
        )
    };
    fs::write(&config, (0..1_001).map(one).collect::<String>()).expect("it is written");
    let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_flyball"));
    let output = check.args(["check", "--config", text(&config)]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("1001 logs; 1000 are the most"), "{said}");
}
