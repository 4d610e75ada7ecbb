//! What `ps` shows: each process of a server by what it is for, whatever it was started with.
use tempfile::TempDir;

use crate::common::{
    Launch, Server, Site, architectures, children, ctl, descendants, end_successor, get, signal,
    text, title, told, wait_for, within, write_script,
};

/// A server with processes of all kinds, and where its files are.
struct Running {
    directory: TempDir,
    server: Server,
    _site: Site,
}

impl Running {
    fn start(arch: &str) -> Running {
        let site = Site::with(&[("small.txt", b"small")]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let programs = within(&directory, "programs");
        std::fs::create_dir(&programs).expect("it can be made");
        write_script(&programs.join("say"), "echo Content-Type: text/plain\necho\necho said");
        let at = |name: &str| text(&within(&directory, name)).to_owned();
        let lines = format!(
            "arch = \"{arch}\"\nworkers = 2\nmp.processes = 2\nadmin = \"unix:{}\"\n{}\
             pid-file = {:?}\naccess-log = {:?}\namped.helper-kind = \"process\"\n[acme]\n\
             directory = \"https://127.0.0.1:1/dir\"\nstorage = {:?}\n[[site]]\nroot = {:?}\n\
             hosts = [\"a.test\"]\ncertificate = \"acme\"\n[[site.cgi]]\npath = \"/run\"\n\
             root = {:?}\n[[site]]\nhosts = [\"*\"]\nroot = {:?}\n\
             certificate = \"none\"\n",
            at("admin"),
            flyball_testkit::as_ourselves(),
            at("pid"),
            at("access.log"),
            at("acme"),
            text(site.path()),
            text(&programs),
            text(site.path()),
        );
        let config = within(&directory, "flyball.toml");
        std::fs::write(&config, lines).expect("the file is written");
        let listen = ["--listen", "127.0.0.1:0", "--listen", "https://127.0.0.1:0"];
        let server =
            Launch::bare::<&str>(&[]).asked().args(&["--config", text(&config)]).args(&listen);
        Running { directory, server: server.start(), _site: site }
    }

    fn socket(&self) -> std::path::PathBuf {
        within(&self.directory, "admin")
    }

    /// Waits until the processes of this master have these titles, beside those that there always
    /// are.
    #[track_caller]
    fn wait_for(&self, master: u32, workers: &[&str]) {
        let master_of = format!("master {}", within(&self.directory, "flyball.toml").display());
        let kinds = ["acme-agent", "admin", "log", &master_of, "spawner"];
        let mut wanted: Vec<String> =
            kinds.iter().chain(workers).map(|kind| format!("flyball: {kind}")).collect();
        wanted.sort();
        let mut seen = Vec::new();
        let all = flyball_testkit::wait::until(flyball_testkit::wait::DEADLINE, || {
            let processes: Vec<u32> = descendants(master).into_iter().chain([master]).collect();
            seen = processes.iter().map(|process| title(*process)).collect();
            seen.sort();
            (seen == wanted).then_some(processes)
        });
        let all = all.unwrap_or_else(|| panic!("{seen:#?} instead of {wanted:#?}"));
        for process in all {
            assert_eq!(name(process), "flyball\n");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end_successor(&self.directory, &self.server);
    }
}

/// What `ps -o comm` shows of a process.
fn name(process: u32) -> String {
    std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default()
}

/// The titles of what serves, by architecture, where there are two workers if there can be.
fn workers(arch: &str) -> &'static [&'static str] {
    match arch {
        "amped" => &["worker 0", "worker 1", "helper spawner", "helper spawner"],
        "knot-a" | "knot-c" => &["worker 0", "worker 1", "helper spawner", "helper spawner"],
        "shared-symped" => &["leader", "worker 0", "worker 1"],
        "sped" | "tux" => &["worker 0"],
        _ => &["worker 0", "worker 1"],
    }
}

#[test]
fn each_process_is_shown_by_what_it_is_for_on_every_architecture() {
    let all = architectures();
    let running = Running::start(all[0]);
    let master = running.server.master();
    running.wait_for(master, workers(all[0]));
    for arch in &all[1..] {
        wait_for("room for another generation", || {
            ctl(&running.socket(), &["set", "arch", arch]).status.success().then_some(())
        });
        running.wait_for(master, workers(arch));
    }
}

#[test]
fn processes_are_shown_so_after_a_reload_a_restart_and_an_upgrade() {
    let mut running = Running::start("n-copy");
    let old = running.server.master();
    running.wait_for(old, workers("n-copy"));
    told(&running.socket(), &["reload"]);
    running.wait_for(old, workers("n-copy"));
    for kind in ["worker 1", "log", "spawner", "admin"] {
        let kind = format!("flyball: {kind}");
        let found = children(old).into_iter().find(|child| title(*child) == kind);
        let found = found.expect("there is one");
        signal(found, "KILL");
        wait_for("another", || (!children(old).contains(&found)).then_some(()));
        running.wait_for(old, workers("n-copy"));
    }
    told(&running.socket(), &["upgrade"]);
    assert!(running.server.ended().success());
    let pid = std::fs::read_to_string(within(&running.directory, "pid")).expect("it is written");
    running.wait_for(pid.trim().parse().expect("a number"), workers("n-copy"));
    assert_eq!(running.server.connect().ask(get("/small.txt")).status(), 200);
}

/// The words are shorter than the titles of processes, which take a part of the environment.
#[test]
fn a_server_that_was_started_with_few_words_is_shown_by_titles_too() {
    let site = Site::with(&[("small.txt", b"small")]);
    for (exec, shown) in [("exec", "flyball: master"), ("exec -c", "flyball: mas")] {
        // Without any variable there is no more room than the words took.
        let script = format!("{exec} -a f \"$@\"");
        let launch = Launch::bare(&["bash", "-c", &script, "bash"]).args(&["-p", "0"]);
        // So no more words are added to say that there is no such socket.
        let launch = launch.asked().env("RUNTIME_DIRECTORY", site.path());
        let server = launch.current_dir(site.path()).start();
        wait_for("its title", || (title(server.master()) == shown).then_some(()));
        assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    }
}
