//! Another program takes a running server's place, with its listening sockets; when it fails, the
//! one that runs goes on.
#![forbid(unsafe_code)]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::load::under_load;
use common::{
    Launch, Server, Site, get, is_running, refused, signal, text, told, wait_for, within,
};
use tempfile::TempDir;

/// A server that was started from a program of its own, which can be replaced.
struct Installed {
    directory: TempDir,
    server: Server,
    _site: Site,
}

impl Installed {
    fn start(arch: &str) -> Installed {
        let site = Site::with(&[("small.txt", &[b'x'; 1024])]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let program = within(&directory, "flyball");
        std::fs::copy(env!("CARGO_BIN_EXE_flyball"), &program).expect("the program is copied");
        let config = within(&directory, "flyball.toml");
        let lines = format!(
            "arch = \"{arch}\"\nworkers = 2\ndrain = \"5s\"\nadmin = \"unix:{}\"\n\
             pid-file = \"{}\"\n[[site]]\nroot = {:?}\n",
            text(&within(&directory, "admin")),
            text(&within(&directory, "pid")),
            text(site.path())
        );
        std::fs::write(&config, lines).expect("the file is written");
        let launch = Launch::program(&[program.into()]);
        let launch = launch.args(&["--config", text(&config), "--listen", "127.0.0.1:0"]);
        let server = launch.start();
        Installed { directory, server, _site: site }
    }

    fn socket(&self) -> PathBuf {
        within(&self.directory, "admin")
    }

    fn program(&self) -> PathBuf {
        within(&self.directory, "flyball")
    }

    /// Puts another program in the place of the running one, as a package does.
    fn install(&self, make: impl FnOnce(&Path)) {
        let new = within(&self.directory, "flyball.new");
        make(&new);
        std::fs::rename(&new, self.program()).expect("it is renamed");
    }

    fn install_itself(&self) {
        self.install(|new| {
            std::fs::copy(env!("CARGO_BIN_EXE_flyball"), new).expect("the program is copied");
        });
    }

    fn install_script(&self, script: &str) {
        self.install(|new| {
            std::fs::write(new, format!("#!/bin/sh\n{script}\n")).expect("it is written");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(new, mode).expect("it may be run");
        });
    }

    /// The process id in the PID file.
    #[track_caller]
    fn pid(&self) -> u32 {
        wait_for("the PID file", || {
            std::fs::read_to_string(within(&self.directory, "pid")).ok()?.trim().parse().ok()
        })
    }
}

/// Ends the server of the PID file with the test.
impl Drop for Installed {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(within(&self.directory, "pid")).unwrap_or_default();
        if let Ok(pid) = pid.trim().parse::<u32>()
            && pid != self.server.master()
        {
            let script = ["-c", "kill -s TERM \"$1\" 2>&-", "sh", &pid.to_string()];
            let _ = std::process::Command::new("sh").args(script).status();
            flyball_testkit::wait::until(flyball_testkit::wait::DEADLINE, || {
                (!is_running(pid)).then_some(())
            });
        }
    }
}

#[test]
fn an_upgrade_under_load_fails_no_request() {
    for arch in ["n-copy", "mt", "uring", "mp"] {
        let mut installed = Installed::start(arch);
        let old = installed.pid();
        assert_eq!(old, installed.server.master());
        installed.install_itself();
        under_load(&installed.server, |done| {
            done.wait_for_more();
            let said = told(&installed.socket(), &["upgrade"]);
            assert!(said.ends_with(" has taken over\n"), "{arch}: {said}");
            done.wait_for_more();
            assert_ne!(installed.pid(), old, "{arch}");
        });
        let new = installed.pid();
        assert!(installed.server.ended().success(), "{arch}");
        // The file is of the new master: the old one did not remove it.
        assert_eq!(installed.pid(), new);
        let exe = std::fs::read_link(format!("/proc/{new}/exe")).expect("it runs");
        assert_eq!(exe, installed.program(), "{arch}");
        let status: serde_json::Value =
            serde_json::from_str(&told(&installed.socket(), &["status"])).expect("JSON");
        assert_eq!(status["generation"], 1, "{arch}");
        assert_eq!(installed.server.connect().ask(get("/small.txt")).status(), 200);
        signal(new, "TERM");
        wait_for("the new master ends", || (!is_running(new)).then_some(()));
        assert!(!within(&installed.directory, "pid").exists(), "{arch}");
        let said = installed.server.errors.so_far();
        assert!(!said.contains("panicked") && !said.contains("is killed"), "{said}");
    }
}

#[test]
fn a_program_that_fails_leaves_the_running_one_in_its_place() {
    let installed = Installed::start("n-copy");
    let (socket, old) = (installed.socket(), installed.pid());
    under_load(&installed.server, |done| {
        installed.install_script("exit 7");
        let said = refused(&socket, &["upgrade"]);
        assert!(said.contains("the upgrade failed, and this server goes on"), "{said}");
        done.wait_for_more();
        // What is no program at all.
        installed.install(|new| std::fs::write(new, "nonsense").expect("it is written"));
        signal(old, "USR2");
        installed.server.errors.wait_for("that it cannot run", |said| {
            said.contains("cannot run ") && said.matches("the upgrade failed").count() == 2
        });
        done.wait_for_more();
        // A program that is right, with a configuration that is not.
        installed.install_itself();
        let config = within(&installed.directory, "flyball.toml");
        let before = std::fs::read_to_string(&config).expect("it is there");
        std::fs::write(&config, "arch = \"none\"").expect("it is written");
        let said = refused(&socket, &["upgrade"]);
        assert!(said.contains("this server goes on"), "{said}");
        installed.server.errors.wait_for("why", |said| said.contains("no architecture \"none\""));
        std::fs::write(&config, before).expect("it is written");
        done.wait_for_more();
    });
    assert_eq!(installed.pid(), old);
    assert!(is_running(old));
}

/// It has said that it is prepared, and so the workers have left their sockets.
#[test]
fn a_program_that_fails_after_the_workers_have_left_brings_them_back() {
    let installed = Installed::start("n-copy");
    // Says what a master says, waits for the answer, and ends.
    installed.install_script(
        "fd=${FLYBALL_HANDOVER#*ready=}; fd=${fd%% *}\n\
         exec python3 -c \"import socket; s = socket.socket(fileno=$fd); s.send(b'prepared'); \
         assert s.recv(64) == b'go'\"",
    );
    if !common::has("python3") {
        return;
    }
    under_load(&installed.server, |done| {
        let said = refused(&installed.socket(), &["upgrade"]);
        assert!(said.contains("this server goes on"), "{said}");
        done.wait_for_more();
    });
    let said = told(&installed.socket(), &["status"]);
    assert!(said.contains("\"generation\": 2"), "{said}");
}

#[test]
fn an_upgraded_server_can_be_upgraded_and_reloaded() {
    let mut installed = Installed::start("symped");
    let socket = installed.socket();
    let first = installed.pid();
    told(&socket, &["upgrade"]);
    let second = wait_for("the new PID", || Some(installed.pid()).filter(|pid| *pid != first));
    assert!(installed.server.ended().success());
    let said = told(&socket, &["reload"]);
    assert!(said.contains("generation 2, symped"), "{said}");
    told(&socket, &["upgrade"]);
    wait_for("another PID", || Some(installed.pid()).filter(|pid| *pid != second));
    wait_for("the second master ends", || (!is_running(second)).then_some(()));
    assert_eq!(installed.server.connect().ask(get("/small.txt")).status(), 200);
}
