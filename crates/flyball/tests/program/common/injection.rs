//! System calls of a running process that fail because a test wants them to.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flyball_testkit::wait::until;

use super::{proc_status, signal, wait_for};

/// How long strace has for letting go before it is killed.
const LETS_GO_MAX: Duration = Duration::from_secs(5);

/// How long it has for attaching to every thread. One that starts while strace reads the list of
/// them, started by one that it has not got yet, it never gets: then it attaches anew.
const ATTACHES_MAX: Duration = Duration::from_secs(5);

/// How often it attaches anew.
const ATTEMPTS: usize = 4;

/// What the kernel calls the threads of a ring. They come and go at any time, strace does not get
/// those that come, and none of them makes a system call.
const WORKER_OF_A_RING: &str = "iou-wrk-";

/// strace, which lets system calls of a process fail for as long as it is attached.
pub struct Injection(Child);

impl Injection {
    /// Attaches to a process and all of its threads.
    pub fn attach(process: u32, calls: &str, fault: &str) -> Injection {
        Injection::logged(process, calls, fault, "/dev/null")
    }

    /// The same; what is called meanwhile stands in this file then.
    pub fn logged(process: u32, calls: &str, fault: &str, log: &str) -> Injection {
        let trace = format!("trace={calls}");
        let inject = format!("inject={calls}:{fault}");
        for _ in 0..ATTEMPTS {
            let child = Command::new("strace")
                .args(["-f", "-qq", "-o", log, "-e", &trace, "-e", &inject])
                .args(["-p", &process.to_string()])
                .stderr(Stdio::null())
                .spawn()
                .expect("strace starts");
            let injection = Injection(child);
            if until(ATTACHES_MAX, || untraced(process).is_empty().then_some(())).is_some() {
                return injection;
            }
            injection.release();
        }
        panic!("strace does not attach to {:?} of {process}", untraced(process));
    }

    /// The same for a process that may have ended. Of one that ended while strace attached to its
    /// threads, strace may wait forever for the last: they are let go when it is killed.
    pub fn release(mut self) {
        signal(self.0.id(), "INT");
        until(LETS_GO_MAX, || self.0.try_wait().expect("it can be waited for"));
    }

    /// From now on calls do what they do.
    pub fn end(mut self, process: u32) {
        signal(self.0.id(), "INT");
        wait_for("strace to end", || self.0.try_wait().expect("it can be waited for"));
        wait_for("strace to let go", || {
            proc_status(process, "TracerPid").filter(|tracer| tracer == "0")
        });
    }
}

/// The threads of a process that can make a system call and that nobody traces, and those that have
/// ended meanwhile.
fn untraced(process: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let is_traced = |task: &std::path::Path| {
        let read = |name| std::fs::read_to_string(task.join(name)).unwrap_or_default();
        let status = read("status");
        status.contains("TracerPid:") && !status.contains("TracerPid:\t0\n")
            || read("comm").starts_with(WORKER_OF_A_RING)
    };
    let untraced = tasks.flatten().map(|task| task.path()).filter(|task| !is_traced(task));
    untraced.map(|task| task.display().to_string()).collect()
}

impl Drop for Injection {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
