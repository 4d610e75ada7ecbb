//! The machine that experiments run on: its programs, its namespaces and groups, and what it says
//! of itself.

mod awake;
mod descriptors;
mod disk;
mod facts;
mod group;
mod halter;
mod network;
mod occupier;
mod others;
mod perf;
mod precedence;
mod process;
mod processes;
mod processors;
mod programs;
mod put;
mod states;
mod taken;
mod wait;

pub use awake::{Awake, Idle};
pub use descriptors::descriptors_max;
pub use disk::Disk;
pub use facts::{Facts, ListenDrops, commit, is_root};
pub use group::{DiskReads, Group};
pub use halter::Halter;
pub use network::{CLIENT_ADDRESS, Network, SERVER_ADDRESS};
pub use occupier::Occupier;
pub use others::{Disturbance, Others};
pub(crate) use perf::perf;
pub use precedence::may_go_first;
pub use process::{Place, Running};
pub use processes::cpu_ns_of;
pub use processors::{ProcessorTimes, Shares, allowed_cpus, stolen_ns};
pub use programs::{Missing, find, first_line};
pub use put::{put, put_json};
pub use states::States;
pub(crate) use taken::take;
pub use wait::until;

/// Prefix of the names of all that the lab makes, followed by its process id: by that, what a
/// crashed lab left is told from what another is using.
pub(crate) const PREFIX: &str = "flyball-lab-";

/// The directory in a campaign's own for configuration and logs of what runs, which goes with them.
pub const SCRATCH: &str = ".flyball-scratch";

/// Why something could not be set up.
#[derive(Debug)]
pub struct SetupError(pub String);

impl std::fmt::Display for SetupError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for SetupError {}

/// Removes what labs that no longer run have left. Blocks.
///
/// # Errors
/// When something of theirs cannot be removed.
pub fn clear_leftovers() -> Result<(), SetupError> {
    network::clear_leftovers()?;
    group::clear_leftovers()?;
    disk::clear_leftovers()
}

/// Whether a name is ours, of a process that is gone.
fn left_behind(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    let digits = rest.split('-').next().unwrap_or_default();
    digits.parse::<u32>().is_ok_and(|id| !goes_on(id))
}

/// Whether a process is there, and more than its end that nobody has asked for yet.
fn goes_on(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The state follows the name, in parentheses, which may hold some itself.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use std::process::{self, Command};
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_a_killed_lab_left_stayed_until_somebody_had_asked_for_its_end() {
        assert!(!left_behind(&format!("{PREFIX}{}-server", process::id())));
        assert!(!left_behind("server"));
        let mut child = Command::new("true").spawn().unwrap();
        let name = format!("{PREFIX}{}-server", child.id());
        let seen = || left_behind(&name).then_some(());
        let seen = until(Duration::from_secs(10), Duration::from_millis(5), &|| false, seen);
        child.wait().unwrap();
        assert!(seen.is_some(), "it is taken for a lab that goes on");
        assert!(left_behind(&name));
    }
}
