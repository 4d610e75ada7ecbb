//! Signals as readable events.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::owned::{Opening, Owned};

/// The signals that a server acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: drain and stop.
    Stop,
    /// The first real-time signal but one, from the master to a worker: leave the listening sockets
    /// to another generation, finish what is open, and stop. No program sends it by accident.
    Retire,
    /// The real-time signal behind that, from the master to the process that starts programs: what
    /// it has made names for shall have them again.
    TakeNames,
    /// SIGUSR1: open the logs anew.
    Reopen,
    /// SIGHUP: load the configuration again.
    Reload,
    /// SIGUSR2: let another program take over.
    Upgrade,
    /// SIGCHLD: a child ended.
    Child,
    /// Any other of the blocked set.
    Other(i32),
}

/// The number of [`Signal::Retire`].
pub(crate) fn retire() -> i32 {
    libc::SIGRTMIN() + 1
}

/// The number of [`Signal::TakeNames`].
pub(crate) fn take_names() -> i32 {
    libc::SIGRTMIN() + 2
}

/// The signals of [`Signal`] that have fixed numbers.
const ALL: [i32; 6] =
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGCHLD];

/// Signals that mean nothing to a server, since the call that they come of fails as well: writing
/// to a pipe without a reader, and beyond the longest file (`RLIMIT_FSIZE`).
const IGNORED: [i32; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// Lets all signals through again, each with its default action: for a new process that is about
/// to execute another program.
pub(crate) fn forget_all() {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set before it is read; the old mask is not asked for; a
    // default action runs no code of this program.
    unsafe {
        for signal in
            IGNORED.into_iter().chain([libc::SIGCHLD, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP])
        {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// A descriptor that is readable while one of the blocked signals is pending.
#[derive(Debug)]
pub struct Signals(Owned);

impl Signals {
    /// Blocks SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD and those of the master for this
    /// thread and those that it starts from now on, and turns them into reads. Also ignores
    /// SIGPIPE and SIGXFSZ.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn block() -> io::Result<Signals> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set before the other calls read it; the set outlives
        // them; the old mask is not asked for; a new descriptor is owned by nobody else.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in ALL.into_iter().chain([retire(), take_names()]) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            for signal in IGNORED {
                libc::signal(signal, libc::SIG_IGN);
            }
            let opening = Opening::begin();
            let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals(opening.own(OwnedFd::from_raw_fd(fd))))
        }
    }

    /// The next pending signal; `None` when there is none. Never blocks.
    pub fn next(&self) -> Option<Signal> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the kernel writes at most `size` bytes into `info`, which is that large.
        let read = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if read != size as isize {
            return None;
        }
        // SAFETY: the struct is plain integers; it was zeroed and then filled by the kernel.
        let number = unsafe { info.assume_init() }.ssi_signo as i32;
        Some(match number {
            libc::SIGTERM | libc::SIGINT => Signal::Stop,
            number if number == retire() => Signal::Retire,
            number if number == take_names() => Signal::TakeNames,
            libc::SIGUSR1 => Signal::Reopen,
            libc::SIGHUP => Signal::Reload,
            libc::SIGUSR2 => Signal::Upgrade,
            libc::SIGCHLD => Signal::Child,
            other => Signal::Other(other),
        })
    }
}

/// Keeps the signals that would end this process, and that shall mean something to it later, until
/// [`Signals::block`] makes them readable: SIGHUP, SIGUSR1 and SIGUSR2. To be called before a
/// program of one thread does anything else.
pub fn hold() {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set before the other calls read it; the set outlives
    // them; the old mask is not asked for.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// All signals masked for this thread, until it is dropped: two system calls (M125).
pub struct Masked(libc::sigset_t);

impl Masked {
    /// Masks them.
    pub fn all() -> Masked {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigfillset initialises the set before it is read, and pthread_sigmask writes the
        // old mask, which it always does for a valid way to mask; both outlive the calls.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            Masked(before.assume_init())
        }
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        // SAFETY: this is the mask that `all` was given; the old one is not asked for.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("SigBlk:")).unwrap();
        u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
    }

    #[test]
    fn signals_are_masked_for_as_long_as_it_is_asked_for() {
        let before = blocked();
        let masked = Masked::all();
        assert_ne!(blocked() & 1 << (libc::SIGTERM - 1), 0);
        assert!(blocked().count_ones() > 50);
        drop(masked);
        assert_eq!(blocked(), before);
    }

    #[test]
    fn a_write_that_no_reader_or_no_room_is_for_is_an_error_and_no_signal() {
        use crate::process::{Forked, exit_now, fork, wait_for};
        use rustix::process::{Resource, Rlimit, setrlimit};
        let file = tempfile::tempfile().unwrap();
        match fork().unwrap() {
            Forked::Child => {
                let most = Rlimit { current: Some(1), maximum: Some(1) };
                let is_told = Signals::block().is_ok()
                    && setrlimit(Resource::Fsize, most).is_ok()
                    && rustix::io::write(&file, b"xy") == Ok(1)
                    && rustix::io::write(&file, b"y") == Err(rustix::io::Errno::FBIG);
                forget_all();
                exit_now(if is_told { 3 } else { 4 });
            }
            Forked::Parent(child) => assert_eq!(wait_for(child).unwrap(), 3),
        }
    }

    #[test]
    fn a_signal_that_comes_early_is_kept_until_it_can_be_read() {
        use crate::process::{Forked, exit_now, fork, own_id, wait_for};
        match fork().unwrap() {
            Forked::Child => {
                hold();
                // SAFETY: kill takes two numbers.
                unsafe { libc::kill(own_id(), libc::SIGUSR1) };
                let kept = Signals::block().is_ok_and(|signals| {
                    signals.next() == Some(Signal::Reopen) && signals.next().is_none()
                });
                exit_now(if kept { 3 } else { 4 });
            }
            Forked::Parent(child) => assert_eq!(wait_for(child).unwrap(), 3),
        }
    }
}
