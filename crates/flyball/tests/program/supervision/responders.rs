//! Responders that the server starts: their sockets lead to those of the generation that runs,
//! also when another was to take its place and does not.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flyball_testkit::as_ourselves;
use tempfile::TempDir;

use crate::common::{
    Launch, Server, ctl, descendants, refused, signal, text, told, wait_for, within, write_script,
};

/// A generation that fails within this time is taken back.
const TRIAL: Duration = Duration::from_secs(3);

/// A server with a responder, and the files of both.
struct Running {
    directory: TempDir,
    server: Server,
}

impl Running {
    fn start() -> Running {
        Running::with("")
    }

    /// The same with the socket of another table, in a directory of its own, if it is named.
    fn with(other: &str) -> Running {
        let directory = tempfile::tempdir().expect("a temporary directory");
        write_script(&within(&directory, "responder"), "exec sleep 1000");
        let config = within(&directory, "flyball.toml");
        let mut lines = configuration(&directory, "app");
        if let Some((above, _)) = other.split_once('/') {
            fs::create_dir(within(&directory, above)).expect("a directory can be made");
            lines += &table(&directory, other);
        }
        fs::write(&config, lines).expect("it is written");
        let server = launch(&directory, "admin").start();
        Running { directory, server }
    }

    fn admin(&self) -> PathBuf {
        within(&self.directory, "admin")
    }

    /// Names the sockets of another table too.
    fn add(&self, socket: &str) {
        let config = within(&self.directory, "flyball.toml");
        let both = configuration(&self.directory, "app") + &table(&self.directory, socket);
        fs::write(config, both).expect("it is written");
    }

    /// The same once a server has begun.
    #[track_caller]
    fn first_socket(&self) -> u64 {
        wait_for("the socket", || self.socket())
    }

    /// A worker of a generation, if there is one.
    fn worker(&self, generation: u64) -> Option<u64> {
        let status = ctl(&self.admin(), &["status"]).stdout;
        let status: serde_json::Value = serde_json::from_slice(&status).ok()?;
        let mut processes = status["processes"].as_array()?.iter();
        processes.find(|process| process["generation"] == generation)?["process"].as_u64()
    }

    /// The socket that has the name of the first table, if it listens.
    fn socket(&self) -> Option<u64> {
        let path = within(&self.directory, "app");
        UnixStream::connect(&path).ok()?;
        fs::metadata(&path).ok().map(|known| known.ino())
    }
}

fn launch(directory: &TempDir, admin: &str) -> Launch {
    let admin = format!("unix:{}", text(&within(directory, admin)));
    let config = within(directory, "flyball.toml");
    let launch = Launch::bare::<&str>(&[]).args(&["--config", text(&config), "--admin", &admin]);
    launch.args(&["--listen", "127.0.0.1:0"])
}

fn configuration(directory: &TempDir, socket: &str) -> String {
    let (owner, root) = (as_ourselves(), text(directory.path()));
    let site = format!("{owner}arch = \"sped\"\n[[site]]\nroot = {root:?}\n");
    site + &table(directory, socket)
}

fn table(directory: &TempDir, socket: &str) -> String {
    let program = within(directory, "responder");
    let socket = within(directory, socket);
    format!(
        "[[site.fastcgi]]\npath = \"/{}\"\nsocket = \"unix:{}\"\nprogram = {:?}\n",
        socket.file_name().and_then(|name| name.to_str()).expect("a name"),
        text(&socket),
        text(&program)
    )
}

#[test]
fn one_socket_that_cannot_be_made_leaves_all_others_to_those_who_have_them() {
    let running = Running::start();
    let before = running.first_socket();
    fs::write(within(&running.directory, "file"), "no socket").expect("it is written");
    for (socket, why) in [("none/there", "No such file"), ("file", "is no socket")] {
        running.add(socket);
        for word in ["reload", "upgrade"] {
            refused(&running.admin(), &[word]);
            assert_eq!(running.socket(), Some(before), "{word} {socket}");
        }
        let said = match launch(&running.directory, "other").try_start() {
            Err((_, said)) => said,
            Ok(mut other) => {
                assert!(!other.ended().success(), "a second server begins with {socket}");
                other.errors.whole()
            }
        };
        assert!(said.contains(why), "{said}");
        assert_eq!(running.socket(), Some(before), "a second server with {socket}");
    }
    let said = running.server.errors.so_far();
    let left = fs::read_dir(running.directory.path()).expect("it is there").flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("app."));
    assert_eq!(left.count(), 0, "{said}");
}

#[test]
fn a_generation_that_is_taken_back_gives_the_sockets_back_at_once() {
    let running = Running::start();
    let first = running.first_socket();
    let errors = &running.server.errors;
    let mut generation = 1;
    let failed = loop {
        let since = Instant::now();
        told(&running.admin(), &["reload"]);
        generation += 1;
        let second = running.socket();
        assert!(second.is_some() && second != Some(first), "the new one takes the name over");
        let process = wait_for("a worker of that generation", || running.worker(generation));
        signal(process as u32, "ABRT");
        let deaths = |said: &str| said.matches("was ended by signal 6").count();
        errors.wait_for("its death", |said| deaths(said) as u64 == generation - 1);
        // Where the machine stood still its trial was over, and it was only started again.
        if since.elapsed() < TRIAL {
            break second;
        }
    };
    errors.wait_for("the way back", |said| said.contains("sped failed; sped runs again as before"));
    // There is no moment at which nothing listens.
    let socket = || running.socket().unwrap_or_else(|| panic!("{}", errors.so_far()));
    let back = wait_for("the socket", || Some(socket()).filter(|now| Some(*now) != failed));
    // The one that failed has gone, and nothing of it has the name.
    let sleeping = || {
        let is_it = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.starts_with(b"sleep")
        };
        descendants(running.server.master()).into_iter().filter(is_it).count()
    };
    wait_for("one responder", || {
        assert_eq!(socket(), back, "{}", errors.so_far());
        (sleeping() == 1).then_some(())
    });
}

#[test]
fn a_socket_that_cannot_be_made_again_keeps_no_other_from_its_responders() {
    let running = Running::with("his/socket");
    let before = running.first_socket();
    let his = within(&running.directory, "his");
    let again = || UnixStream::connect(his.join("socket")).ok();
    // Its start is over when there is a worker.
    wait_for("a worker", || running.worker(1));
    fs::rename(&his, within(&running.directory, "away")).expect("it can be renamed");
    let spawner = || {
        let parent = |pid: u32| crate::common::proc_status(pid, "PPid")?.parse::<u32>().ok();
        let all = descendants(running.server.master());
        let is_it = |pid: &u32| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep"))
        };
        all.into_iter().find(is_it).and_then(parent)
    };
    signal(wait_for("the process that starts programs", spawner), "KILL");
    wait_for("the other socket", || running.socket().filter(|now| *now != before));
    fs::create_dir(&his).expect("a directory can be made");
    wait_for("the socket whose directory is there again", again);
}
