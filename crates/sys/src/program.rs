//! Pipes to other programs, and starting them: for the one process that does so for all others.

use std::ffi::{OsStr, OsString};
use std::io;
use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::pipe::PipeFlags;

use crate::executable::Executable;
use crate::owned::{Opening, Owned};
use crate::process::{self, Forked, ProcessId};

/// With what a child ends that could not execute its program.
const NOT_EXECUTED: i32 = 127;

/// What a program that is started gets.
#[derive(Debug)]
pub struct Program {
    /// What it is told that it was called by. A script is told its name in its directory.
    pub path: PathBuf,
    /// Arguments after its own name.
    pub arguments: Vec<OsString>,
    /// The whole of its environment.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Its standard input, output and error output.
    pub standard: [OwnedFd; 3],
    /// What it may use.
    pub limits: ProgramLimits,
}

/// What a program may use of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramLimits {
    /// Bytes of address space, for each of its processes; `None` is no limit of its own.
    pub memory_bytes: Option<u64>,
    /// Seconds of processor time, for each of its processes.
    pub cpu_s: Option<u64>,
}

/// Begins to start a program, in the directory that holds its file, and in a process group of its
/// own. It is killed when this process dies. Does not wait until it is executed, which may take
/// long: a process that has a lease on its file (fcntl(2)) has most of a minute to give that back.
/// To be called by a process of one thread.
///
/// # Errors
/// When there is no process left, or no descriptor.
pub fn begin(file: &Executable, program: Program) -> io::Result<Starting> {
    let (told, tells) = pipe(End::Reading)?;
    let leader = match process::fork()? {
        Forked::Parent(leader) => leader,
        Forked::Child => {
            let error = execute(file, &program, &tells);
            let number = error.raw_os_error().unwrap_or(libc::EIO);
            // It fails when its parent has gone.
            let _ = rustix::io::write(&tells, &number.to_ne_bytes());
            process::exit_now(NOT_EXECUTED);
        }
    };
    let group = rustix::process::Pid::from_raw(leader.number());
    // It does so itself as well: who is first does not matter, and fails where it was executed.
    let _ = rustix::process::setpgid(group, group);
    Ok(Starting { leader, told })
}

/// In the new process: executes the program, or else says why not.
fn execute(file: &Executable, program: &Program, tells: &Owned) -> io::Error {
    let [input, output, error] = &program.standard;
    let taken = rustix::stdio::dup2_stdin(input)
        .and_then(|()| rustix::stdio::dup2_stdout(output))
        .and_then(|()| rustix::stdio::dup2_stderr(error))
        .and_then(|()| rustix::process::fchdir(file.directory()));
    if let Err(error) = taken {
        return error.into();
    }
    // It would keep the pipes of others open for as long as it takes.
    process::close_all_but(&[tells.as_fd()]);
    let variables = program.environment.iter();
    let mut command = Command::new(file.path_there());
    command
        .arg0(&program.path)
        .args(&program.arguments)
        .env_clear()
        .envs(variables.map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value))))
        .process_group(0);
    let limits = program.limits;
    // SAFETY: only calls are made that are safe between fork and exec: setrlimit, prctl, signal and
    // sigprocmask take no lock and allocate nothing, and `limits` is a copy. They come last, since
    // there may be no memory by these limits.
    unsafe { command.pre_exec(move || confine(limits)) };
    command.exec()
}

/// A program that is about to be executed, by a child of this process. What can be read there tells
/// of it: [`Starting::outcome`].
#[derive(Debug)]
pub struct Starting {
    leader: ProcessId,
    told: Owned,
}

impl Starting {
    /// The child, which leads a process group.
    pub fn leader(&self) -> ProcessId {
        self.leader
    }

    /// Whether it was executed, or why it cannot be: `NotFound`, `PermissionDenied` and the like;
    /// `None` while that is not known. The child ends then. Never blocks.
    pub fn outcome(&self) -> Option<io::Result<()>> {
        let mut number = [0; 4];
        match read(&self.told, &mut number) {
            Ok(0) => Some(Ok(())),
            Ok(_) => Some(Err(io::Error::from_raw_os_error(i32::from_ne_bytes(number)))),
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl AsFd for Starting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }
}

/// In the new process, before the program is executed.
fn confine(limits: ProgramLimits) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let set = |resource, most: Option<u64>| match most {
        Some(most) => setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }),
        None => Ok(()),
    };
    set(Resource::As, limits.memory_bytes)?;
    set(Resource::Cpu, limits.cpu_s)?;
    set(Resource::Core, Some(0))?;
    crate::signal::forget_all();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}

/// A process group and its leader. Members may live on when the leader has ended and its number is
/// another process's: signals go to this group and to no other, where the kernel can tell (6.9).
#[derive(Debug)]
pub struct Group {
    leader: ProcessId,
    handle: Option<OwnedFd>,
}

impl Group {
    /// That of a child which has not been waited for.
    pub fn of(leader: ProcessId) -> Group {
        Group { leader, handle: crate::process::handle(leader) }
    }

    /// The leader.
    pub fn leader(&self) -> ProcessId {
        self.leader
    }

    /// Sends SIGKILL to the group, or SIGTERM, which it may refuse; false when it is gone. Where
    /// the kernel cannot tell a group from another that has its number, only one whose leader was
    /// not waited for (`leads`) is signalled.
    pub fn end(&self, kill: bool, leads: bool) -> bool {
        self.send(if kill { libc::SIGKILL } else { libc::SIGTERM })
            .unwrap_or_else(|| leads && end_group(self.leader, kill))
    }

    /// Whether any process of the group is there; false where the kernel cannot tell.
    pub fn is_there(&self) -> bool {
        self.send(0).unwrap_or(false)
    }

    /// Sends a signal, or none: whether the group is there; `None` where the kernel cannot tell.
    fn send(&self, signal: libc::c_int) -> Option<bool> {
        /// `PIDFD_SIGNAL_PROCESS_GROUP` of linux/pidfd.h.
        const TO_GROUP: libc::c_uint = 1 << 2;
        let sent = self.handle.as_ref().map(|handle| {
            let (fd, nothing) = (handle.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
            // SAFETY: the call takes three numbers, and a pointer that may be null.
            let done = unsafe {
                libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, nothing, TO_GROUP)
            };
            if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        });
        match sent {
            Some(Ok(())) => Some(true),
            Some(Err(error)) if error.raw_os_error() == Some(libc::ESRCH) => Some(false),
            // Kernels before 6.9, and profiles that do not know the call.
            _ => None,
        }
    }
}

/// Sends a signal to the process group that a process leads which has not been waited for: SIGKILL,
/// or SIGTERM, which it may refuse; false when it is gone.
pub fn end_group(leader: ProcessId, kill: bool) -> bool {
    use rustix::process::Signal;
    let signal = if kill { Signal::KILL } else { Signal::TERM };
    let group = rustix::process::Pid::from_raw(leader.number());
    group.is_some_and(|group| rustix::process::kill_process_group(group, signal).is_ok())
}

/// Whether an error of [`Starting::outcome`] is that of the file, or of what the file names to be
/// run by. Any other is want of something that the system gives.
pub fn is_of_file(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | PermissionDenied | NotADirectory)
        || matches!(error.raw_os_error(), Some(libc::ENOEXEC | libc::ELOOP | libc::EISDIR))
}

/// Whether this is an end of a pipe.
pub fn is_pipe(fd: impl AsFd) -> bool {
    let kind = |stat: rustix::fs::Stat| rustix::fs::FileType::from_raw_mode(stat.st_mode);
    rustix::fs::fstat(fd).is_ok_and(|stat| kind(stat) == rustix::fs::FileType::Fifo)
}

/// What a path leads to, links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A directory.
    Directory,
    /// Something else.
    File,
}

/// Looks what a path leads to. Blocks on the disk.
///
/// # Errors
/// `NotFound`, `PermissionDenied` and the like.
pub fn find(path: &Path) -> io::Result<Found> {
    Ok(if std::fs::metadata(path)?.is_dir() { Found::Directory } else { Found::File })
}

/// A pipe: its reading and its writing end, closed on exec. Calls on the end that stays here, as
/// `ours` says, return `WouldBlock` instead of waiting; those on the other end, which a program
/// gets, wait.
///
/// # Errors
/// When descriptors are out.
pub fn pipe(ours: End) -> io::Result<(Owned, Owned)> {
    let opening = Opening::begin();
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (read, write) = (opening.own(read), opening.own(write));
    rustix::io::ioctl_fionbio(if ours == End::Reading { &read } else { &write }, true)?;
    Ok((read, write))
}

/// An end of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that is read from.
    Reading,
    /// The one that is written to.
    Writing,
}

/// Reads from a pipe or a socket; 0 is its end.
///
/// # Errors
/// `WouldBlock` when nothing is there.
pub fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(fd, buffer)?)
}

/// Writes to a pipe.
///
/// # Errors
/// `WouldBlock` when it is full, `BrokenPipe` when nobody reads. SIGPIPE is ignored, as Rust's
/// runtime does.
pub fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(fd, bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// What came of it; it ends then.
    fn outcome_of(starting: &Starting) -> io::Result<()> {
        assert!(crate::net::wait_readable(starting, 10_000).unwrap());
        starting.outcome().unwrap()
    }

    fn start(file: &Executable, program: Program) -> io::Result<ProcessId> {
        let starting = begin(file, program)?;
        outcome_of(&starting)?;
        Ok(starting.leader())
    }

    fn start_shell(program: Program) -> ProcessId {
        start(&Executable::find(Path::new("/bin/sh")).unwrap(), program).unwrap()
    }

    fn shell(script: &str, limits: ProgramLimits) -> (ProcessId, String) {
        let (input, _) = std::io::pipe().unwrap();
        let (read, output) = std::io::pipe().unwrap();
        let program = Program {
            path: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![(b"NAME".to_vec(), b"\xffvalue".to_vec())],
            standard: [input.into(), output.try_clone().unwrap().into(), output.into()],
            limits,
        };
        let started = start_shell(program);
        let mut text = Vec::new();
        (&read).read_to_end(&mut text).unwrap();
        (started, String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    fn a_program_gets_its_environment_and_a_group_of_its_own_and_nothing_else() {
        let script = "echo $NAME; env | grep -c -v -e ^PWD= -e ^_= -e ^SHLVL=; \
                      [ $(ps -o pgid= -p $$) = $$ ] && echo leads";
        let (child, text) = shell(script, ProgramLimits::default());
        let name = "\u{fffd}value\n";
        assert_eq!(text, format!("{name}1\nleads\n"));
        assert_eq!(crate::process::wait_for(child).unwrap(), 0);
    }

    #[test]
    fn what_cannot_be_executed_is_told() {
        let (_, output) = std::io::pipe().unwrap();
        let copy = || output.try_clone().unwrap().into();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        let starts = || {
            let found = Executable::find(&path).unwrap();
            let (arguments, environment, limits) = Default::default();
            let standard = [copy(), copy(), copy()];
            let path = path.clone();
            (found, Program { path, arguments, environment, standard, limits })
        };
        std::fs::write(&path, "#!/no/such/interpreter\n").unwrap();
        let (found, program) = starts();
        let error = start(&found, program).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(is_of_file(&error) && !is_of_file(&io::ErrorKind::OutOfMemory.into()));
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let (found, program) = starts();
        assert_eq!(start(&found, program).unwrap_err().kind(), io::ErrorKind::NotFound);
        let (found, program) = starts();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(start(&found, program).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    fn begun(path: &Path, output: OwnedFd) -> Starting {
        let copy = || output.try_clone().unwrap();
        let (arguments, environment, limits) = Default::default();
        let standard = [copy(), copy(), copy()];
        let program = Program { path: path.into(), arguments, environment, standard, limits };
        begin(&Executable::find(path).unwrap(), program).unwrap()
    }

    #[test]
    fn whether_a_program_was_executed_is_told_later() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        let write = |script: &str| {
            std::fs::write(&path, script).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).unwrap();
        };
        write("#!/bin/sh\n[ $(ps -o pgid= -p $$) = $$ ] && echo leads\n");
        let (mut read, output) = std::io::pipe().unwrap();
        let starting = begun(&path, output.into());
        outcome_of(&starting).unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!((&*text, crate::process::wait_for(starting.leader()).unwrap()), ("leads\n", 0));

        write("#!/no/such/interpreter\n");
        let (mut read, output) = std::io::pipe().unwrap();
        let starting = begun(&path, output.into());
        assert_eq!(outcome_of(&starting).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read.read(&mut [0]).unwrap(), 0);
        assert_eq!(crate::process::wait_for(starting.leader()).unwrap(), NOT_EXECUTED);
    }

    #[test]
    fn a_program_whose_file_another_process_holds_keeps_none_waiting_that_starts_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        std::fs::write(&path, "#!/bin/sh\necho runs\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        /// `F_SETSIG` of linux/fcntl.h.
        const SET_SIGNAL: libc::c_int = 10;
        let lease = |kind: libc::c_int| {
            // SAFETY: the calls take a descriptor and numbers.
            unsafe {
                libc::fcntl(file.as_raw_fd(), SET_SIGNAL, libc::SIGURG);
                libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind)
            }
        };
        if lease(libc::F_WRLCK) != 0 {
            println!("passed over: this file system gives no lease");
            return;
        }
        let (mut read, output) = std::io::pipe().unwrap();
        let starting = begun(&path, output.into());
        assert!(starting.outcome().is_none());
        assert_eq!(lease(libc::F_UNLCK), 0);
        outcome_of(&starting).unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "runs\n");
        crate::process::wait_for(starting.leader()).unwrap();
    }

    #[test]
    fn a_program_runs_in_the_directory_where_it_was_found_whatever_its_name_leads_to_by_then() {
        let (input, _) = std::io::pipe().unwrap();
        let (mut read, output) = std::io::pipe().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for (name, says) in [("own", "own"), ("other", "other")] {
            std::fs::create_dir(at(name)).unwrap();
            let script = format!("#!/bin/sh\necho {says} $0 $1; cat note\n");
            std::fs::write(at(name).join("run"), script).unwrap();
            std::fs::write(at(name).join("note"), format!("note of {says}\n")).unwrap();
            std::fs::set_permissions(
                at(name).join("run"),
                std::os::unix::fs::PermissionsExt::from_mode(0o755),
            )
            .unwrap();
        }
        let path = at("own/run");
        let found = Executable::find(&path).unwrap();
        std::fs::rename(at("own"), at("moved")).unwrap();
        std::os::unix::fs::symlink("other", at("own")).unwrap();
        let program = Program {
            path,
            arguments: vec!["argument".into()],
            environment: vec![],
            standard: [input.into(), output.try_clone().unwrap().into(), output.into()],
            limits: ProgramLimits::default(),
        };
        let child = start(&found, program).unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "own ./run argument\nnote of own\n");
        assert_eq!(crate::process::wait_for(child).unwrap(), 0);
    }

    #[test]
    fn a_binary_is_told_its_whole_path() {
        let (child, text) = shell("tr '\\0' ' ' < /proc/$$/cmdline", ProgramLimits::default());
        assert!(text.starts_with("/bin/sh -c "), "{text}");
        assert_eq!(crate::process::wait_for(child).unwrap(), 0);
    }

    #[test]
    fn no_signal_is_blocked_or_ignored_although_the_server_does_so() {
        let _blocked = crate::signal::Masked::all();
        let (child, text) = shell("grep -E '^Sig(Blk|Ign)' /proc/self/status", Default::default());
        let sets: Vec<u64> = text
            .lines()
            .filter_map(|line| u64::from_str_radix(line.split('\t').nth(1)?, 16).ok())
            .collect();
        // Signals 32 and 33 are the C library's, which lets nobody change them.
        let of_libc = 0b11 << 31;
        assert_eq!(sets.iter().map(|set| set & !of_libc).collect::<Vec<_>>(), [0, 0], "{text}");
        crate::process::wait_for(child).unwrap();
    }

    #[test]
    fn a_limit_of_memory_holds() {
        let limits = ProgramLimits { memory_bytes: Some(64 << 20), cpu_s: Some(10) };
        let (child, text) = shell("ulimit -v; ulimit -t; ulimit -c", limits);
        assert_eq!(text, "65536\n10\n0\n");
        crate::process::wait_for(child).unwrap();
    }

    #[test]
    fn the_whole_group_is_ended() {
        let (input, _) = std::io::pipe().unwrap();
        let (read, output) = std::io::pipe().unwrap();
        let program = Program {
            path: "/bin/sh".into(),
            arguments: vec!["-c".into(), "sleep 600 & sleep 600 & wait".into()],
            environment: vec![],
            standard: [input.into(), output.try_clone().unwrap().into(), output.into()],
            limits: ProgramLimits::default(),
        };
        let child = start_shell(program);
        end_group(child, true);
        // The sleeping processes hold the pipe until they are gone.
        assert_eq!((&read).read_to_end(&mut Vec::new()).unwrap(), 0);
        assert_eq!(crate::process::wait_for(child).unwrap(), 128 + libc::SIGKILL);
    }

    #[test]
    fn a_group_is_ended_whose_leader_has_been_waited_for() {
        let (input, _) = std::io::pipe().unwrap();
        let (read, output) = std::io::pipe().unwrap();
        let program = Program {
            path: "/bin/sh".into(),
            arguments: vec!["-c".into(), "sleep 600 & exit 0".into()],
            environment: vec![],
            standard: [input.into(), output.try_clone().unwrap().into(), output.into()],
            limits: ProgramLimits::default(),
        };
        let group = Group::of(start_shell(program));
        assert_eq!(crate::process::wait_for(group.leader()).unwrap(), 0);
        assert!(group.end(true, false));
        assert_eq!((&read).read_to_end(&mut Vec::new()).unwrap(), 0);
        // It is gone by now, and its number may be another's.
        group.end(true, false);
    }
}
