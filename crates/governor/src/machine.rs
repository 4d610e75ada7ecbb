//! What the machine left to the server.

use crate::Ns;

/// The machine within a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// CPU time that the server may have, in percent of one CPU.
    pub allowed_percent: u32,
    /// CPU time allowed and not used, in percent of what is allowed.
    pub idle_percent: u32,
    /// How long threads of the server could run and did not, by schedstat, all together.
    pub waited_for_cpu: Ns,
    /// How much of that the group's quota took.
    pub throttled: Ns,
    /// How much the hypervisor took.
    pub stolen: Ns,
    /// How long the window was.
    pub lasted: Ns,
}

impl Machine {
    /// Whether neighbours take CPU time that the server could use: more than a twentieth of the
    /// window waited or stolen, its own quota apart. Pressure (PSI) cannot tell these.
    pub(crate) fn is_contended(&self) -> bool {
        let waited = self.waited_for_cpu.saturating_sub(self.throttled).saturating_add(self.stolen);
        waited > self.lasted / 20
    }
}
