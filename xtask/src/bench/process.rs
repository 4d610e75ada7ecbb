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
    ("httperf", "httperf"),
    ("lighttpd", "lighttpd"),
    ("nginx", "nginx-light"),
    ("setpriv", "util-linux"),
    ("sh", "dash"),
    ("taskset", "util-linux"),
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
        self.cpu().0.len()
    }

    /// CPU time used so far by each thread of the process and its descendants.
    pub(crate) fn cpu(&self) -> ThreadTimes {
        ThreadTimes(tree(self.child.id()).into_iter().flat_map(thread_times).collect())
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
fn signal(name: &str, target: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$1\" -- \"$2\"", "sh", name, target]).stderr(Stdio::null());
    // A process that has ended meanwhile needs no signal.
    let _ = command.status();
}

/// Nanoseconds of CPU time by thread.
#[derive(Debug)]
pub(crate) struct ThreadTimes(BTreeMap<u32, u64>);

impl ThreadTimes {
    /// CPU time in nanoseconds between an earlier look and this one, and how many threads ended
    /// between them: what those used since the earlier look is missing in the sum.
    pub(crate) fn since(&self, earlier: &ThreadTimes) -> (u64, usize) {
        let used = |(thread, now): (&u32, &u64)| now - earlier.0.get(thread).unwrap_or(&0).min(now);
        let ended = earlier.0.keys().filter(|thread| !self.0.contains_key(thread)).count();
        (self.0.iter().map(used).sum(), ended)
    }
}

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
fn thread_times(process: u32) -> Vec<(u32, u64)> {
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
    fn threads_that_end_are_counted_and_new_ones_are_added() {
        let earlier = ThreadTimes([(1, 100), (2, 50)].into());
        let later = ThreadTimes([(1, 130), (3, 7)].into());
        assert_eq!(later.since(&earlier), (37, 1));
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
