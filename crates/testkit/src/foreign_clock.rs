//! The clock of the day in a process, moved by a foreign hand while it runs. All other clocks stay.
//!
//! Programs read clocks in the kernel's own library (vdso(7)), before which no preloaded one
//! stands. Its `clock_gettime` is therefore replaced in the memory of the process, and what that
//! forks later has it too.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// `clock_gettime(rdi, rsi)` by a system call, and seconds added for two clocks:
/// CLOCK_REALTIME and CLOCK_REALTIME_COARSE.
const BEFORE_SECONDS: [u8; 18] = [
    0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
    0x0f, 0x05, // syscall
    0x85, 0xff, // test edi, edi
    0x74, 0x05, // je, over the next two
    0x83, 0xff, 0x05, // cmp edi, 5
    0x75, 0x0d, // jne, to the end
    0x48, 0xb9, // mov rcx, the seconds, which follow
];
const AFTER_SECONDS: [u8; 4] = [
    0x48, 0x01, 0x0e, // add [rsi], rcx
    0xc3, // ret
];

/// Lets a process, all of whose threads stand still, believe that it is so many seconds later than
/// it is, or earlier.
///
/// # Panics
/// When its memory cannot be written: who may not trace it may not do this either.
pub fn set_ahead(process: u32, seconds: i64) {
    let memory = File::options().read(true).write(true).open(format!("/proc/{process}/mem"));
    let memory = memory.expect("its memory can be opened");
    let (start, library) = vdso(process, &memory);
    let code = [&BEFORE_SECONDS[..], &seconds.to_le_bytes(), &AFTER_SECONDS].concat();
    let (at, len) = function(&library, b"__vdso_clock_gettime").expect("a known layout");
    assert!(code.len() <= len, "it has {len} bytes");
    memory.write_all_at(&code, start + at as u64).expect("its library can be written");
}

/// Where the library is, and its bytes.
fn vdso(process: u32, memory: &File) -> (u64, Vec<u8>) {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).expect("its maps can be read");
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).expect("it has one");
    let (start, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("two");
    let number = |text| u64::from_str_radix(text, 16).expect("a number");
    let (start, end) = (number(start), number(end));
    let mut bytes = vec![0; (end - start) as usize];
    memory.read_exact_at(&mut bytes, start).expect("it can be read");
    (start, bytes)
}

/// Where a function is in a library (elf(5), 64 bits), and its length.
fn function(library: &[u8], name: &[u8]) -> Option<(usize, usize)> {
    const DYNAMIC_SYMBOLS: usize = 11;
    let number = |at: usize, len: usize| {
        let bytes = library.get(at..at + len)?;
        Some(bytes.iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte)))
    };
    let (table, size, count) = (number(0x28, 8)?, number(0x3a, 2)?, number(0x3c, 2)?);
    let section = |index: usize| table + index * size;
    let is_symbols = |index: &usize| number(section(*index) + 4, 4) == Some(DYNAMIC_SYMBOLS);
    let symbols = section((0..count).find(is_symbols)?);
    let names = number(section(number(symbols + 40, 4)?) + 24, 8)?;
    let (first, bytes) = (number(symbols + 24, 8)?, number(symbols + 32, 8)?);
    let is_it = |symbol: &usize| {
        let text = number(*symbol, 4).and_then(|at| library.get(names + at..));
        text.is_some_and(|text| text.starts_with(name) && text.get(name.len()) == Some(&0))
    };
    let found = (first..first + bytes).step_by(24).find(is_it)?;
    Some((number(found + 8, 8)?, number(found + 16, 8)?))
}
