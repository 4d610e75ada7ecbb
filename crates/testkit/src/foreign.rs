//! A foreign hand in a process: makes it perform system calls that its program never would, by
//! ptrace(2). What the kernel then refuses is refused to an attacker in the process.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

pub use nix::libc;
use nix::libc::user_regs_struct as Registers;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// Bytes below the stack pointer that the program may use without saying so (System V ABI).
const RED_ZONE: u64 = 128;

/// Room for what calls lead to, below that.
const ROOM: u64 = 4096;

/// The instruction `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// A process, or one thread of it, that stands still until the value is dropped.
pub struct Seized {
    thread: Pid,
    memory: File,
    registers: Registers,
    /// Where a `syscall` stands in its memory.
    instruction: u64,
    /// Bytes of the room that are used.
    used: u64,
    /// It has been ended by a signal.
    ended: Option<i32>,
}

impl fmt::Debug for Seized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seized({})", self.thread)
    }
}

impl Seized {
    /// Stops a thread by its number; that of the process is its first thread. Blocks until it
    /// stands.
    ///
    /// # Panics
    /// When it cannot be traced: only the superuser may trace everybody.
    pub fn attach(thread: u32) -> Seized {
        let pid = Pid::from_raw(thread as i32);
        ptrace::seize(pid, Options::empty()).expect("the process can be traced");
        ptrace::interrupt(pid).expect("it is traced");
        let stopped = waitpid(pid, None).expect("it stops");
        assert!(matches!(stopped, WaitStatus::PtraceEvent(..)), "{stopped:?}");
        let registers = ptrace::getregs(pid).expect("it stands");
        let memory = File::options().read(true).write(true).open(format!("/proc/{thread}/mem"));
        let memory = memory.expect("its memory can be opened");
        let instruction = find_syscall(thread, &memory);
        Seized { thread: pid, memory, registers, instruction, used: 0, ended: None }
    }

    /// Puts bytes into its memory: their address there.
    ///
    /// # Panics
    /// When there is no room any more.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        self.used += (bytes.len() as u64).next_multiple_of(16);
        assert!(self.used <= ROOM, "there is no room for so many bytes");
        let address = (self.registers.rsp - RED_ZONE - self.used) & !15;
        self.memory.write_all_at(bytes, address).expect("its stack can be written");
        address
    }

    /// Writes bytes to its memory.
    ///
    /// # Panics
    /// When there is nothing at the address.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, address).expect("its memory can be written");
    }

    /// Reads bytes of its memory.
    ///
    /// # Panics
    /// When there is nothing at the address.
    pub fn get(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_exact_at(&mut bytes, address).expect("its memory can be read");
        bytes
    }

    /// Puts a string into its memory: the address there.
    pub fn text(&mut self, text: &str) -> u64 {
        self.put(&[text.as_bytes(), b"\0"].concat())
    }

    /// Makes it perform a system call: what the kernel answered, a negative error among it, or the
    /// number of the signal that ended it.
    ///
    /// # Panics
    /// When it does anything else.
    pub fn call(&mut self, number: i64, arguments: &[u64]) -> Result<i64, i32> {
        if let Some(signal) = self.ended {
            return Err(signal);
        }
        let argument = |at: usize| arguments.get(at).copied().unwrap_or(0);
        let mut registers = self.registers;
        registers.rip = self.instruction;
        registers.rsp = self.registers.rsp - RED_ZONE - ROOM - 256;
        registers.rax = number as u64;
        // It stands in a call, which is not to be begun again before this one.
        registers.orig_rax = u64::MAX;
        (registers.rdi, registers.rsi, registers.rdx) = (argument(0), argument(1), argument(2));
        (registers.r10, registers.r8, registers.r9) = (argument(3), argument(4), argument(5));
        ptrace::setregs(self.thread, registers).expect("it stands");
        ptrace::step(self.thread, None).expect("it stands");
        match waitpid(self.thread, None).expect("it stops again") {
            WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..) => {
                let after = ptrace::getregs(self.thread).expect("it stands");
                Ok(after.rax as i64)
            }
            WaitStatus::Signaled(_, signal, _) => {
                self.ended = Some(signal as i32);
                Err(signal as i32)
            }
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Seized {
    /// It goes on as if nothing had been.
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = ptrace::setregs(self.thread, self.registers);
            let _ = ptrace::detach(self.thread, None);
        }
    }
}

/// Looks for the instruction in what the process may execute.
fn find_syscall(thread: u32, memory: &File) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{thread}/maps")).expect("its maps can be read");
    for line in maps.lines().filter(|line| line.contains("r-xp") && !line.contains("[v")) {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let Some((start, end)) = range.and_then(|(a, b)| Some((number(a)?, number(b)?))) else {
            continue;
        };
        let mut bytes = vec![0; (end - start) as usize];
        if memory.read_exact_at(&mut bytes, start).is_err() {
            continue;
        }
        if let Some(at) = bytes.windows(2).position(|pair| pair == SYSCALL) {
            return start + at as u64;
        }
    }
    panic!("there is no syscall in what {thread} executes");
}
