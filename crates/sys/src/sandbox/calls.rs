//! The system calls of the server, in groups: the one table that says which process may make which.
//!
//! A call whose arguments matter has a [`Rule`]. The others are allowed by their number alone, so
//! that the kernel keeps the answer in a bitmap (Linux 5.11) and runs no filter for them: whatever
//! is made for each request is one of these.

/// A system call: its number here, its name, and which arguments it may have.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its number.
    pub number: i64,
    /// Its name.
    pub name: &'static str,
    /// What its arguments must be.
    pub(super) rule: Rule,
}

impl Call {
    /// Whether it may have any arguments.
    pub fn is_free(&self) -> bool {
        self.rule == Rule::Any
    }
}

/// What the arguments of a call must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Anything.
    Any,
    /// This argument is one of these numbers.
    OneOf(u8, &'static [u64]),
    /// These bits of this argument are this.
    Bits { argument: u8, mask: u64, value: u64 },
    /// The socket is a stream of one of these families, of the protocol that the family has by
    /// itself: landlock sees no datagrams, and no other protocol of streams.
    Stream(&'static [u64]),
}

/// A group of system calls that some way to wait, or some process, needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// What every process needs: memory, time, signals, its own descriptors.
    Common,
    /// Connections that are there: accept, receive, send, close.
    Connections,
    /// Files beneath directories that are open.
    Files,
    /// select(2), poll(2) and epoll(7).
    Readiness,
    /// Threads that are started while the server runs, and their waiting for each other.
    Threads,
    /// Processes that are forked while the server runs: helpers of `amped`, the members of a group.
    Processes,
    /// A completion ring.
    Ring,
    /// Descriptors that come from another process, or go to one.
    Handover,
    /// Locks of files: around accept, and of logs that are put aside.
    Locks,
    /// Files that are appended to, renamed and removed.
    Append,
    /// The length of the accept queue of a socket that is there.
    Listen,
    /// New connections to servers that answer.
    Connect,
    /// The same, if all of these are at Unix-domain sockets.
    ConnectUnix,
    /// Descriptors that tell the time, for modules that wait.
    Timers,
    /// What the agent that gets certificates does beside: connections outwards, looking up names,
    /// directories of its own.
    Agent,
}

impl Calls {
    /// Every group.
    pub const ALL: [Calls; 15] = [
        Calls::Common,
        Calls::Connections,
        Calls::Files,
        Calls::Readiness,
        Calls::Threads,
        Calls::Processes,
        Calls::Ring,
        Calls::Handover,
        Calls::Locks,
        Calls::Append,
        Calls::Listen,
        Calls::Connect,
        Calls::ConnectUnix,
        Calls::Timers,
        Calls::Agent,
    ];

    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Calls::Common => "common",
            Calls::Connections => "connections",
            Calls::Files => "files",
            Calls::Readiness => "readiness",
            Calls::Threads => "threads",
            Calls::Processes => "processes",
            Calls::Ring => "ring",
            Calls::Handover => "handover",
            Calls::Locks => "locks",
            Calls::Append => "append",
            Calls::Listen => "listen",
            Calls::Connect => "connect",
            Calls::ConnectUnix => "connect-unix",
            Calls::Timers => "timers",
            Calls::Agent => "agent",
        }
    }

    /// The calls of the group.
    pub fn calls(self) -> &'static [Call] {
        match self {
            Calls::Common => COMMON,
            Calls::Connections => CONNECTIONS,
            Calls::Files => FILES,
            Calls::Readiness => READINESS,
            Calls::Threads => THREADS,
            Calls::Processes => PROCESSES,
            Calls::Ring => RING,
            Calls::Handover => HANDOVER,
            Calls::Locks => LOCKS,
            Calls::Append => APPEND,
            Calls::Listen => LISTEN,
            Calls::Connect => CONNECT,
            Calls::ConnectUnix => CONNECT_UNIX,
            Calls::Timers => TIMERS,
            Calls::Agent => AGENT,
        }
    }
}

/// Calls by their names; what follows `=>` is the rule of those that have one. Names after `old`
/// are of machines that have had Linux for long; others never had them.
macro_rules! calls {
    ($($name:ident $(=> $rule:expr)?),* $(,)? $(; old $($old:ident $(=> $old_rule:expr)?),*)?) => {
        &[
            $(calls!(@one $name $($rule)?),)*
            $($(#[cfg(target_arch = "x86_64")] calls!(@one $old $($old_rule)?),)*)?
        ]
    };
    (@one $name:ident) => { calls!(@one $name Rule::Any) };
    (@one $name:ident $rule:expr) => {
        Call {
            number: numbers::$name,
            name: stringify!($name),
            rule: $rule,
        }
    };
}

/// Numbers by the names of the manual pages.
mod numbers {
    macro_rules! numbers {
        ($($name:ident = $number:ident),* $(,)?) => {
            $(#[allow(non_upper_case_globals)] pub(super) const $name: i64 = libc::$number;)*
        };
    }
    numbers! {
        accept4 = SYS_accept4, bind = SYS_bind, brk = SYS_brk, clock_getres = SYS_clock_getres,
        clock_gettime = SYS_clock_gettime, clock_nanosleep = SYS_clock_nanosleep,
        clone = SYS_clone, clone3 = SYS_clone3, close = SYS_close, close_range = SYS_close_range,
        connect = SYS_connect, dup = SYS_dup, dup3 = SYS_dup3, epoll_create1 = SYS_epoll_create1,
        epoll_ctl = SYS_epoll_ctl, epoll_pwait = SYS_epoll_pwait, epoll_pwait2 = SYS_epoll_pwait2,
        eventfd2 = SYS_eventfd2, exit = SYS_exit, exit_group = SYS_exit_group,
        faccessat = SYS_faccessat, faccessat2 = SYS_faccessat2,
        fadvise64 = SYS_fadvise64, fallocate = SYS_fallocate, fchmodat = SYS_fchmodat,
        fcntl = SYS_fcntl,
        fdatasync = SYS_fdatasync, flock = SYS_flock, fstat = SYS_fstat, fstatfs = SYS_fstatfs,
        fsync = SYS_fsync, ftruncate = SYS_ftruncate, futex = SYS_futex,
        getdents64 = SYS_getdents64, getegid = SYS_getegid, geteuid = SYS_geteuid,
        getgid = SYS_getgid, getpeername = SYS_getpeername, getpid = SYS_getpid,
        getppid = SYS_getppid, getrandom = SYS_getrandom, getsockname = SYS_getsockname,
        getsockopt = SYS_getsockopt, gettid = SYS_gettid, gettimeofday = SYS_gettimeofday,
        getuid = SYS_getuid, io_uring_enter = SYS_io_uring_enter,
        io_uring_register = SYS_io_uring_register, io_uring_setup = SYS_io_uring_setup,
        ioctl = SYS_ioctl, kill = SYS_kill, listen = SYS_listen, lseek = SYS_lseek,
        madvise = SYS_madvise,
        membarrier = SYS_membarrier, memfd_create = SYS_memfd_create, mincore = SYS_mincore,
        mkdirat = SYS_mkdirat,
        mlock = SYS_mlock, mmap = SYS_mmap, mprotect = SYS_mprotect, mremap = SYS_mremap,
        munlock = SYS_munlock, munmap = SYS_munmap, nanosleep = SYS_nanosleep,
        newfstatat = SYS_newfstatat, openat = SYS_openat, openat2 = SYS_openat2,
        pipe2 = SYS_pipe2, ppoll = SYS_ppoll, prctl = SYS_prctl, pread64 = SYS_pread64,
        preadv2 = SYS_preadv2, prlimit64 = SYS_prlimit64, pselect6 = SYS_pselect6,
        pwrite64 = SYS_pwrite64, read = SYS_read, readlinkat = SYS_readlinkat, readv = SYS_readv,
        recvfrom = SYS_recvfrom, recvmmsg = SYS_recvmmsg, recvmsg = SYS_recvmsg,
        renameat = SYS_renameat,
        renameat2 = SYS_renameat2, restart_syscall = SYS_restart_syscall, rseq = SYS_rseq,
        rt_sigaction = SYS_rt_sigaction, rt_sigprocmask = SYS_rt_sigprocmask,
        rt_sigreturn = SYS_rt_sigreturn, sched_getaffinity = SYS_sched_getaffinity,
        sched_setaffinity = SYS_sched_setaffinity, sched_yield = SYS_sched_yield,
        seccomp = SYS_seccomp, sendfile = SYS_sendfile, sendmmsg = SYS_sendmmsg,
        sendmsg = SYS_sendmsg, sendto = SYS_sendto,
        set_robust_list = SYS_set_robust_list, setsockopt = SYS_setsockopt,
        shutdown = SYS_shutdown, sigaltstack = SYS_sigaltstack, signalfd4 = SYS_signalfd4,
        socket = SYS_socket, socketpair = SYS_socketpair, statx = SYS_statx, tgkill = SYS_tgkill,
        timerfd_create = SYS_timerfd_create, timerfd_settime = SYS_timerfd_settime,
        uname = SYS_uname, unlinkat = SYS_unlinkat, utimensat = SYS_utimensat, wait4 = SYS_wait4,
        waitid = SYS_waitid,
        write = SYS_write, writev = SYS_writev,
    }
    /// Not in the library yet; the same on every machine.
    #[allow(non_upper_case_globals)]
    pub(super) const cachestat: i64 = 451;

    #[cfg(target_arch = "x86_64")]
    numbers! {
        access = SYS_access, chmod = SYS_chmod, epoll_wait = SYS_epoll_wait,
        getdents = SYS_getdents, getrlimit = SYS_getrlimit,
        open = SYS_open, poll = SYS_poll, readlink = SYS_readlink, rename = SYS_rename,
        select = SYS_select, stat = SYS_stat, lstat = SYS_lstat, mkdir = SYS_mkdir,
        unlink = SYS_unlink,
    }
}

/// No mapping is ever made executable: what is written into memory is never run.
const NO_EXECUTION: Rule = Rule::Bits { argument: 2, mask: libc::PROT_EXEC as u64, value: 0 };

/// The bits of clone(2) that say what is made: the signal of its end aside, nothing but these may
/// be set as the rules say. Namespaces are among them.
const CLONE_KINDS: u64 = (libc::CLONE_VM
    | libc::CLONE_THREAD
    | libc::CLONE_VFORK
    | libc::CLONE_PARENT
    | libc::CLONE_PTRACE
    | libc::CLONE_UNTRACED
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS) as u64;

const A_THREAD: Rule = Rule::Bits {
    argument: 0,
    mask: CLONE_KINDS,
    value: (libc::CLONE_VM | libc::CLONE_THREAD) as u64,
};

const A_PROCESS: Rule = Rule::Bits { argument: 0, mask: CLONE_KINDS, value: 0 };

/// Naming a thread or a mapping, and the signal of a dying parent.
const PRCTL: Rule = Rule::OneOf(
    0,
    &[libc::PR_SET_NAME as u64, libc::PR_SET_PDEATHSIG as u64, libc::PR_SET_VMA as u64],
);

/// How much a socket holds, and whether a descriptor blocks.
#[allow(clippy::unnecessary_cast, reason = "musl has these numbers as int")]
const IOCTL: Rule = Rule::OneOf(
    1,
    &[libc::FIONREAD as u64, libc::TIOCOUTQ as u64, libc::FIONBIO as u64, libc::FIOCLEX as u64],
);

const OF_ITSELF: Rule = Rule::OneOf(0, &[0]);
const UNIX_ONLY: Rule = Rule::OneOf(0, &[libc::AF_UNIX as u64]);
const STREAMS: Rule =
    Rule::Stream(&[libc::AF_UNIX as u64, libc::AF_INET as u64, libc::AF_INET6 as u64]);
const UNIX_STREAMS: Rule = Rule::Stream(&[libc::AF_UNIX as u64]);

/// clone3(2) stands here although nobody may make it: another filter says that there is none.
const COMMON: &[Call] = calls![
    brk, clock_getres, clock_gettime, clock_nanosleep, clone3, close, dup, eventfd2, exit,
    exit_group, fcntl, fstat, futex, getegid, geteuid, getgid, getpid, getppid, getrandom,
    gettid, gettimeofday, getuid, ioctl => IOCTL, lseek, madvise, membarrier, mmap =>
    NO_EXECUTION, mprotect => NO_EXECUTION, mremap, munmap, nanosleep, newfstatat, openat,
    ppoll, prctl => PRCTL, prlimit64 => OF_ITSELF, read, readv, restart_syscall, rseq,
    rt_sigaction, rt_sigprocmask, rt_sigreturn, sched_getaffinity, sched_setaffinity,
    sched_yield, set_robust_list, sigaltstack, signalfd4, statx, tgkill, uname, write, writev;
    old open, poll, stat, lstat, getrlimit => Rule::Any
];

const CONNECTIONS: &[Call] = calls![
    accept4,
    getpeername,
    getsockname,
    getsockopt,
    recvfrom,
    recvmsg,
    sendmsg,
    sendto,
    setsockopt,
    shutdown
];

const FILES: &[Call] = calls![
    cachestat, fadvise64, fallocate, fstatfs, ftruncate, getdents64, memfd_create, mincore,
    mlock, munlock, openat2, pipe2, pread64, preadv2, pwrite64, readlinkat, sendfile;
    old getdents, readlink
];

const READINESS: &[Call] = calls![
    epoll_create1, epoll_ctl, epoll_pwait, epoll_pwait2, pselect6;
    old epoll_wait, select
];

const THREADS: &[Call] = calls![clone => A_THREAD];

const PROCESSES: &[Call] = calls![
    clone => A_PROCESS, close_range, kill, socketpair => UNIX_ONLY, wait4, waitid
];

/// With a pair of sockets it is found out whether a ring receives again and again.
const RING: &[Call] = calls![
    io_uring_enter, io_uring_register, io_uring_setup, seccomp, socketpair => UNIX_ONLY
];

const HANDOVER: &[Call] = calls![dup3, socketpair => UNIX_ONLY];

const LOCKS: &[Call] = calls![flock];

const APPEND: &[Call] = calls![
    fdatasync, fsync, ftruncate, renameat, renameat2, unlinkat;
    old rename, unlink
];

/// It makes no socket. One that has no name yet, as `CONNECT` makes them, gets a free port of each
/// address by it, which landlock does not see.
const LISTEN: &[Call] = calls![listen];

const CONNECT: &[Call] = calls![connect, socket => STREAMS];

const CONNECT_UNIX: &[Call] = calls![connect, socket => UNIX_STREAMS];

const TIMERS: &[Call] = calls![timerfd_create, timerfd_settime];

/// The library that looks up names asks by datagrams, and the kernel which addresses there are.
const LOOKUPS: Rule = Rule::OneOf(
    0,
    &[libc::AF_UNIX as u64, libc::AF_INET as u64, libc::AF_INET6 as u64, libc::AF_NETLINK as u64],
);

const AGENT: &[Call] = calls![
    bind, connect, faccessat, faccessat2, fchmodat, mkdirat, recvmmsg, sendmmsg,
    socket => LOOKUPS, utimensat;
    old access, chmod, mkdir
];
