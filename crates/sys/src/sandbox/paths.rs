//! Landlock: which files a process may open, and which ports it may connect to.
//!
//! A rule belongs to the directory itself, not to its name: what is moved out of it is out of
//! reach, and a directory that takes the name of another one has no rule.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

/// The newest version whose rights are asked for; older kernels do with what they know.
const NEWEST: ABI = ABI::V6;

/// What may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Files are read, and directories listed.
    Read,
    /// Files are also made, written, renamed and removed.
    Write,
}

/// A file, or a directory and all beneath it, and what may be done there.
#[derive(Clone, Copy, Debug)]
pub enum Grant<'a> {
    /// What this descriptor stands for, whatever its name is by now.
    Open(BorrowedFd<'a>, Access),
    /// What has this name now; nothing when it is not there.
    At(&'a Path, Access),
}

/// Rules that are made and not yet in force.
pub(super) struct Rules(RulesetCreated);

impl Rules {
    pub(super) fn new(grants: &[Grant<'_>], connects: &[u16]) -> io::Result<Rules> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))
            .and_then(|rules| rules.handle_access(AccessNet::from_all(NEWEST)))
            .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
            .and_then(Ruleset::create)
            .map_err(io::Error::other)?;
        for grant in grants {
            match *grant {
                Grant::Open(fd, access) => {
                    let rule = PathBeneath::new(fd, rights(access));
                    (&mut rules).add_rule(rule).map_err(io::Error::other)?;
                }
                // What is not there is not reached; a pipe without a name needs no rule, and the
                // kernel takes none for it.
                Grant::At(path, access) => {
                    if let Ok(fd) = PathFd::new(path) {
                        let _ = (&mut rules).add_rule(PathBeneath::new(fd, rights(access)));
                    }
                }
            }
        }
        for port in connects {
            let rule = NetPort::new(*port, AccessNet::ConnectTcp);
            (&mut rules).add_rule(rule).map_err(io::Error::other)?;
        }
        Ok(Rules(rules))
    }

    /// Binds this thread, and whatever it starts, by them.
    pub(super) fn enforce(self) -> io::Result<()> {
        let status = self.0.restrict_self().map_err(io::Error::other)?;
        match status.ruleset {
            RulesetStatus::NotEnforced => Err(io::ErrorKind::Unsupported.into()),
            RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
        }
    }
}

/// Nothing that is opened is ever executed.
fn rights(access: Access) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    match access {
        Access::Read => read,
        Access::Write => {
            read | AccessFs::WriteFile
                | AccessFs::MakeReg
                | AccessFs::RemoveFile
                | AccessFs::Refer
                | AccessFs::Truncate
        }
    }
}
