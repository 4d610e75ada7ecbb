//! A process that has applied it to itself: what it can do no more.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;
use crate::process::{Forked, exit_now, fork, is_root, wait_for};

fn sandbox<'a>(grants: &'a [Grant<'a>], calls: &'a [Calls]) -> Sandbox<'a> {
    Sandbox {
        identity: None,
        capabilities: &[],
        umask: true,
        locked_bytes: None,
        grants: Some(grants),
        connects: &[],
        calls: Some(calls),
        violation: Violation::Refuse,
        kernel: Kernel::probe(),
        hides_memory: false,
        parent: None,
    }
}

/// Runs `body` in a process of its own; the code that it ended with.
fn in_a_child(body: impl Fn() -> i32) -> i32 {
    match fork().unwrap() {
        Forked::Child => exit_now(body()),
        Forked::Parent(child) => wait_for(child).unwrap(),
    }
}

/// The number of the first of these that is false, from 1; 0 when all are true.
fn first_false(truths: &[bool]) -> i32 {
    truths.iter().position(|truth| !truth).map_or(0, |at| at as i32 + 1)
}

const SERVES: &[Calls] = &[Calls::Common, Calls::Connections, Calls::Files, Calls::Readiness];

fn is_denied<T>(done: io::Result<T>) -> bool {
    done.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

#[test]
fn a_process_reads_its_roots_and_nothing_else_and_writes_nowhere() {
    if Kernel::probe().landlock == 0 {
        return eprintln!("this kernel has no landlock: not tested");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("root/below")).unwrap();
    for name in ["root/page", "root/below/page", "secret"] {
        fs::write(dir.path().join(name), "text").unwrap();
    }
    let root = File::open(dir.path().join("root")).unwrap();
    let at = |name: &str| dir.path().join(name);
    let code = in_a_child(|| {
        let grants = [Grant::Open(root.as_fd(), Access::Read)];
        if sandbox(&grants, SERVES).apply().is_err() {
            return 99;
        }
        first_false(&[
            fs::read(at("root/page")).is_ok(),
            fs::read(at("root/below/page")).is_ok(),
            is_denied(fs::read(at("secret"))),
            is_denied(File::open("/etc/shadow")),
            is_denied(File::open("/etc/passwd")),
            is_denied(File::create(at("root/new"))),
            is_denied(File::options().write(true).open(at("root/page"))),
            is_denied(File::options().write(true).truncate(true).open(at("root/page"))),
        ])
    });
    assert_eq!(code, 0);
}

#[test]
fn a_root_that_is_renamed_stays_and_one_that_takes_its_name_is_another() {
    if Kernel::probe().landlock == 0 {
        return eprintln!("this kernel has no landlock: not tested");
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["root", "next"] {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("page"), name).unwrap();
    }
    let root = File::open(at("root")).unwrap();
    let (ready, tell) = std::io::pipe().unwrap();
    let (wait, go) = std::io::pipe().unwrap();
    let code = match fork().unwrap() {
        Forked::Child => {
            let grants = [Grant::Open(root.as_fd(), Access::Read)];
            let applied = sandbox(&grants, SERVES).apply().is_ok();
            let _ = rustix::io::write(&tell, b"x");
            let _ = rustix::io::read(&wait, &mut [0]);
            let name = crate::file::open_beneath(&root, b"page", crate::file::Links::Beneath);
            exit_now(first_false(&[
                applied,
                name.is_ok(),
                fs::read(at("old/page")).is_ok(),
                is_denied(fs::read(at("root/page"))),
            ]))
        }
        Forked::Parent(child) => {
            rustix::io::read(&ready, &mut [0]).unwrap();
            fs::rename(at("root"), at("old")).unwrap();
            fs::rename(at("next"), at("root")).unwrap();
            rustix::io::write(&go, b"x").unwrap();
            wait_for(child).unwrap()
        }
    };
    assert_eq!(code, 0);
}

#[test]
fn a_process_makes_no_socket_executes_nothing_and_maps_nothing_to_be_run() {
    let code = in_a_child(|| {
        if sandbox(&[], SERVES).apply().is_err() {
            return 99;
        }
        // SAFETY: a fresh mapping of the kernel's choice; nobody uses it.
        let executable = unsafe {
            let access = rustix::mm::ProtFlags::EXEC | rustix::mm::ProtFlags::READ;
            let flags = rustix::mm::MapFlags::PRIVATE;
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), 4096, access, flags)
        };
        // SAFETY: the arguments are strings and a list that ends with null.
        let executed = unsafe {
            let arguments = [c"true".as_ptr(), std::ptr::null()];
            libc::execv(c"/bin/true".as_ptr(), arguments.as_ptr())
        };
        first_false(&[
            is_denied(TcpListener::bind("127.0.0.1:0")),
            is_denied(TcpStream::connect("127.0.0.1:1")),
            is_denied(std::os::unix::net::UnixStream::pair()),
            executable.is_err(),
            executed == -1,
            std::thread::Builder::new().spawn(|| {}).is_err(),
            is_denied(std::process::Command::new("/bin/true").spawn()),
            fork().is_err(),
            matches!(rustix::thread::no_new_privs(), Ok(true) | Err(_)),
        ])
    });
    assert_eq!(code, 0);
}

#[test]
fn a_call_that_kills_ends_the_process_by_sigsys() {
    let code = in_a_child(|| {
        let sandbox = Sandbox { violation: Violation::Kill, ..sandbox(&[], SERVES) };
        if sandbox.apply().is_err() {
            return 99;
        }
        let _ = TcpListener::bind("127.0.0.1:0");
        1
    });
    assert_eq!(code, 128 + libc::SIGSYS);
}

#[test]
fn threads_and_processes_are_made_only_where_their_groups_say_so() {
    let thread = || std::thread::Builder::new().spawn(|| ()).map(|handle| handle.join().is_ok());
    let code = in_a_child(|| {
        let calls = [SERVES, &[Calls::Threads]].concat();
        let applied = sandbox(&[], &calls).apply().is_ok();
        first_false(&[applied, thread().is_ok_and(|joined| joined), fork().is_err()])
    });
    assert_eq!(code, 0, "threads");
    let code = in_a_child(|| {
        let calls = [SERVES, &[Calls::Processes]].concat();
        let applied = sandbox(&[], &calls).apply().is_ok();
        let child = crate::process::fork_apart(&[], || 7);
        let code = child.and_then(wait_for);
        first_false(&[applied, matches!(code, Ok(7)), thread().is_err()])
    });
    assert_eq!(code, 0, "processes");
}

#[test]
fn a_process_connects_only_to_the_ports_that_are_granted() {
    let kernel = Kernel::probe();
    if kernel.landlock < LANDLOCK_CONNECT {
        return eprintln!("this kernel's landlock knows no ports: not tested");
    }
    let [listener, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let allowed = listener.local_addr().unwrap();
    let code = in_a_child(|| {
        let calls = [SERVES, &[Calls::Connect]].concat();
        let ports = [allowed.port()];
        let applied = Sandbox { connects: &ports, ..sandbox(&[], &calls) }.apply().is_ok();
        first_false(&[
            applied,
            TcpStream::connect(allowed).is_ok(),
            is_denied(TcpStream::connect(other.local_addr().unwrap())),
            is_denied(TcpListener::bind("127.0.0.1:0")),
        ])
    });
    drop(listener);
    assert_eq!(code, 0);
}

#[test]
fn a_process_that_connects_to_unix_domain_sockets_makes_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let code = in_a_child(|| {
        let calls = [SERVES, &[Calls::ConnectUnix]].concat();
        let applied = sandbox(&[], &calls).apply().is_ok();
        first_false(&[
            applied,
            std::os::unix::net::UnixStream::connect(&path).is_ok(),
            is_denied(TcpStream::connect(other.local_addr().unwrap())),
        ])
    });
    assert_eq!(code, 0);
}

#[test]
fn who_becomes_another_user_has_no_group_and_no_capability_left() {
    if !is_root() {
        return eprintln!("only the superuser can become somebody else: not tested");
    }
    let nobody = Identity { user: 65_534, group: 65_533, name: "nobody".into() };
    let code = in_a_child(|| {
        let calls = [Calls::Common];
        let sandbox = Sandbox { identity: Some(&nobody), calls: None, ..sandbox(&[], &calls) };
        if sandbox.apply().is_err() {
            return 99;
        }
        let status = rustix::thread::capabilities(None).unwrap();
        first_false(&[
            rustix::process::geteuid().as_raw() == 65_534,
            rustix::process::getegid().as_raw() == 65_533,
            rustix::process::getgroups().is_ok_and(|groups| groups.is_empty()),
            status.effective.is_empty() && status.permitted.is_empty(),
            status.inheritable.is_empty(),
            matches!(
                rustix::thread::capability_is_in_bounding_set(
                    rustix::thread::CapabilitySet::SYS_ADMIN
                ),
                Ok(false)
            ),
            matches!(rustix::thread::no_new_privs(), Ok(true)),
            matches!(
                rustix::process::dumpable_behavior(),
                Ok(rustix::process::DumpableBehavior::NotDumpable)
            ),
        ])
    });
    assert_eq!(code, 0);
}

#[test]
fn who_stays_the_superuser_has_only_the_capabilities_that_are_kept() {
    if !is_root() {
        return eprintln!("only the superuser has capabilities: not tested");
    }
    let dir = tempfile::tempdir().unwrap();
    let path: &Path = dir.path();
    rustix::fs::chmod(path, rustix::fs::Mode::RWXU).unwrap();
    rustix::fs::chown(
        path,
        Some(rustix::fs::Uid::from_raw(65_534)),
        Some(rustix::fs::Gid::from_raw(65_534)),
    )
    .unwrap();
    let code = in_a_child(|| {
        let none = Sandbox { calls: None, grants: None, ..sandbox(&[], &[]) };
        let applied = none.apply().is_ok();
        first_false(&[applied, is_denied(fs::read_dir(path)), !keeps(Capability::Kill)])
    });
    assert_eq!(code, 0);
    let code = in_a_child(|| {
        let kept = [Capability::DacOverride];
        let some = Sandbox { calls: None, capabilities: &kept, ..sandbox(&[], &[]) };
        let applied = Sandbox { grants: None, ..some }.apply().is_ok();
        first_false(&[applied, fs::read_dir(path).is_ok(), !keeps(Capability::Kill)])
    });
    assert_eq!(code, 0);
}

#[test]
fn the_limit_on_locked_memory_is_raised_as_far_as_it_may_be() {
    let ended = in_a_child(|| {
        let before = getrlimit(Resource::Memlock);
        let none = Rlimit { current: Some(0), maximum: before.maximum };
        setrlimit(Resource::Memlock, none).unwrap();
        capabilities::raise_locked(4096);
        let some = getrlimit(Resource::Memlock).current;
        capabilities::raise_locked(u64::MAX);
        let all = getrlimit(Resource::Memlock).current;
        first_false(&[some == Some(4096), all.is_none() || all == before.maximum])
    });
    assert_eq!(ended, 0);
}
