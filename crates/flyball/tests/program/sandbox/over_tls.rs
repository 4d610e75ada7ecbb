//! Processes of a server that speaks TLS: they may do no more than others, and only the
//! superuser sees the memory that holds private keys.

use std::fs;
use std::os::unix::fs::chown;
use std::process::{Command, Output};

use flyball_sys::process::is_root;
use flyball_testkit::skip;
use tempfile::TempDir;

use crate::common::{
    Launch, Server, Site, children, get, has, proc_status, secure_config, wait_for, within,
};

/// A user that no process of the superuser's is.
const USER: u32 = 61_002;

/// A site that speaks TLS, with a log and a process for `admin`.
fn secured(directory: &TempDir, site: &Site, prefix: &[&str], lines: &str) -> Launch {
    let config = secure_config(directory, site);
    let of_site = fs::read_to_string(&config).expect("it was written");
    let log = within(directory, "access.log");
    let lines = format!("admin = \"127.0.0.1:0\"\naccess-log = {log:?}\n{lines}\n{of_site}");
    fs::write(&config, lines).expect("it is written");
    let launch = Launch::bare(prefix).args(&["--config", &config, "--listen", "127.0.0.1:0"]);
    launch.args(&["--listen", "https://127.0.0.1:0"]).asked()
}

#[cfg(target_arch = "x86_64")]
mod restrictions {
    use super::*;
    use crate::sandbox::processes::forbidden::{everybody, try_everything};
    use flyball_testkit::Visitor;

    /// Sessions that are new and resumed, small answers and large ones; then all is tried.
    fn no_process_may_more(arch: &str, more: &str) {
        if !is_root() {
            return skip("only the superuser may trace other users' processes");
        }
        let site = Site::with(&[("page", b"page"), ("large", &[b'x'; 200_000])]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let lines = format!(
            "arch = \"{arch}\"\nuser = \"{USER}\"\nsandbox = \"required\"\n\
             sandbox-calls = \"refuse\"\n{more}"
        );
        let server = secured(&directory, &site, &[], &lines).start();
        let address = ([127, 0, 0, 1], server.secure.expect("it speaks TLS")).into();
        let visitor = Visitor::new();
        for (name, status) in [("page", 200), ("large", 200), ("nothing", 404)] {
            let answer = visitor.connect(address).ask(get(&format!("/{name}")));
            assert_eq!(answer.status(), status, "{name}");
        }
        // The workers, the log and the process for admin.
        for process in everybody(&server, server.workers + 2) {
            try_everything(process, server.master());
        }
        assert_eq!(visitor.connect(address).ask(get("/page")).text(), "page");
    }

    macro_rules! on_architectures {
        ($($tier:ident $module:ident = $arch:literal $($more:literal)?),+ $(,)?) => {
            $(mod $module {
                flyball_testkit::test_in_tier! {
                    $tier a_process_that_speaks_tls_opens_and_executes_no_more_than_others {
                        super::no_process_may_more($arch, concat!($($more)?));
                    }
                }
            })+
        };
    }

    on_architectures! {
        full sped = "sped",
        full symped = "symped",
        full shared_symped = "shared-symped",
        fast n_copy = "n-copy",
        full amped = "amped",
        full amped_processes = "amped" "amped.helper-kind = \"process\"\namped.idle = \"1h\"",
        full mp = "mp" "mp.processes = 2",
        full mt = "mt" "mt.threads = 2",
        full thread_per_connection = "thread-per-connection",
        full knot_c = "knot-c",
        full knot_a = "knot-a",
        full watpipe = "watpipe",
        full tux = "tux",
        fast uring = "uring",
    }
}

/// A command that this user gives, without a capability.
fn output_of(user: &str, words: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
    command.args(["--inh-caps=-all", "--bounding-set=-all"]).args(words);
    command.output().expect("setpriv runs")
}

/// What the user of a process sees of it: its environment, its memory, and its calls.
fn seen_by_its_user(process: u32) -> [bool; 3] {
    let ids = proc_status(process, "Uid").expect("it runs");
    let user = ids.split_whitespace().next().expect("a number");
    let opens = |file: &str| {
        let path = format!("/proc/{process}/{file}");
        output_of(user, &["sh", "-c", "exec 3<\"$0\"", &path]).status.success()
    };
    let process = process.to_string();
    // It lets the process go on when its time is over.
    let traced = ["timeout", "-s", "INT", "0.2", "strace", "-o", "/dev/null", "-p", &process];
    let traced = output_of(user, &traced);
    let traces = !String::from_utf8_lossy(&traced.stderr).contains("Operation not permitted");
    [opens("environ"), opens("mem"), traces]
}

/// The master, a worker, the log and the process for `admin`, when they have given up rights.
fn all_of(server: &Server) -> Vec<u32> {
    let is_confined = |it: &u32| proc_status(*it, "Seccomp").as_deref() == Some("2");
    wait_for("the confinement of all processes", || {
        let all = children(server.master());
        (all.len() == 3 && all.iter().all(is_confined)).then_some(())
    });
    [vec![server.master()], children(server.master())].concat()
}

#[test]
fn who_is_the_user_of_a_process_that_holds_private_keys_sees_nothing_of_its_memory() {
    if !is_root() {
        return skip("only the superuser can become another user");
    }
    if !has("setpriv") || !has("strace") {
        return;
    }
    let site = Site::with(&[("page", b"page")]);
    let user = USER.to_string();
    let as_user = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
    for prefix in [&[][..], &as_user] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let of_user = format!("user = \"{USER}\"\n");
        let lines = if prefix.is_empty() { &of_user } else { "" };
        let launch = secured(&directory, &site, prefix, &format!("workers = 1\n{lines}"));
        if !prefix.is_empty() {
            for name in ["", "site.pem", "site.toml"] {
                chown(within(&directory, name), Some(USER), Some(USER)).expect("it is given away");
            }
        }
        let server = launch.start();
        assert_eq!(server.connect_secure().ask(get("/page")).text(), "page");
        for process in all_of(&server) {
            let title = crate::common::title(process);
            assert_eq!(seen_by_its_user(process), [false; 3], "{prefix:?}: {title}");
        }
    }
    // Without TLS there is no secret, and the test could tell.
    let clear = Launch::under(&as_user, &site, "n-copy").args(&["--workers", "1"]);
    let server = clear.start();
    assert!(seen_by_its_user(server.worker())[0], "of a server that has no secret");
}
