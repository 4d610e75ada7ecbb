//! Where processor time went, by samples of the stack: `perf record -g -e cpu-clock`, which needs
//! no counters of the processor.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::calls::{Category, category};

/// Samples by where they were taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// All.
    pub all: u64,
    /// In the kernel.
    pub kernel: u64,
    /// In the C library.
    pub libc: u64,
    /// In the server's own code, and libraries other than that.
    pub user: u64,
    /// Of those in the kernel: while packets or timers were taken care of.
    pub softirq: u64,
    /// Of those in the kernel: for a page that was not there.
    pub faults: u64,
    /// Of those in the kernel: by the system call that was being made.
    pub calls: BTreeMap<String, u64>,
    /// By the kernel's function in which they were taken: the most frequent ones.
    #[serde(default)]
    pub in_kernel: BTreeMap<String, u64>,
    /// By the function of the server, or of a library.
    #[serde(default)]
    pub in_program: BTreeMap<String, u64>,
}

impl Samples {
    /// Those in system calls of a category.
    pub fn of_category(&self, wanted: Category) -> u64 {
        let of = self.calls.iter().filter(|(name, _)| category(name) == wanted);
        of.map(|(_, samples)| *samples).sum()
    }
}

/// Functions that are kept of either side.
const FUNCTIONS_MAX: usize = 40;

/// Frames of the kernel that are the entry of a system call, before its name. An entry that only
/// hands on to another function leaves no frame: the other one stands for it.
const ENTRIES: &[&str] =
    &["__x64_sys_", "__arm64_sys_", "__riscv_sys_", "__do_sys_", "__se_sys_", "__sys_", "ksys_"];

/// Frames of the kernel in which packets and timers are taken care of.
const SOFTIRQ: &[&str] = &["handle_softirqs", "__do_softirq", "do_softirq"];

/// Frames of the kernel that bring a page.
const FAULTS: &[&str] = &["exc_page_fault", "do_page_fault"];

/// From what `perf script -F ip,sym,dso` prints: a block of frames for each sample, the innermost
/// first, each with an address, a name and the file in parentheses.
pub fn parse(text: &str) -> Samples {
    let mut samples = Samples::default();
    for block in text.split("\n\n") {
        let frames: Vec<(&str, &str)> = block.lines().filter_map(frame).collect();
        let Some((name, inner)) = frames.first() else { continue };
        samples.all += 1;
        let functions = match is_kernel(inner) {
            true => &mut samples.in_kernel,
            false => &mut samples.in_program,
        };
        *functions.entry((*name).to_owned()).or_default() += 1;
        if is_kernel(inner) {
            samples.kernel += 1;
            in_kernel(&mut samples, &frames);
        } else if inner.contains("/libc.") || inner.contains("/libc-") || inner.contains("/ld-") {
            samples.libc += 1;
        } else {
            samples.user += 1;
        }
    }
    keep_most(&mut samples.in_kernel);
    keep_most(&mut samples.in_program);
    samples
}

/// Whether a file is the kernel, or one of its modules.
fn is_kernel(file: &str) -> bool {
    file.starts_with("[kernel") || file.starts_with("[guest.kernel") || file.ends_with(".ko")
}

fn keep_most(functions: &mut BTreeMap<String, u64>) {
    let mut counts: Vec<u64> = functions.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    if let Some(least) = counts.get(FUNCTIONS_MAX) {
        functions.retain(|_, count| *count > *least);
    }
}

fn in_kernel(samples: &mut Samples, frames: &[(&str, &str)]) {
    let has = |names: &[&str]| frames.iter().any(|(name, _)| names.contains(name));
    samples.softirq += u64::from(has(SOFTIRQ));
    let entry = |(name, file): &(&str, &str)| {
        let call = ENTRIES.iter().find_map(|entry| name.strip_prefix(entry));
        call.filter(|_| is_kernel(file)).map(str::to_owned)
    };
    // The outermost: calls are made of functions that others are made of.
    match frames.iter().rev().find_map(entry) {
        Some(call) => *samples.calls.entry(call).or_default() += 1,
        None => samples.faults += u64::from(has(FAULTS)),
    }
}

/// The name and the file of a frame.
fn frame(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let (address, rest) = line.split_once(' ')?;
    if !address.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let (name, file) = rest.rsplit_once(" (")?;
    Some((name.trim(), file.trim_end_matches(')')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "
\tffffffff816c8064 tcp_sendmsg ([kernel.kallsyms])
\tffffffff816c8065 __x64_sys_sendto ([kernel.kallsyms])
\tffffffff821ef691 do_syscall_64 ([kernel.kallsyms])
\t           d4ad7 __GI___send (/usr/lib/x86_64-linux-gnu/libc.so.6)

\tffffffff816c8064 tcp_v4_rcv ([kernel.kallsyms])
\tffffffff816c8065 handle_softirqs ([kernel.kallsyms])
\tffffffff816c8066 __x64_sys_sendto ([kernel.kallsyms])

\tffffffff821f5127 exc_page_fault ([kernel.kallsyms])
\t            e2bc main (/usr/bin/flyball)

\t            e2bc flyball_site::find<a (b)> (/usr/bin/flyball)

\t            e2bc __memmove (/usr/lib/x86_64-linux-gnu/libc.so.6)
";

    #[test]
    fn samples_are_sorted_by_their_frames() {
        let samples = parse(SCRIPT);
        assert_eq!((samples.all, samples.kernel, samples.libc, samples.user), (5, 3, 1, 1));
        assert_eq!((samples.softirq, samples.faults), (1, 1));
        assert_eq!(samples.calls, BTreeMap::from([("sendto".to_owned(), 2)]));
        let inner: Vec<&str> = samples.in_kernel.keys().map(String::as_str).collect();
        assert_eq!(inner, ["exc_page_fault", "tcp_sendmsg", "tcp_v4_rcv"]);
        assert_eq!(samples.in_program["flyball_site::find<a (b)>"], 1);
        assert_eq!(parse("").all, 0);
    }

    #[test]
    fn calls_whose_entry_left_no_frame_were_missed() {
        let block = |entry: &str| {
            format!("\tffff fget ([kernel.kallsyms])\n\tffff {entry} ([kernel.kallsyms])\n\n")
        };
        let entries = ["ksys_read", "__sys_sendmsg", "__do_sys_flock", "exit_to_user_mode_loop"];
        let samples = parse(&entries.map(block).concat());
        let calls: Vec<&str> = samples.calls.keys().map(String::as_str).collect();
        assert_eq!((calls, samples.all), (vec!["flock", "read", "sendmsg"], 4));
    }

    #[test]
    fn of_many_functions_the_most_frequent_are_kept() {
        let block = |nth: usize| format!("\tffff f{nth} ([kernel.kallsyms])\n\n");
        // The first is seen twice as often as the others.
        let script: String = (0..100).chain([0]).map(block).collect();
        let samples = parse(&script);
        assert_eq!((samples.all, samples.kernel), (101, 101));
        assert_eq!(samples.in_kernel, BTreeMap::from([("f0".to_owned(), 2)]));
    }
}
