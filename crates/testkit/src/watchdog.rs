//! What a test process leaves behind is cleaned up when it ends, however it ends.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A shell that waits for the end of this process, which closes the pipe to it, and then acts.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
    /// Held open for as long as this process lives.
    _pipe: Option<ChildStdin>,
}

impl Watchdog {
    /// Ends the process `pid` and deletes the directory that it needs. The process must be a child
    /// of this one, and be waited for only after the watchdog was called off.
    pub(crate) fn end_process(pid: u32, directory: &Path) -> Watchdog {
        let pid = pid.to_string();
        Watchdog::new("kill -TERM \"$1\"; rm -rf -- \"$0\"", &[directory.as_ref(), pid.as_ref()])
    }

    /// Deletes a directory.
    pub(crate) fn delete(directory: &Path) -> Watchdog {
        Watchdog::new("rm -rf -- \"$0\"", &[directory.as_ref()])
    }

    /// Unmounts a file system, in use or not, and deletes the empty directory that it covered.
    #[cfg(feature = "disk")]
    pub(crate) fn unmount(mount_point: &Path) -> Watchdog {
        Watchdog::new("umount -l -- \"$0\"; rmdir -- \"$0\"", &[mount_point.as_ref()])
    }

    fn new(action: &str, arguments: &[&OsStr]) -> Watchdog {
        // Ctrl-C reaches the shell too, and must not end it before it has acted.
        let script = format!("trap '' INT; read _; {action}");
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh can be started");
        let pipe = shell.stdin.take();
        Watchdog { shell, _pipe: pipe }
    }

    /// Ends the watch; nothing is done any more.
    pub(crate) fn call_off(&mut self) {
        // It has been reaped already when this is not the first call.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.call_off();
    }
}
