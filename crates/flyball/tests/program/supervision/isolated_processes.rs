//! Processes of the server as peers: each holds what is its own, and what one of them sends ends no
//! other.

use std::collections::BTreeMap;
use std::path::Path;

use tempfile::TempDir;

use crate::common::{
    Launch, Server, Site, architectures, children, descendants, text, wait_for, within,
    write_script,
};

/// A directory with a program in it, for everybody.
fn programs() -> TempDir {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a temporary directory");
    write_script(&within(&directory, "say"), "echo Content-Type: text/plain\necho\necho said");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).expect("open");
    directory
}

/// A server of one worker with all kinds of processes, started by a shell that has a file open.
fn start(site: &Site, arch: &str, programs: &TempDir, given: &Path) -> Server {
    let config = within(programs, "flyball.toml");
    let logs = programs.path().display();
    let settings = format!(
        "arch = \"{arch}\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n\
         access-log = \"{logs}/access\"\nslow-log = \"{logs}/slow\"\nworkers = 1\n\
         mp.processes = 1\nmt.threads = 2\nuser = \"root\"\n[[site]]\nroot = \"{}\"\n\
         [[site.cgi]]\npath = \"/run\"\nroot = \"{logs}\"\n",
        site.path().display()
    );
    std::fs::write(&config, settings).expect("it can be written");
    let script = format!("exec 7<{0} 9<{0}; exec \"$@\"", text(given));
    Launch::bare(&["sh", "-c", &script, "sh"]).arg("--config").arg(config).start()
}

/// Has the program run; whether it has answered.
fn runs(server: &Server) -> bool {
    let mut client = server.connect();
    client.send("GET /run/say HTTP/1.0\r\n\r\n");
    client.rest().ends_with(b"said\n")
}

/// What each descriptor of a process stands for.
fn open_in(process: u32) -> Vec<(u64, String)> {
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
    let one = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, std::fs::read_link(entry.path()).ok()?.to_str()?.to_owned()))
    };
    entries.flatten().filter_map(one).collect()
}

/// The ends of channels in a process.
fn channels_of(process: u32) -> Vec<(u64, String)> {
    let all = std::fs::read_to_string("/proc/net/unix").expect("there is a list");
    let is_channel = |socket: &str| {
        let inode = socket.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        let is_it = |inode: &str| {
            all.lines().any(|line| line.contains(" 0005 ") && line.ends_with(&format!(" {inode}")))
        };
        inode.is_some_and(is_it)
    };
    open_in(process).into_iter().filter(|(_, to)| is_channel(to)).collect()
}

/// The ends that more than one child of the master has, with what it forked.
fn shared_ends(master: u32) -> Vec<String> {
    let mut holders = BTreeMap::<String, usize>::new();
    for child in children(master) {
        let mut ends: Vec<String> = [child]
            .into_iter()
            .chain(descendants(child))
            .flat_map(channels_of)
            .map(|(_, end)| end)
            .collect();
        ends.sort();
        ends.dedup();
        ends.into_iter().for_each(|end| *holders.entry(end).or_default() += 1);
    }
    holders.into_iter().filter(|(_, count)| *count > 1).map(|(end, _)| end).collect()
}

#[test]
fn no_process_has_what_was_not_given_to_it() {
    for arch in architectures() {
        let (site, programs) = (Site::with(&[("page", b"page")]), programs());
        let given = within(&programs, "given");
        std::fs::write(&given, "given").expect("it can be written");
        let server = start(&site, arch, &programs, &given);
        assert!(runs(&server), "{arch}: {}", server.errors.so_far());
        // A worker, the admin process, that of the log, and the one that starts programs.
        let all = wait_for("all kinds of processes", || {
            Some(children(server.master())).filter(|children| children.len() == 4)
        });
        wait_for("each to leave what is another's", || {
            shared_ends(server.master()).is_empty().then_some(())
        });
        for process in all.into_iter().chain([server.master()]).chain(descendants(server.master()))
        {
            let has_it = open_in(process).iter().any(|(_, to)| to == text(&given));
            assert!(!has_it, "{arch}: {process} has what the shell had open");
        }
    }
}

/// What a worker, or the admin process, sends that was taken over.
#[cfg(target_arch = "x86_64")]
#[test]
fn an_empty_record_ends_nothing() {
    use flyball_testkit::foreign::{Seized, libc};

    if !flyball_sys::process::is_root() {
        return flyball_testkit::skip("only the superuser may trace other users' processes");
    }
    let (site, programs) = (Site::with(&[("page", b"page")]), programs());
    let server = start(&site, "sped", &programs, &within(&programs, "flyball.toml"));
    let serves = || {
        assert!(runs(&server), "{}", server.errors.so_far());
        assert!(server.status()["counters"].is_object());
    };
    serves();
    let all = server.children(4);
    for process in &all {
        let ends = channels_of(*process);
        assert!(!ends.is_empty(), "{process} has a channel");
        let mut hand = Seized::attach(*process);
        for (end, _) in ends {
            // The other end may not be written to by who only reads from it.
            let _ = hand.call(libc::SYS_sendto, &[end, 0, 0, libc::MSG_NOSIGNAL as u64, 0, 0]);
        }
    }
    let log = std::fs::read_to_string(within(&programs, "access")).expect("there is a log");
    serves();
    wait_for("more lines of the log", || {
        let now = std::fs::read_to_string(within(&programs, "access")).ok()?;
        (now.len() > log.len()).then_some(())
    });
    server.errors.wait_for("what was dropped", |said| said.contains("makes no sense"));
    assert_eq!(server.children(4), all, "{}", server.errors.so_far());
}
