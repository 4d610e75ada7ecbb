//! Processes of an experiment: started where they belong, and ended whatever happens.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::SetupError;
use super::precedence::PRIORITY;
use super::programs::find;
use super::wait::until;

/// Time that a process gets to end after SIGTERM before it is killed.
const END_MAX: Duration = Duration::from_secs(5);

/// How often the end of a process is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Where a process runs.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The network namespace; the machine's own without.
    pub namespace: Option<String>,
    /// CPUs as `taskset` takes them, such as `0` or `0,1`; all without.
    pub cpus: Option<String>,
    /// Files into which it writes its id before it begins.
    pub joins: Vec<PathBuf>,
    /// The most descriptors that it may open.
    pub descriptors: Option<u64>,
    /// Whether it goes before all ordinary programs there. On a CPU with others they stand still
    /// for as long as it has something to do.
    pub first: bool,
}

impl Place {
    /// A command that runs a program there, and ends it when the lab ends, however that ends. To be
    /// started from the main thread: the signal follows the end of the thread that started it.
    ///
    /// # Errors
    /// When a program that this takes is not installed.
    pub fn command(&self, program: &Path) -> Result<Command, SetupError> {
        let mut words: Vec<String> = Vec::new();
        let mut push = |word: &str| words.push(word.to_owned());
        push(&find("setpriv")?.to_string_lossy());
        for word in ["--pdeathsig", "TERM"] {
            push(word);
        }
        // Before the namespace: in it the system's directories are other ones.
        if !self.joins.is_empty() || self.descriptors.is_some() {
            push(&find("sh")?.to_string_lossy());
            push("-c");
            push(&self.script());
            push("sh");
            for file in &self.joins {
                push(&file.to_string_lossy());
            }
        }
        if let Some(namespace) = &self.namespace {
            push(&find("ip")?.to_string_lossy());
            for word in ["netns", "exec", namespace] {
                push(word);
            }
        }
        if let Some(cpus) = &self.cpus {
            push(&find("taskset")?.to_string_lossy());
            for word in ["-c", cpus] {
                push(word);
            }
        }
        if self.first {
            push(&find("chrt")?.to_string_lossy());
            for word in ["--fifo", PRIORITY] {
                push(word);
            }
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program).stdin(Stdio::null());
        Ok(command)
    }

    /// What the shell does before it becomes the program: one argument for each group to join.
    fn script(&self) -> String {
        let mut script = String::new();
        if let Some(most) = self.descriptors {
            script += &format!("ulimit -n {most} 2> /dev/null; ");
        }
        for _ in &self.joins {
            script += "echo $$ > \"$1\" && shift && ";
        }
        script + "exec \"$@\""
    }
}

/// A process that was started, in a process group of its own. Ended when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts a command with its output in this file.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command, output: &Path) -> Result<Running, SetupError> {
        let file = File::create(output)
            .and_then(|file| Ok((file.try_clone()?, file)))
            .map_err(|error| SetupError(format!("{}: {error}", output.display())))?;
        Running::spawn(command.stdout(file.0).stderr(file.1))
    }

    /// The same with standard output and standard error in files of their own.
    ///
    /// # Errors
    /// As [`Running::start`].
    pub fn start_apart(
        command: &mut Command,
        output: &Path,
        errors: &Path,
    ) -> Result<Running, SetupError> {
        let create = |path: &Path| {
            File::create(path).map_err(|error| SetupError(format!("{}: {error}", path.display())))
        };
        Running::spawn(command.stdout(create(output)?).stderr(create(errors)?))
    }

    fn spawn(command: &mut Command) -> Result<Running, SetupError> {
        let child = command.process_group(0).spawn();
        Ok(Running { child: child.map_err(|error| SetupError(format!("{command:?}: {error}")))? })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end for so long; `None` when it goes on, or `stop` says that nobody waits any
    /// more. Blocks.
    pub fn wait(&mut self, most: Duration, stop: &dyn Fn() -> bool) -> Option<ExitStatus> {
        until(most, LOOK_EVERY, stop, || self.ended())
    }
}

impl Drop for Running {
    /// SIGTERM to the process, then SIGKILL to whatever is left of its group.
    fn drop(&mut self) {
        let id = self.child.id();
        signal("TERM", &id.to_string());
        self.wait(END_MAX, &|| false);
        signal("KILL", &format!("-{id}"));
        // It has been awaited, or was killed just now.
        let _ = self.child.wait();
    }
}

/// Sends a signal by the shell's built-in kill: std knows only SIGKILL, and only for a child.
pub(super) fn signal(name: &str, target: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$1\" -- \"$2\"", "sh", name, target]).stderr(Stdio::null());
    // A process that has ended meanwhile needs no signal.
    let _ = command.status();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::may_go_first;

    #[test]
    fn a_process_is_ended_with_all_that_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("output");
        let mut command = Place::default().command(Path::new("/bin/sh")).unwrap();
        command.args(["-c", "sleep 1000 & echo $!; wait"]);
        let running = Running::start(&mut command, &output).unwrap();
        let most = Duration::from_secs(10);
        let inner: u32 = until(most, LOOK_EVERY, &|| false, || {
            std::fs::read_to_string(&output).unwrap().trim().parse().ok()
        })
        .expect("something is started");
        drop(running);
        // A killed process is there until it has been taken apart.
        let is_gone = || {
            let status = std::fs::read_to_string(format!("/proc/{inner}/status"));
            !status.is_ok_and(|text| !text.contains("State:\tZ"))
        };
        let gone = until(most, LOOK_EVERY, &|| false, || is_gone().then_some(()));
        assert!(gone.is_some(), "{inner} goes on");
    }

    /// SCHED_FIFO is class 1 of sched(7).
    #[test]
    fn who_goes_first_is_of_the_class_that_does() {
        if may_go_first().is_err() {
            return eprintln!("skipped: it takes root");
        }
        let place = Place { cpus: Some("0".into()), first: true, ..Place::default() };
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("output");
        let mut command = place.command(Path::new("/bin/cat")).unwrap();
        let mut running = Running::start(command.arg("/proc/self/stat"), &output).unwrap();
        assert!(running.wait(Duration::from_secs(10), &|| false).is_some_and(|end| end.success()));
        let stat = std::fs::read_to_string(&output).unwrap();
        let class = stat.rsplit_once(") ").unwrap().1.split(' ').nth(38);
        assert_eq!(class, Some("1"), "{stat}");
    }

    #[test]
    fn a_place_limits_what_may_be_opened_and_names_its_cpu() {
        let place = Place { cpus: Some("0".into()), descriptors: Some(77), ..Place::default() };
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("output");
        let mut command = place.command(Path::new("/bin/sh")).unwrap();
        command.args(["-c", "ulimit -n; grep Cpus_allowed_list /proc/self/status"]);
        let mut running = Running::start(&mut command, &output).unwrap();
        assert!(running.wait(Duration::from_secs(10), &|| false).is_some_and(|end| end.success()));
        let text = std::fs::read_to_string(&output).unwrap();
        assert_eq!(text.lines().next(), Some("77"), "{text}");
        assert!(text.ends_with(":\t0\n"), "{text}");
    }
}
