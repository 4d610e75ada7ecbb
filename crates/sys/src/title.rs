//! What `ps` shows of a process: a title in the place of the words that the program was started
//! with, and one name, whatever the path that it was executed by.
//!
//! The kernel shows the memory into which it put the arguments (proc_pid_cmdline(5)). A title is
//! written over them, as setproctitle(3) does it elsewhere, and over as much of the environment
//! behind them as a title may need: its variables there are copied first. Where the place of the
//! arguments cannot be told, processes keep the words that they had.

use std::ffi::{CStr, c_char};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::ptr::with_exposed_provenance_mut;
use std::sync::OnceLock;

/// The name of every process, which `ps -C` and `pgrep` look for: one that is executed by
/// `/proc/self/exe` is called `exe` otherwise.
const NAME: &CStr = c"flyball";

/// Bytes of the arguments and the environment that a title may take, if the arguments alone are
/// shorter: more than the longest has.
const TITLE_BYTES_MAX: usize = 64;

/// Where `arg_start` stands in `/proc/self/stat` behind the name, which is the second field; the
/// ends of the arguments and of the environment follow (proc_pid_stat(5), fields 48 to 51).
const ARG_START_AT: usize = 48 - 3;

unsafe extern "C" {
    /// The variables of this process (environ(7)).
    static mut environ: *mut *mut c_char;
}

/// Memory for a title.
#[derive(Clone, Copy, Debug)]
struct Room {
    start: usize,
    /// Bytes of the arguments.
    arguments: usize,
    /// Bytes that a title may take, its NUL included: at least as many.
    len: usize,
}

static ROOM: OnceLock<Room> = OnceLock::new();

/// Gives the process its name, and makes room for its title and those of processes that it forks.
/// To be called once, by a process of one thread that has taken its arguments and will not ask for
/// them again.
pub fn prepare() {
    let _ = rustix::thread::set_name(NAME);
    make_room(TITLE_BYTES_MAX);
}

/// Makes room for titles of so many bytes, if there is as much.
fn make_room(bytes: usize) {
    if let Some((room, moved)) = find(bytes) {
        // SAFETY: there is one thread, so that no other reads the variables meanwhile. `environ` is
        // the list of the C library, which ends with a null pointer; each of its entries is a text
        // that ends with a NUL, and so is the copy that takes its place, which is never freed.
        unsafe {
            let mut at = environ;
            while !at.is_null() && !(*at).is_null() {
                if moved.contains(&(*at).addr()) {
                    *at = CStr::from_ptr(*at).to_owned().into_raw();
                }
                at = at.add(1);
            }
        }
        let _ = ROOM.set(room);
    }
}

/// Gives this process, which may have been forked since [`prepare`], its title. Nothing happens
/// where there was no room for any.
pub fn set(title: &str) {
    let Some(room) = ROOM.get() else { return };
    let title = &title.as_bytes()[..title.len().min(room.len - 1)];
    let start = with_exposed_provenance_mut::<u8>(room.start);
    // SAFETY: `room` is memory into which the kernel put the arguments, which are on the stack and
    // so writable for as long as the process lives, and variables that have been copied. Nothing in
    // the process refers to it any more: the standard library copies arguments when it is asked for
    // them, and that is over, as `prepare` demands.
    unsafe {
        start.write_bytes(0, room.len);
        start.copy_from_nonoverlapping(title.as_ptr(), title.len());
        if title.len() + 1 < room.arguments {
            // By a last byte that is no NUL the kernel knows that this is a title, and shows none
            // of what is behind its end.
            start.add(room.arguments - 1).write(b' ');
        }
    }
}

/// The room for titles of so many bytes, and where variables begin that are in it.
fn find(bytes: usize) -> Option<(Room, std::ops::Range<usize>)> {
    let stat = std::fs::read("/proc/self/stat").ok()?;
    // The name, in brackets, may hold anything.
    let behind = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let fields = std::str::from_utf8(&stat[behind..]).ok()?.split_ascii_whitespace();
    let bounds: Vec<usize> =
        fields.skip(ARG_START_AT).take(4).map_while(|field| field.parse().ok()).collect();
    let [start, end, env_start, env_end] = bounds[..] else { return None };
    let arguments = end.checked_sub(start)?;
    // What runs this program, as valgrind does, may have put its arguments elsewhere.
    let mut there = vec![0; arguments];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut there, start as u64).ok()?;
    let mut known = Vec::new();
    for word in std::env::args_os() {
        known.extend_from_slice(word.as_bytes());
        known.push(0);
    }
    if known.is_empty() || known != there {
        return None;
    }
    let behind = if env_start == end { env_end.saturating_sub(end) } else { 0 };
    let len = arguments.max(bytes.min(arguments + behind));
    Some((Room { start, arguments, len }, end..start + len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apart::apart;

    /// What is shown of this process.
    fn shown() -> Vec<u8> {
        std::fs::read("/proc/self/cmdline").unwrap()
    }

    #[test]
    fn a_title_takes_the_place_of_the_arguments_and_no_variable_is_lost() {
        apart(|| {
            let variables: Vec<_> = std::env::vars_os().collect();
            let arguments = shown().len();
            make_room(arguments + 200);
            let room = ROOM.get().unwrap();
            assert!(room.arguments == arguments && room.len > arguments + 100, "{room:?}");
            // One that is shorter than the arguments, as long, and longer.
            let lengths = [3, arguments - 2, arguments - 1, arguments, arguments + 100, 1];
            for len in lengths {
                set(&"t".repeat(len));
                assert_eq!(shown(), ["t".repeat(len).as_bytes(), b"\0"].concat());
                assert!(std::env::vars_os().eq(variables.iter().cloned()), "{len}");
            }
            // It is cut where the room ends.
            set(&"t".repeat(2 * room.len));
            assert_eq!(shown(), ["t".repeat(room.len - 1).as_bytes(), b"\0"].concat());
        });
    }

    #[test]
    fn without_room_the_arguments_stay() {
        apart(|| {
            let before = shown();
            set("flyball: master");
            assert_eq!(shown(), before);
        });
    }
}
