//! Descriptors that cross an exec: given to a new program, and taken by it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use rustix::io::FdFlags;

/// The numbers that were taken: each belongs to one owner.
static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// The numbers that were open when this process began, beside the standard three.
static BEFORE: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// Numbers that are looked at one by one where there is no list of those that are open.
const NUMBERS_TRIED: RawFd = 1024;

/// Notes which descriptors this process was started with: to be called before it opens any.
pub fn note() {
    let listed = std::fs::read_dir("/proc/self/fd").map(|entries| {
        let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        entries.flatten().filter_map(number).collect::<Vec<RawFd>>()
    });
    let numbers = listed.unwrap_or_else(|_| (3..NUMBERS_TRIED).collect());
    // That of the list itself is closed by now.
    let open = numbers.into_iter().filter(|number| *number > 2 && is_open(*number));
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner).extend(open);
}

/// Closes every descriptor that was noted and has not been taken. No process that is forked from
/// now on has it.
pub fn close_rest() {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::take(&mut *BEFORE.lock().unwrap_or_else(PoisonError::into_inner));
    for number in before.difference(&taken) {
        // SAFETY: it was open before this process opened anything, and no code in it has taken it:
        // no owner is left with a number that stands for nothing.
        unsafe { libc::close(*number) };
    }
}

/// Whether the number stands for something.
fn is_open(number: RawFd) -> bool {
    // SAFETY: a flag of a number is asked for, which is no use of what it stands for; -1 says that
    // it stands for nothing.
    unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
}

/// Takes a descriptor that this process was started with, by its number; it is closed at the next
/// exec. To be called before this process opens anything that could get the number.
///
/// # Errors
/// When it is not open, is one of the standard three, or was taken before.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    if number < 3 || !TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(number) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if !is_open(number) {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and nobody in this process owns it: it was inherited, and each number is
    // taken once.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// Runs another program in this process, which gets these descriptors beside the standard three,
/// under their numbers. Returns only when that fails. To be called in a process that was forked for
/// it.
pub fn run_program(
    program: &Path,
    arguments: &[OsString],
    keep: &[BorrowedFd<'_>],
    set: &[(&str, String)],
    unset: &[&str],
) -> io::Error {
    for fd in keep {
        if let Err(error) = rustix::io::fcntl_setfd(fd.as_fd(), FdFlags::empty()) {
            return error.into();
        }
    }
    let mut command = Command::new(program);
    if let Some((name, rest)) = arguments.split_first() {
        command.arg0(name).args(rest);
    }
    unset.iter().for_each(|name| {
        command.env_remove(name);
    });
    command.envs(set.iter().map(|(name, value)| (OsStr::new(*name), value)));
    command.exec()
}

/// Runs another program in this process, whose standard input and output are both this socket, in
/// the same environment but for the variables of `unset`. Returns only when that fails. To be
/// called in a process that was forked for it.
pub fn become_program(
    program: &Path,
    arguments: &[&str],
    socket: impl AsFd,
    unset: &[&str],
) -> io::Error {
    let (input, output) =
        match (socket.as_fd().try_clone_to_owned(), socket.as_fd().try_clone_to_owned()) {
            (Ok(input), Ok(output)) => (input, output),
            (Err(error), _) | (_, Err(error)) => return error,
        };
    let mut command = Command::new(program);
    if let Some((name, rest)) = arguments.split_first() {
        command.arg0(name).args(rest);
    }
    unset.iter().for_each(|name| {
        command.env_remove(name);
    });
    command.stdin(input).stdout(output);
    crate::signal::forget_all();
    command.exec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Forked, exit_now, fork, wait_for};
    use std::os::fd::{AsRawFd, IntoRawFd};

    #[test]
    fn an_inherited_descriptor_is_taken_once() {
        let (read, _write) = rustix::pipe::pipe().unwrap();
        let number = read.into_raw_fd();
        let taken = take(number).unwrap();
        assert_eq!(taken.as_raw_fd(), number);
        assert!(rustix::io::fcntl_getfd(&taken).unwrap().contains(FdFlags::CLOEXEC));
        assert!(take(number).is_err());
        for number in [-1, 0, 2, 1 << 30] {
            assert!(take(number).is_err(), "{number}");
        }
    }

    /// What a program says that is told `told` over its socket.
    fn said(program: &str, arguments: &[&str], told: &[u8]) -> String {
        use std::io::{Read, Write};
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        match fork().unwrap() {
            Forked::Child => {
                let _signals = crate::signal::Signals::block();
                become_program(Path::new(program), arguments, &theirs, &["HOME"]);
                exit_now(9);
            }
            Forked::Parent(child) => {
                drop(theirs);
                ours.write_all(told).unwrap();
                let mut said = String::new();
                ours.read_to_string(&mut said).unwrap();
                assert_eq!(wait_for(child).unwrap(), 0);
                said
            }
        }
    }

    #[test]
    fn a_program_talks_over_one_socket_and_is_deaf_to_no_signal() {
        let script = "read word; echo \"$word, $0, $HOME\"";
        let arguments = ["sh", "-c", script, "called"];
        assert_eq!(said("/bin/sh", &arguments, b"told\n"), "told, called, \n");
        let arguments = ["grep", "SigBlk", "/proc/self/status"];
        assert_eq!(said("/bin/grep", &arguments, b""), "SigBlk:\t0000000000000000\n");
    }

    #[test]
    fn a_program_gets_what_it_shall_keep_and_its_environment() {
        let (kept, lost) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let (kept_fd, lost_fd) = (kept.1.as_raw_fd(), lost.1.as_raw_fd());
        let check = format!(
            "test \"$GIVEN\" = yes && test -z \"$HOME\" && test -e /proc/self/fd/{kept_fd} && \
             ! test -e /proc/self/fd/{lost_fd}"
        );
        match fork().unwrap() {
            Forked::Child => {
                let arguments = ["sh".into(), "-c".into(), check.into()];
                let (keep, set) = ([kept.1.as_fd()], [("GIVEN", "yes".to_string())]);
                run_program(Path::new("/bin/sh"), &arguments, &keep, &set, &["HOME"]);
                exit_now(9);
            }
            Forked::Parent(child) => assert_eq!(wait_for(child).unwrap(), 0),
        }
    }
}
