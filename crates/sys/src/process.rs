//! Processes: fork, wait, kill, pin, rights, and how many CPUs this one may use.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::{Pid, Signal as KernelSignal, WaitOptions, WaitStatus};
use rustix::thread::CpuSet;

use crate::{cgroup, clock};

pub use crate::descriptor_limits::{
    descriptor_limit, grow_descriptor_table, limit_descriptors, raise_descriptor_limit,
    raise_descriptor_limit_to,
};

/// Which side of a fork this is.
#[derive(Debug)]
pub enum Forked {
    /// The new process.
    Child,
    /// The old one, with the child's id.
    Parent(ProcessId),
}

/// The id of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId(Pid);

impl ProcessId {
    /// That of a child that was started in another way than here.
    #[cfg(test)]
    pub(crate) fn of(number: i32) -> Option<ProcessId> {
        Pid::from_raw(number).map(ProcessId)
    }

    /// The number.
    pub fn number(self) -> i32 {
        self.0.as_raw_nonzero().get()
    }
}

/// Forks a process of one thread: in the child no other would exist, and locks that others held
/// would stay locked for ever.
///
/// # Errors
/// When this process has more than one thread, or processes or memory are out.
pub fn fork() -> io::Result<Forked> {
    // The harness of this crate's tests has threads; what they run in the child needs no lock.
    if !cfg!(test) && threads()? > 1 {
        return Err(io::Error::other("a process with several threads cannot be forked"));
    }
    // SAFETY: the child continues on a copy of this thread's stack and heap, which is sound as no
    // other thread was there to hold a lock that the child needs.
    forked(unsafe { libc::fork() }.into())
}

/// As [`fork`], but the child's parent is this process's own (`CLONE_PARENT`): who waits for this
/// process waits for that one too, and this one does not. The first process of a namespace has no
/// parent, and gets a child. With a handle of the child, by which it can be killed although its
/// number may be another's by then.
///
/// # Errors
/// As [`fork`].
pub fn fork_beside() -> io::Result<(Forked, Option<OwnedFd>)> {
    if !cfg!(test) && threads()? > 1 {
        return Err(io::Error::other("a process with several threads cannot be forked"));
    }
    let flags = libc::CLONE_PARENT | libc::CLONE_PIDFD | libc::SIGCHLD;
    let mut handle: libc::c_int = -1;
    // SAFETY: as in `spawn_sharing_descriptors`; the kernel writes a descriptor to `handle`, or
    // nothing where it knows no such flag.
    let begun = forked(unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut handle, 0, 0) });
    match begun {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => fork_with_handle(),
        Ok(Forked::Parent(child)) => {
            // SAFETY: it was made by the call for this process, and no other owner has its number.
            let handle = (handle >= 0).then(|| unsafe { OwnedFd::from_raw_fd(handle) });
            Ok((Forked::Parent(child), handle))
        }
        begun => Ok((begun?, None)),
    }
}

/// As [`fork`], with a handle of the child.
///
/// # Errors
/// As [`fork`].
pub fn fork_with_handle() -> io::Result<(Forked, Option<OwnedFd>)> {
    let forked = fork()?;
    let handle = match forked {
        Forked::Parent(child) => handle(child),
        Forked::Child => None,
    };
    Ok((forked, handle))
}

/// A handle (pidfd_open(2)) of a child that has not been waited for; `None` where there are none.
pub(crate) fn handle(child: ProcessId) -> Option<OwnedFd> {
    rustix::process::pidfd_open(child.0, rustix::process::PidfdFlags::empty()).ok()
}

/// As [`kill`], by a handle where there is one that the kernel takes.
pub fn kill_by(handle: Option<&OwnedFd>, child: ProcessId) {
    tell_by(handle, child, KernelSignal::KILL, kill);
}

/// Tells a process to stop, as [`terminate`], by its handle if there is one.
pub fn terminate_by(handle: Option<&OwnedFd>, child: ProcessId) {
    tell_by(handle, child, KernelSignal::TERM, terminate);
}

/// Sends a signal by a handle; where that cannot be done, `else_by` sends it by the number.
fn tell_by(
    handle: Option<&OwnedFd>,
    child: ProcessId,
    signal: KernelSignal,
    else_by: fn(ProcessId),
) {
    match handle.map(|handle| rustix::process::pidfd_send_signal(handle, signal)) {
        Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => {}
        Some(Err(_)) | None => else_by(child),
    }
}

/// What fork(2) and clone(2) have returned, on either side.
fn forked(pid: libc::c_long) -> io::Result<Forked> {
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => match i32::try_from(pid).ok().and_then(Pid::from_raw) {
            Some(pid) => Ok(Forked::Parent(ProcessId(pid))),
            None => Err(io::ErrorKind::InvalidData.into()),
        },
    }
}

/// Threads of this process. A directory has two links, and another for each directory in it: it
/// need not be opened, which a process that keeps few rights may not.
fn threads() -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata("/proc/self/task")?.nlink().saturating_sub(2))
}

/// Forks a child that holds no descriptor but the standard three and those of `keep`, reaps nobody,
/// and ends with the code that `life` returns. The child runs no destructor of what its parent had;
/// `life` must use no descriptor that was not kept.
///
/// # Errors
/// As [`fork`].
pub fn fork_holding(keep: &[BorrowedFd<'_>], life: impl FnOnce() -> i32) -> io::Result<ProcessId> {
    match fork()? {
        Forked::Parent(child) => Ok(child),
        Forked::Child => {
            close_all_but(keep);
            // SAFETY: an ignored SIGCHLD runs no code; children of this process leave no zombies.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
            exit_now(life());
        }
    }
}

/// Forks a child that finds something out, for what cannot be undone in this process: the number
/// that it gives. Blocks until it has ended.
///
/// # Errors
/// As [`fork`], or when the child ends without an answer.
pub fn ask_child(question: impl FnOnce() -> u32) -> io::Result<u32> {
    let (answer, told) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match fork()? {
        Forked::Child => {
            let answer = question().to_ne_bytes();
            exit_now(i32::from(rustix::io::write(&told, &answer) != Ok(answer.len())));
        }
        Forked::Parent(child) => {
            drop(told);
            let mut number = [0; 4];
            let read = rustix::io::retry_on_intr(|| rustix::io::read(&answer, &mut number));
            wait_for(child)?;
            match read {
                Ok(4) => Ok(u32::from_ne_bytes(number)),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

/// As [`fork_holding`], and the child is killed when its parent dies.
///
/// # Errors
/// As [`fork`].
pub fn fork_apart(keep: &[BorrowedFd<'_>], life: impl FnOnce() -> i32) -> io::Result<ProcessId> {
    let parent = own_id();
    fork_holding(keep, || match be_killed_with_parent(parent) {
        Ok(()) => life(),
        Err(_) => 1,
    })
}

/// Closes every descriptor but the standard three and those of `keep`.
pub(crate) fn close_all_but(keep: &[BorrowedFd<'_>]) {
    let mut kept: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd() as u32).collect();
    kept.sort_unstable();
    let mut first = 3;
    for last in kept.into_iter().chain([u32::MAX]) {
        let before = if last == u32::MAX { last } else { last.saturating_sub(1) };
        if first <= before && last > first {
            // SAFETY: only descriptors are closed; whoever owned them in this process's copy of its
            // parent's memory never runs again, since the process ends without destructors.
            let closed = unsafe { libc::syscall(libc::SYS_close_range, first, before, 0) };
            if closed != 0 {
                close_each(first, before);
            }
        }
        first = first.max(last.saturating_add(1));
    }
}

/// What close_range(2) does, for kernels before 5.9.
fn close_each(first: u32, last: u32) {
    for fd in first..=last.min(descriptor_limit() as u32) {
        // SAFETY: as in `close_all_but`.
        unsafe { libc::close(fd as i32) };
    }
}

/// Starts a process that shares this one's table of descriptors and nothing else (`CLONE_FILES`
/// without `CLONE_VM`): it runs `body` on a copy of this process's memory and ends with the code
/// that `body` gives. As with [`fork`], this process must have one thread.
///
/// What either opens or closes is open or closed in both. The new process runs no destructor of
/// what it was cloned with: `body` is only borrowed, and the process ends where `body` does. A
/// `body` must not take a descriptor that it was cloned with out of a cell or a lock to drop it.
///
/// # Errors
/// As [`fork`].
pub fn spawn_sharing_descriptors(body: &dyn Fn() -> i32) -> io::Result<ProcessId> {
    if threads()? > 1 {
        return Err(io::Error::other("a process with several threads cannot be cloned"));
    }
    let flags = libc::CLONE_FILES | libc::SIGCHLD;
    // SAFETY: without CLONE_VM and with no stack of its own the child goes on as after fork(2), on
    // a copy of this thread's stack and heap; no other thread was there to hold a lock that it
    // needs. The C library does not learn the child's thread id, which only matters to a thread
    // that asks for its own handle there; nothing here does.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            exit_now(ended.unwrap_or(PANICKED));
        }
        pid => match i32::try_from(pid).ok().and_then(Pid::from_raw) {
            Some(pid) => Ok(ProcessId(pid)),
            None => Err(io::ErrorKind::InvalidData.into()),
        },
    }
}

/// What processes may share, as kcmp(2) numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// Memory.
    Memory = 1,
    /// The table of descriptors.
    Descriptors = 2,
}

/// Whether two processes, by their ids, share this.
///
/// # Errors
/// When either is gone, or this process may not look at both.
pub fn share(one: i32, other: i32, what: Shared) -> io::Result<bool> {
    // SAFETY: kcmp takes five numbers.
    match unsafe { libc::syscall(libc::SYS_kcmp, one, other, what as i32, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        order => Ok(order == 0),
    }
}

/// Exit code of a process whose body panicked, the same as that of Rust's own.
const PANICKED: i32 = 101;

/// Ends this process at once, running no destructors and no exit handlers: for forked children.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit only ends the process.
    unsafe { libc::_exit(code) }
}

/// Asks the kernel to send this process SIGTERM when its parent dies.
///
/// # Errors
/// Never on Linux, in practice.
pub fn die_with_parent(parent: i32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(KernelSignal::TERM))?;
    // The parent may have died before the call.
    if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        exit_now(0);
    }
    Ok(())
}

/// Keeps other processes of the same user from this one's memory, which holds secrets, and the
/// kernel from writing it to a file (PR_SET_DUMPABLE in prctl(2)).
///
/// # Errors
/// Never on Linux, in practice.
pub fn hide_memory() -> io::Result<()> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Asks the kernel to kill this process when its parent dies.
///
/// # Errors
/// Never on Linux, in practice.
pub fn be_killed_with_parent(parent: i32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(KernelSignal::KILL))?;
    // The parent may have died before the call.
    if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        exit_now(0);
    }
    Ok(())
}

/// This process's id.
pub fn own_id() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Whether there is a process of this number, of whatever user.
pub fn exists(id: i32) -> bool {
    let found = rustix::process::Pid::from_raw(id).map(rustix::process::test_kill_process);
    found.is_some_and(|found| found != Err(rustix::io::Errno::SRCH))
}

/// Has children that end kept until they are reaped: the opposite of what [`fork_holding`] sets.
pub fn heed_children() {
    // SAFETY: the default action of SIGCHLD runs no code.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Reaps one child that ended, if any: its id and how it ended. Never blocks.
pub fn reap() -> Option<(ProcessId, Ending)> {
    match rustix::process::wait(WaitOptions::NOHANG) {
        Ok(Some((pid, status))) => Some((ProcessId(pid), ending(status))),
        _ => None,
    }
}

/// Waits until this child ends; its exit code, or 128 and the signal. Blocks.
///
/// # Errors
/// When it is no child of this process.
pub fn wait_for(child: ProcessId) -> io::Result<i32> {
    match rustix::process::waitpid(Some(child.0), WaitOptions::empty())? {
        Some((_, status)) => Ok(match ending(status) {
            Ending::Exited(code) => code,
            Ending::Killed(signal) => 128 + signal,
        }),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
}

impl Ending {
    /// Whether it was given no time to end in order.
    pub fn is_abrupt(self) -> bool {
        matches!(self, Ending::Killed(_))
    }

    /// Whether it is the process's own fault: an exit code above 0, or a signal that nobody sends
    /// to end a process.
    pub fn is_failure(self) -> bool {
        match self {
            Ending::Exited(code) => code > 0,
            Ending::Killed(signal) => {
                ![libc::SIGTERM, libc::SIGINT, libc::SIGKILL].contains(&signal)
            }
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exited(code) => write!(to, "exited with code {code}"),
            Ending::Killed(signal) => write!(to, "was ended by signal {signal}"),
        }
    }
}

fn ending(status: WaitStatus) -> Ending {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Killed(signal.unwrap_or(0)),
    }
}

/// Sends a child SIGTERM. A child that is gone is no error.
pub fn terminate(child: ProcessId) {
    let _ = rustix::process::kill_process(child.0, KernelSignal::TERM);
}

/// A pipe that says nothing but that its writing end is still held by somebody: the reading end,
/// and the writing end for a child that is about to be forked.
///
/// # Errors
/// When descriptors are out.
pub fn lifeline() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Waits until nobody holds the other end of a [`lifeline`], at most `timeout_ms`; whether that
/// is so: what is written to it says nothing. Blocks.
pub fn wait_for_end(lifeline: impl AsFd, timeout_ms: u64) -> bool {
    let until_ms = clock::monotonic_ms().saturating_add(timeout_ms);
    loop {
        let left_ms = until_ms.saturating_sub(clock::monotonic_ms());
        match crate::net::wait_closed(&lifeline, left_ms) {
            Ok(true) => return true,
            // An interrupting signal ends a wait early.
            Ok(false) if clock::monotonic_ms() < until_ms => {}
            _ => return false,
        }
    }
}

/// Sends a child the signal that a worker takes as [`Signal::Retire`](crate::signal::Signal). A
/// child that is gone is no error.
pub fn retire(child: ProcessId) {
    // SAFETY: kill takes two numbers.
    unsafe { libc::kill(child.number(), crate::signal::retire()) };
}

/// Sends a child the signal that it takes as
/// [`Signal::TakeNames`](crate::signal::Signal). A child that is gone is no error.
pub fn ask_to_take_names(child: ProcessId) {
    // SAFETY: kill takes two numbers.
    unsafe { libc::kill(child.number(), crate::signal::take_names()) };
}

/// Sends a child SIGUSR1, which it takes as [`Signal::Reopen`](crate::signal::Signal). A child that
/// is gone is no error.
pub fn ask_to_reopen(child: ProcessId) {
    let _ = rustix::process::kill_process(child.0, KernelSignal::USR1);
}

/// Sends a child SIGKILL. A child that is gone is no error.
pub fn kill(child: ProcessId) {
    let _ = rustix::process::kill_process(child.0, KernelSignal::KILL);
}

/// Kills this process, as somebody else would: for tests.
#[cfg(test)]
pub(crate) fn kill_own() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), KernelSignal::KILL);
}

/// The CPUs this process may run on, in ascending order.
pub fn allowed_cpus() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => vec![0],
    }
}

/// Binds this thread to one CPU.
///
/// # Errors
/// When the CPU is not allowed to this process.
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Makes the kernel end the waits of this thread when they are over, and not up to 50 us later, for
/// the sake of saving power.
pub fn wake_on_time() {
    // Without it waits are a little less exact, and whoever measures sees it.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Nanoseconds for which this thread was ready to run and no CPU was free for it; 0 where the
/// kernel does not tell.
pub fn run_queue_wait_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// How many CPUs' worth of time this process may use: the smaller of the affinity mask and the
/// cgroup quota, rounded up, at least 1. The machine's core count does not enter.
pub fn cpu_allowance() -> usize {
    let allowed = allowed_cpus().len().max(1);
    match cgroup::cpu_quota() {
        Some(quota) => allowed.min(quota.most.ceil().max(1.0) as usize),
        None => allowed,
    }
}

/// Another descriptor of standard output.
///
/// # Errors
/// When it is closed, or descriptors are out.
pub fn duplicate_stdout() -> io::Result<std::fs::File> {
    Ok(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?.into())
}

/// Another descriptor of standard error.
///
/// # Errors
/// As [`duplicate_stdout`].
pub fn duplicate_stderr() -> io::Result<std::fs::File> {
    Ok(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?.into())
}

/// True when this process has the rights of the superuser.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Gives up the superuser's rights for good: becomes the user and group `id`, with no other group.
///
/// # Errors
/// When this process is not the superuser.
#[cfg(test)]
pub(crate) fn become_user(id: u32) -> io::Result<()> {
    // SAFETY: the three calls take plain numbers and a null list of length 0.
    let done = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setresgid(id, id, id) == 0
            && libc::setresuid(id, id, id) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::process::Command;

    /// Set where a test runs in a process of its own.
    const ALONE: &str = "FLYBALL_TEST_ALONE";

    /// Runs `body`, all of the test `name`, in a process with one thread. A clone of a process with
    /// several waits for ever for a lock that another thread held, such as the allocator's. So this
    /// program is started again for the one test: the harness then sleeps while it forks.
    fn alone(name: &str, body: impl FnOnce()) {
        if std::env::var_os(ALONE).is_some() {
            match fork().unwrap() {
                Forked::Child => {
                    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
                    exit_now(if done.is_ok() { 0 } else { 1 });
                }
                Forked::Parent(child) => return assert_eq!(wait_for(child).unwrap(), 0),
            }
        }
        let name = format!("process::tests::{name}");
        let test = ["--exact", &name, "--nocapture", "--test-threads=1"];
        let program = std::env::current_exe().unwrap();
        let ended = Command::new(program).args(test).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.contains("1 passed"), "{said}{errors}");
    }

    #[test]
    fn the_threads_of_this_process_are_counted() {
        // The harness runs other tests beside this one.
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || held.recv());
        let before = threads().unwrap();
        let listed = std::fs::read_dir("/proc/self/task").unwrap().count() as u64;
        assert!(before >= 2 && listed >= 2, "{before} {listed}");
        drop(hold);
        let _ = thread.join();
        match fork().unwrap() {
            Forked::Child => exit_now(threads().map_or(9, |count| count as i32)),
            Forked::Parent(child) => assert_eq!(wait_for(child).unwrap(), 1),
        }
    }

    #[test]
    fn a_child_answers_a_question_or_dies_of_it() {
        assert_eq!(ask_child(|| 7).unwrap(), 7);
        assert!(ask_child(|| exit_now(0)).is_err());
    }

    #[test]
    fn a_child_is_forked_pinned_and_reaped() {
        match fork().unwrap() {
            Forked::Child => {
                let first = allowed_cpus()[0];
                let pinned = pin(first).is_ok() && allowed_cpus() == [first];
                exit_now(if pinned && cpu_allowance() == 1 { 3 } else { 4 });
            }
            Forked::Parent(child) => assert_eq!(wait_for(child).unwrap(), 3),
        }
    }

    #[test]
    fn a_table_of_descriptors_has_room_before_they_are_opened() {
        let room = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
            size.and_then(|size| size.trim().parse::<usize>().ok()).unwrap_or(0)
        };
        match fork().unwrap() {
            Forked::Child => {
                let is_lowered = limit_descriptors(900).is_ok();
                let some = grow_descriptor_table(500).is_ok() && (500..1_000).contains(&room());
                let all = grow_descriptor_table(usize::MAX).is_ok() && room() >= 900;
                exit_now(if is_lowered && some && all { 3 } else { 4 });
            }
            Forked::Parent(child) => assert_eq!(wait_for(child).unwrap(), 3),
        }
    }

    #[test]
    fn a_limit_that_was_lowered_is_raised_only_when_asked_for() {
        match fork().unwrap() {
            Forked::Child => {
                let most = raise_descriptor_limit();
                let lowered = limit_descriptors(64).is_ok() && descriptor_limit() == 64;
                let stays = lowered && descriptor_limit() == 64;
                exit_now(if stays && raise_descriptor_limit() == most { 3 } else { 4 });
            }
            Forked::Parent(child) => assert_eq!(wait_for(child).unwrap(), 3),
        }
    }

    #[test]
    fn a_process_that_shares_descriptors_shares_no_memory() {
        alone("a_process_that_shares_descriptors_shares_no_memory", || {
            let memory = std::cell::Cell::new(1);
            let (read, write) = rustix::pipe::pipe().unwrap();
            let child = spawn_sharing_descriptors(&|| {
                memory.set(2);
                let mut byte = [0];
                let _ = rustix::io::read(&read, &mut byte);
                if byte == [7] { 3 } else { 4 }
            });
            let child = child.unwrap();
            let shares = |what| share(own_id(), child.number(), what).unwrap();
            assert!(shares(Shared::Descriptors) && !shares(Shared::Memory));
            rustix::io::write(&write, &[7]).unwrap();
            assert_eq!((wait_for(child).unwrap(), memory.get()), (3, 1));
        });
    }

    #[test]
    fn a_body_that_panics_ends_its_process_and_closes_nothing() {
        alone("a_body_that_panics_ends_its_process_and_closes_nothing", || {
            let (read, write) = rustix::pipe::pipe().unwrap();
            let child = spawn_sharing_descriptors(&|| panic!("a panic of a test"));
            assert_eq!(wait_for(child.unwrap()).unwrap(), PANICKED);
            rustix::io::write(&write, &[7]).unwrap();
            assert_eq!(rustix::io::read(&read, &mut [0]).unwrap(), 1);
        });
    }

    #[test]
    fn who_is_killed_or_told_to_end_did_not_fail() {
        let ends =
            [Ending::Exited(0), Ending::Killed(libc::SIGKILL), Ending::Killed(libc::SIGTERM)];
        assert!(!ends.into_iter().any(Ending::is_failure));
        let fails = [Ending::Exited(1), Ending::Exited(101), Ending::Killed(libc::SIGSEGV)];
        assert!(fails.into_iter().all(Ending::is_failure));
    }

    #[test]
    fn a_lifeline_ends_with_the_child_that_holds_it() {
        let (ours, theirs) = lifeline().unwrap();
        match fork().unwrap() {
            Forked::Child => loop {
                // SAFETY: pause only waits for a signal.
                unsafe { libc::pause() };
            },
            Forked::Parent(child) => {
                drop(theirs);
                assert!(!wait_for_end(&ours, 1));
                kill(child);
                assert!(wait_for_end(&ours, 10_000));
                wait_for(child).unwrap();
            }
        }
    }

    #[test]
    fn a_process_apart_holds_only_what_was_kept() {
        let (kept, lost) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let (kept_fd, lost_fd) = (kept.1.as_raw_fd(), lost.0.as_raw_fd());
        let child = fork_apart(&[kept.1.as_fd()], || {
            let is_open = |fd: i32| std::path::Path::new(&format!("/proc/self/fd/{fd}")).exists();
            i32::from(is_open(2) && is_open(kept_fd) && !is_open(lost_fd))
        });
        assert_eq!(wait_for(child.unwrap()).unwrap(), 1);
    }

    #[test]
    fn a_terminated_child_says_which_signal_ended_it() {
        match fork().unwrap() {
            Forked::Child => loop {
                // SAFETY: pause only waits for a signal.
                unsafe { libc::pause() };
            },
            Forked::Parent(child) => {
                terminate(child);
                assert_eq!(wait_for(child).unwrap(), 128 + libc::SIGTERM);
            }
        }
    }
}
