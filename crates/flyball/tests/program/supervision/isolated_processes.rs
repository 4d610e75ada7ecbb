//! Processes of the server as peers: each holds what is its own, and what one of them sends ends no
//! other.

use std::collections::BTreeMap;
use std::path::Path;

use tempfile::TempDir;

use crate::common::{
    Launch, Server, Site, architectures, children, descendants, signal, text, wait_for, within,
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

/// A server with so many workers, if it can have them, and all kinds of other processes, started
/// by a shell that has a file open.
fn start(site: &Site, of: (&str, usize), programs: &TempDir, given: &Path) -> Server {
    let (arch, workers) = of;
    let config = within(programs, "flyball.toml");
    let logs = programs.path().display();
    let settings = format!(
        "arch = \"{arch}\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n\
         access-log = \"{logs}/access\"\nslow-log = \"{logs}/slow\"\nworkers = {workers}\n\
         mp.processes = {workers}\nmt.threads = 2\nuser = \"root\"\n[[site]]\nroot = \"{}\"\n\
         [[site.cgi]]\npath = \"/run\"\nroot = \"{logs}\"\n",
        site.path().display()
    );
    std::fs::write(&config, settings).expect("it can be written");
    let script = format!("exec 7<{0} 9<{0}; exec \"$@\"", text(given));
    Launch::bare(&["sh", "-c", &script, "sh"]).asked().arg("--config").arg(config).start()
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

/// The listening sockets in a process.
fn listeners_of(process: u32) -> Vec<(u64, String)> {
    let all = std::fs::read_to_string("/proc/net/tcp").expect("there is a list");
    let listens = |line: &&str| line.split_whitespace().nth(3) == Some("0A");
    let inodes = all.lines().filter(listens).filter_map(|line| line.split_whitespace().nth(9));
    let sockets: Vec<String> = inodes.map(|inode| format!("socket:[{inode}]")).collect();
    open_in(process).into_iter().filter(|(_, to)| sockets.contains(to)).collect()
}

/// The ends that more than one of these processes has, with what it forked.
fn shared(processes: &[u32], ends_of: fn(u32) -> Vec<(u64, String)>) -> Vec<String> {
    let mut holders = BTreeMap::<String, usize>::new();
    for process in processes {
        let mut ends: Vec<String> = [*process]
            .into_iter()
            .chain(descendants(*process))
            .flat_map(ends_of)
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
        let server = start(&site, (arch, 2), &programs, &given);
        assert!(runs(&server), "{arch}: {}", server.errors.so_far());
        // The admin process, that of the log, and the one that starts programs.
        let workers = server.status()["workers"].as_u64().expect("a number") as usize;
        let all = wait_for("all kinds of processes", || {
            Some(children(server.master())).filter(|children| children.len() == 3 + workers)
        });
        let leave = || {
            wait_for("each to leave what is another's", || {
                shared(&children(server.master()), channels_of).is_empty().then_some(())
            });
        };
        leave();
        if ["n-copy", "uring", "amped"].contains(&arch) {
            assert!(workers == 2 && !listeners_of(all[2]).is_empty(), "{arch}");
            wait_for("each to leave the sockets of the other", || {
                shared(&all[2..4], listeners_of).is_empty().then_some(())
            });
        }
        // What ran before is kept for a while, to be run again.
        signal(server.master(), "HUP");
        wait_for("another generation", || (server.status()["generation"] == 2).then_some(()));
        assert!(runs(&server), "{arch}: {}", server.errors.so_far());
        leave();
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
    let server = start(&site, ("sped", 1), &programs, &within(&programs, "flyball.toml"));
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

/// What a worker does to its own ends that was taken over, the other worker does not notice.
#[cfg(target_arch = "x86_64")]
#[test]
fn what_a_worker_does_to_its_ends_harms_no_other() {
    use flyball_testkit::foreign::{Seized, libc};

    if !flyball_sys::process::is_root() {
        return flyball_testkit::skip("only the superuser may trace other users' processes");
    }
    let (site, programs) = (Site::with(&[("page", b"page")]), programs());
    let server = start(&site, ("mp", 2), &programs, &within(&programs, "flyball.toml"));
    assert!(runs(&server), "{}", server.errors.so_far());
    let all = server.children(5);
    let (bad, good) = (all[2], all[3]);
    let logged = |target: &str| {
        let log = std::fs::read_to_string(within(&programs, "access")).expect("there is a log");
        let is_it = |line: &str| line.starts_with("127.0.0.1 ") && line.contains(target);
        log.lines().any(is_it)
    };
    // Of the two the one that does not stand still answers.
    let serves = |target: &str| {
        let mut client = server.connect();
        client.send(format!("GET /page?{target} HTTP/1.0\r\n\r\n"));
        assert!(client.rest().ends_with(b"page"), "{target}");
    };
    let goes_on = |target: &str| {
        serves(target);
        assert!(runs(&server), "{target}: {}", server.errors.so_far());
        wait_for("the line of another", || logged(target).then_some(()));
    };
    let ends = channels_of(bad);
    assert_eq!(ends.len(), 3, "of the two logs and of programs: {ends:?}");
    let mut hand = Seized::attach(bad);
    let junk = hand.put(&[b'y'; 3_000]);
    let now = (libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) as u64;
    for (end, _) in &ends {
        (0..200).for_each(|_| {
            let _ = hand.call(libc::SYS_sendto, &[*end, junk, 3_000, now, 0, 0]);
        });
    }
    goes_on("flooded");
    for (end, _) in &ends {
        let shut = hand.call(libc::SYS_shutdown, &[*end, libc::SHUT_RDWR as u64]);
        assert_eq!(shut, Ok(0));
    }
    goes_on("shut");
    drop(hand);
    // It goes on too: without programs, and its lines are lost and counted.
    signal(good, "STOP");
    serves("alone");
    assert!(!runs(&server), "it can ask for no program");
    wait_for("lost lines", || (server.counter("access_log_lost") >= 2).then_some(()));
    signal(good, "CONT");
    assert_eq!(server.children(5), all, "{}", server.errors.so_far());
    assert!(!logged("alone"));
    // One that is started in its place has ends of its own.
    signal(bad, "KILL");
    wait_for("another", || {
        Some(children(server.master())).filter(|now| now.len() == 5 && !now.contains(&bad))
    });
    signal(good, "STOP");
    goes_on("renewed");
    signal(good, "CONT");
}
