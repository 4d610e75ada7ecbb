//! Capabilities (capabilities(7)): the superuser's rights, one by one.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};

/// A right that some process of the server keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// To change the owner of a file.
    Chown,
    /// To read, write and enter whatever the permissions say.
    DacOverride,
    /// To read and enter whatever the permissions say.
    DacReadSearch,
    /// To change what only the owner of a file may.
    Fowner,
    /// To send signals to the processes of other users.
    Kill,
    /// To become another group.
    Setgid,
    /// To become another user.
    Setuid,
    /// To take capabilities from the bounding set.
    Setpcap,
    /// To bind ports below 1024.
    NetBindService,
    /// To choose a congestion control that is not for everybody.
    NetAdmin,
    /// To raise limits of resources.
    SysResource,
    /// To lock memory beyond the limit.
    IpcLock,
}

impl Capability {
    fn bit(self) -> CapabilitySet {
        match self {
            Capability::Chown => CapabilitySet::CHOWN,
            Capability::DacOverride => CapabilitySet::DAC_OVERRIDE,
            Capability::DacReadSearch => CapabilitySet::DAC_READ_SEARCH,
            Capability::Fowner => CapabilitySet::FOWNER,
            Capability::Kill => CapabilitySet::KILL,
            Capability::Setgid => CapabilitySet::SETGID,
            Capability::Setuid => CapabilitySet::SETUID,
            Capability::Setpcap => CapabilitySet::SETPCAP,
            Capability::NetBindService => CapabilitySet::NET_BIND_SERVICE,
            Capability::NetAdmin => CapabilitySet::NET_ADMIN,
            Capability::SysResource => CapabilitySet::SYS_RESOURCE,
            Capability::IpcLock => CapabilitySet::IPC_LOCK,
        }
    }
}

fn set_of(kept: &[Capability]) -> CapabilitySet {
    kept.iter().fold(CapabilitySet::empty(), |set, capability| set | capability.bit())
}

/// Whether this process has the capability and may use it.
pub fn keeps(capability: Capability) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability.bit()))
}

/// Gives up every capability of this thread but these, of those that it has. None of them passes
/// to a program that it executes, unless that belongs to the superuser.
///
/// # Errors
/// Never on Linux, in practice: everybody may give up.
pub fn keep_capabilities(kept: &[Capability]) -> io::Result<()> {
    let own = capabilities(None)?;
    let left = set_of(kept) & own.permitted;
    // Kernels before 4.3 have no ambient set, and nothing in it.
    let _ = clear_ambient_capability_set();
    let sets =
        CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// Takes everything but these out of the bounding set, so that no program could bring it back.
/// Who may not do that keeps the set, and has `no_new_privs` to the same end.
///
/// # Errors
/// When the kernel refuses what this process may do.
pub(super) fn empty_bounding_set(kept: &[Capability]) -> io::Result<()> {
    if !keeps(Capability::Setpcap) {
        return Ok(());
    }
    let kept = set_of(kept);
    // The highest number is found by asking: EINVAL is the end.
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(one) {
            Ok(true) if !kept.contains(one) => remove_capability_from_bounding_set(one)?,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Ok(())
}

/// Raises the limit on locked memory, as far as this process may; `u64::MAX` takes it away.
pub(super) fn raise_locked(bytes: u64) {
    let limit = getrlimit(Resource::Memlock);
    let needs = |limit: Option<u64>| limit.is_some_and(|limit| limit < bytes);
    if needs(limit.current) {
        let current = Some(bytes).filter(|bytes| *bytes < u64::MAX);
        let maximum = if needs(limit.maximum) { current } else { limit.maximum };
        if setrlimit(Resource::Memlock, Rlimit { current, maximum }).is_err() {
            let most = Rlimit { current: limit.maximum, maximum: limit.maximum };
            let _ = setrlimit(Resource::Memlock, most);
        }
    }
}
