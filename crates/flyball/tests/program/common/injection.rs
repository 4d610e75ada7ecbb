//! System calls of a running process that fail because a test wants them to.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flyball_testkit::wait::until;

use super::{proc_status, signal, wait_for};

/// How long strace has for letting go before it is killed.
const LETS_GO_MAX: Duration = Duration::from_secs(5);

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
        let child = Command::new("strace")
            .args(["-f", "-qq", "-o", log, "-e", &trace, "-e", &inject])
            .args(["-p", &process.to_string()])
            .stderr(Stdio::null())
            .spawn()
            .expect("strace starts");
        wait_for("strace to attach to every thread", || {
            let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
            let is_traced = |task: u32| {
                let status = std::fs::read_to_string(format!("/proc/{process}/task/{task}/status"));
                status.is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
            };
            let mut tasks = tasks.flatten().filter_map(|task| task.file_name().into_string().ok());
            tasks.all(|task| task.parse().is_ok_and(is_traced)).then_some(())
        });
        Injection(child)
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
        self.0.wait().expect("strace ends");
        wait_for("strace to let go", || {
            proc_status(process, "TracerPid").filter(|tracer| tracer == "0")
        });
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
