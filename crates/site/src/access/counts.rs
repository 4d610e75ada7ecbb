//! What is counted of access.

use super::Refused;

/// What one thread of control refused for want of a right since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCounts {
    /// Names and passwords that were verified and wrong.
    pub failed: u64,
    /// Names and passwords that were not looked at: too many failed, or are being verified.
    pub throttled: u64,
    /// Requests from networks that may not see what they asked for.
    pub denied: u64,
}

impl AccessCounts {
    pub(crate) fn refused(&mut self, refused: Refused) {
        match refused {
            Refused::Network => self.denied += 1,
            Refused::Throttled(_) | Refused::Busy(_) => self.throttled += 1,
            // Most ask without a password first, as a browser does.
            Refused::Login => {}
        }
    }
}
