//! Keeps processors from sleeping while a campaign runs. In a virtual machine waking one takes the
//! machine beneath, and is counted as stolen time: two processes on two processors that wake each
//! other lost 23 to 34 % of the time so, and 1 % when none slept. Beside other machines the middle
//! of some 65 runs of a campaign lost 3.5 %, and 1.0 % when a program kept the processors busy
//! (2 processors, Linux 6.18).

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::process::{Place, Running};
use super::programs::find;
use super::{Group, SetupError};

/// Where the kernel takes how long a processor may need to wake up (its PM QoS interface).
const LATENCY: &str = "/dev/cpu_dma_latency";

/// Where it tells what lets processors sleep: without such a driver nothing heeds that.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// What processors do that have nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// The kernel waits by polling, which counts as idle.
    Poll,
    /// They run a program that gives way to every other. Its time counts as that of a program of
    /// the least precedence (`nice`), also while something waits for a disk.
    Spin,
    /// They sleep.
    Sleep,
}

impl Idle {
    /// As the reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Idle::Poll => "poll",
            Idle::Spin => "run a program that gives way to every other",
            Idle::Sleep => "sleep",
        }
    }
}

/// Processors do not sleep until this is dropped, or its process ends in whatever way.
#[derive(Debug)]
pub struct Awake {
    /// What is asked for holds as long as it is open.
    latency: Option<File>,
    /// One for each processor, where the kernel cannot be asked. They are gone before their group.
    _spinners: Vec<Running>,
    _group: Option<Group>,
}

impl Awake {
    /// Keeps processors awake: all where the kernel polls, else these, each by a program of the
    /// least precedence. To be called from the main thread, with which those programs end.
    ///
    /// # Errors
    /// Without the right to, when the kernel lacks what it takes, and when a program is missing.
    pub fn keep(cpus: &[u32]) -> Result<Awake, SetupError> {
        if has_driver() {
            let wrong = |error| SetupError(format!("{LATENCY}: {error}"));
            let mut latency = File::options().write(true).open(LATENCY).map_err(wrong)?;
            latency.write_all(&0i32.to_ne_bytes()).map_err(wrong)?;
            return Ok(Awake { latency: Some(latency), _spinners: Vec::new(), _group: None });
        }
        // Each has a group of its own, for one may end while another goes on.
        static KEPT: AtomicU32 = AtomicU32::new(0);
        let group = Group::new(&format!("idle-{}", KEPT.fetch_add(1, Relaxed)), None)?;
        group.comes_last()?;
        let spinners = cpus.iter().map(|cpu| spinner(*cpu, &group)).collect::<Result<_, _>>()?;
        Ok(Awake { latency: None, _spinners: spinners, _group: Some(group) })
    }

    /// What processors do that have nothing to do.
    pub fn idle(&self) -> Idle {
        if self.latency.is_some() { Idle::Poll } else { Idle::Spin }
    }
}

/// Whether something lets processors sleep that can be asked not to.
fn has_driver() -> bool {
    fs::read_to_string(DRIVER).is_ok_and(|driver| driver.trim() != "none")
}

/// A program that is busy on a processor whenever nothing else is. A shell's empty loop enters the
/// kernel only when it is interrupted.
fn spinner(cpu: u32, group: &Group) -> Result<Running, SetupError> {
    let place = Place { cpus: Some(cpu.to_string()), joins: group.joins(), ..Place::default() };
    let mut command = place.command(&find("nice")?)?;
    command.args(["-n", "19", "sh", "-c", "while :; do :; done"]);
    Running::start(&mut command, Path::new("/dev/null"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::host::{is_root, until};

    fn kernel_may_wait_us() -> i32 {
        i32::from_ne_bytes(fs::read(LATENCY).unwrap().try_into().unwrap())
    }

    #[test]
    fn processors_stay_awake_for_as_long_as_it_is_held() {
        if !is_root() {
            return eprintln!("skipped: it takes root");
        }
        let awake = Awake::keep(&[0]).unwrap();
        let most = Duration::from_secs(10);
        let look = Duration::from_millis(10);
        let Some(group) = &awake._group else {
            assert_eq!((awake.idle(), kernel_may_wait_us()), (Idle::Poll, 0));
            drop(awake);
            // Another process that measures may ask for the same meanwhile.
            let may_wait = || (kernel_may_wait_us() != 0).then_some(());
            let free = until(12 * most, look, &|| false, may_wait);
            return assert!(free.is_some(), "the kernel still waits by polling");
        };
        assert_eq!(awake.idle(), Idle::Spin);
        // Among others that want the processor it has at least some moments in this time.
        let before = group.cpu_ns().unwrap();
        let busy = || (group.cpu_ns().unwrap() > before + 1_000_000).then_some(());
        assert!(until(most, look, &|| false, busy).is_some(), "it does nothing");
        let spinner = group.processes()[0];
        drop(awake);
        let gone = || (!Path::new(&format!("/proc/{spinner}")).exists()).then_some(());
        assert!(until(most, look, &|| false, gone).is_some(), "{spinner} goes on");
    }
}
