//! Programs of this machine: found, started on one CPU, watched through /proc, and ended.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flyball_testkit::wait;

use super::failure::Failure;

/// Each program that a comparison may start, and the Debian package that holds it.
const PACKAGES: &[(&str, &str)] = &[
    ("caddy", "caddy"),
    ("h2o", "h2o"),
    ("haproxy", "haproxy"),
    ("httperf", "httperf"),
    ("lighttpd", "lighttpd"),
    ("nginx", "nginx-light"),
    ("setpriv", "util-linux"),
    ("sh", "dash"),
    ("strace", "strace"),
    ("taskset", "util-linux"),
    ("valgrind", "valgrind"),
    ("wrk", "wrk"),
];

/// Where Debian keeps servers, which is not on the search path of an ordinary user.
const SYSTEM_DIRECTORIES: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// Time a server gets to end after SIGTERM before it is killed.
const END_MAX: Duration = Duration::from_secs(5);

/// Path of a program, or which package to install.
pub(crate) fn find(name: &str) -> Result<PathBuf, Failure> {
    let path = env::var("PATH").unwrap_or_default() + ":" + SYSTEM_DIRECTORIES;
    if let Some(found) = env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.is_file()) {
        return Ok(found);
    }
    let package = PACKAGES.iter().find(|(program, _)| *program == name).map_or(name, |(_, p)| *p);
    Err(Failure::Unusable(format!("{name} is not installed: apt-get install {package}")))
}

/// A command line that runs on one CPU only and gets SIGTERM when this process ends, however it
/// ends. Must be started from the main thread: the signal follows the starting thread's end.
pub(crate) fn pinned(cpu: usize, program: &Path) -> Result<Command, Failure> {
    on_cpus(&cpu.to_string(), program)
}

/// As [`pinned`], after the process has written its id to `group`.
pub(crate) fn pinned_in(cpu: usize, group: &Path, program: &Path) -> Result<Command, Failure> {
    let mut command = on_cpus(&cpu.to_string(), &find("sh")?)?;
    command.args(["-c", "echo $$ > \"$1\" && shift && exec \"$@\"", "sh"]);
    command.arg(group).arg(program);
    Ok(command)
}

/// As [`pinned`], on these CPUs, such as `0,1`.
pub(crate) fn on_cpus(cpus: &str, program: &Path) -> Result<Command, Failure> {
    let mut command = Command::new(find("setpriv")?);
    command.args(["--pdeathsig", "TERM"]).arg(find("taskset")?).arg("-c").arg(cpus);
    command.arg(program).stdin(Stdio::null());
    Ok(command)
}

/// A server and all its processes, in a process group of their own. Ended when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Starts the command.
    pub(crate) fn start(command: &mut Command) -> Result<Running, Failure> {
        let child = command.process_group(0).spawn();
        Ok(Running { child: child.map_err(Failure::io(format!("starting {command:?}")))? })
    }

    /// Whether the first process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Bytes of memory of the process and its descendants that belong to no file; what several of
    /// them share is counted once.
    pub(crate) fn memory(&self) -> u64 {
        tree(self.child.id()).into_iter().map(proportional_bytes).sum()
    }

    /// Threads of the process and its descendants.
    pub(crate) fn threads(&self) -> usize {
        self.cpu().0.values().map(|process| process.threads.len()).sum()
    }

    /// Numbers of the threads of the process and its descendants.
    pub(crate) fn thread_ids(&self) -> Vec<u32> {
        self.cpu().0.into_values().flat_map(|process| process.threads.into_keys()).collect()
    }

    /// CPU time used so far by the process and its descendants.
    pub(crate) fn cpu(&self) -> CpuTimes {
        let times = |process| Some((process, ProcessTimes::of(process)?));
        CpuTimes(tree(self.child.id()).into_iter().filter_map(times).collect())
    }
}

impl Drop for Running {
    /// SIGTERM to the first process, then SIGKILL to whatever is left of the group.
    fn drop(&mut self) {
        let id = self.child.id();
        signal("TERM", &id.to_string());
        wait::until(END_MAX, || self.has_ended().then_some(()));
        signal("KILL", &format!("-{id}"));
        // An error means that it was awaited already.
        let _ = self.child.wait();
    }
}

/// Sends a signal by the shell's built-in kill: std knows only SIGKILL, and only for a child.
pub(crate) fn signal(name: &str, target: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$1\" -- \"$2\"", "sh", name, target]).stderr(Stdio::null());
    // A process that has ended meanwhile needs no signal.
    let _ = command.status();
}

/// CPU time by process.
#[derive(Debug)]
pub(crate) struct CpuTimes(BTreeMap<u32, ProcessTimes>);

impl CpuTimes {
    /// CPU time in nanoseconds between an earlier look and this one, and how many processes ended
    /// between them: what those used since the earlier look is missing in the sum.
    pub(crate) fn since(&self, earlier: &CpuTimes) -> (u64, usize) {
        let new = ProcessTimes::default();
        let used = |(process, now): (&u32, &ProcessTimes)| {
            now.since(earlier.0.get(process).unwrap_or(&new))
        };
        let ended = earlier.0.keys().filter(|process| !self.0.contains_key(process)).count();
        (self.0.iter().map(used).sum(), ended)
    }
}

/// Nanoseconds of CPU time of one process.
#[derive(Debug, Default)]
struct ProcessTimes {
    /// Of each thread that is there.
    threads: BTreeMap<u32, u64>,
    /// Of all threads, those that have ended too, in whole ticks.
    all: u64,
}

impl ProcessTimes {
    fn of(process: u32) -> Option<ProcessTimes> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        Some(ProcessTimes { threads: thread_times(process), all: ticks(&stat)? * TICK_NS })
    }

    /// The sum of the threads is exact; the whole is taken where it is more than that by what
    /// counting in ticks cannot explain: then threads have ended.
    fn since(&self, earlier: &ProcessTimes) -> u64 {
        let of = |(thread, now): (&u32, &u64)| {
            now.saturating_sub(earlier.threads.get(thread).copied().unwrap_or(0))
        };
        let threads: u64 = self.threads.iter().map(of).sum();
        let all = self.all.saturating_sub(earlier.all);
        if all > threads + 2 * TICK_NS { all } else { threads }
    }
}

/// One over USER_HZ.
const TICK_NS: u64 = 10_000_000;

/// The process and its descendants, itself first.
fn tree(root: u32) -> Vec<u32> {
    let processes: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, parent(&stat)?))
        })
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let of = found[next];
        found.extend(processes.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// Parent in a line of /proc/PID/stat: the second field after the name, which is in parentheses
/// and may hold anything (proc_pid_stat(5)).
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Processor time in a line of /proc/PID/stat, in ticks: that of user and that of system mode, both
/// with what threads used that have ended.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Anonymous and shared memory of a process, each page divided by the processes that have it.
fn proportional_bytes(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_ascii_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0)
    };
    (kib("Pss_Anon:") + kib("Pss_Shmem:")) * 1024
}

/// Threads of a process with the nanoseconds each spent on a CPU: the first field of its schedstat,
/// a hundred thousand times as fine as the clock ticks of its stat.
fn thread_times(process: u32) -> BTreeMap<u32, u64> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let time = |path: PathBuf| {
        fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    threads
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, time(entry.path())?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_a_name_with_parentheses_and_blanks() {
        assert_eq!(parent("12 (a) S 9 (b) R 34 12 12 0"), Some(34));
        assert_eq!(parent("12 (cut off"), None);
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let why = find("no-such-program").unwrap_err();
        assert_eq!(why.exit_status(), 2);
        assert!(why.to_string().contains("apt-get install no-such-program"), "{why}");
    }

    #[test]
    fn processor_time_stands_behind_a_name_with_parentheses_and_blanks() {
        assert_eq!(ticks("12 (a) S 9 (b) R 34 12 12 0 -1 4 1 2 3 4 50 7 90 91 20 0"), Some(57));
        assert_eq!(ticks("12 (a) R 34 12"), None);
    }

    #[test]
    fn new_threads_and_those_that_have_ended_count_and_processes_that_ended_are_told() {
        let times = |threads: &[(u32, u64)], all| ProcessTimes {
            threads: threads.iter().copied().collect(),
            all,
        };
        let earlier = CpuTimes([(1, times(&[(1, 100), (2, 50)], 0))].into());
        let later = CpuTimes([(1, times(&[(1, 130), (3, 7)], TICK_NS))].into());
        assert_eq!(later.since(&earlier), (37, 0), "a tick is no more than rounding");
        let later = CpuTimes([(1, times(&[(1, 130)], 9 * TICK_NS))].into());
        assert_eq!(later.since(&earlier), (9 * TICK_NS, 0));
        let later = CpuTimes([(8, times(&[(8, 5)], 0))].into());
        assert_eq!(later.since(&earlier), (5, 1));
    }

    #[test]
    fn cpu_time_of_a_grandchild_counts_and_the_whole_tree_ends_with_its_guard() {
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c 'while :; do :; done' & wait"]);
        let running = Running::start(&mut command).unwrap();
        let before = running.cpu();
        let used = wait::until(wait::DEADLINE, || {
            (running.cpu().since(&before).0 > 20_000_000).then_some(())
        });
        assert!(used.is_some(), "20 ms of CPU time in 10 s");
        let processes = tree(running.child.id());
        assert_eq!(processes.len(), 2, "the shell and the loop");
        drop(running);
        let gone = |process| !Path::new(&format!("/proc/{process}")).exists();
        assert!(wait::until(wait::DEADLINE, || gone(processes[1]).then_some(())).is_some());
    }
}
