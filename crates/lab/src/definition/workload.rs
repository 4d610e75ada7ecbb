//! What clients ask for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Value;

/// What clients ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workload {
    /// Its name for the generator: `one-packet`, `specweb99`, `webstone`, ...
    pub name: String,
    /// What its files are made with: a number of directories, a size.
    #[serde(default)]
    pub files: BTreeMap<String, Value>,
    /// The files grow with the connections, as those of SPECweb99 do: connections are this part of
    /// those that are meant, and files this part of what SPECweb99 has for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// More flags of the generator.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Whether a run in which more requests time out than S4's rule allows is void (M158), also
    /// where all files suffer alike.
    #[serde(default)]
    pub quality: bool,
    /// What is asked for beside the files, or in their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Seconds after which a client gives up.
    #[serde(default = "default_timeout_s")]
    pub timeout_s: f64,
}

fn default_timeout_s() -> f64 {
    10.0
}

impl Workload {
    /// Whether it is a set of files, which says what every answer must be; else its flags say all.
    pub fn has_files(&self) -> bool {
        !self.name.is_empty() && self.work.is_none_or(|work| work.share < 1.0)
    }

    pub(super) fn check_work(&self) -> Result<(), String> {
        let Some(work) = self.work else { return Ok(()) };
        if !(work.share > 0.0 && work.share <= 1.0) {
            return Err("the `share` of `work` is above 0 and at most 1".into());
        }
        match self.name == ONE_PACKET {
            true => Ok(()),
            false => Err(format!("`work` goes with the workload {ONE_PACKET}")),
        }
    }
}

/// The workload of one small file, the name of the file, and the path of what takes its time.
const ONE_PACKET: &str = "one-packet";
const FILE_PATH: &str = "/one_pkt";
pub(crate) const WORK_PATH: &str = "/work";

/// Requests that take a known time: of our module `lab-work`, or of what a command serves there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Work {
    /// Processor time of each, in microseconds.
    #[serde(default)]
    pub burn_us: u64,
    /// Time of each in which its thread or process does nothing.
    #[serde(default)]
    pub sleep_us: u64,
    /// The share of all requests; the others are for the file.
    #[serde(default = "whole")]
    pub share: f64,
}

fn whole() -> f64 {
    1.0
}

impl Work {
    /// Paths with their weights, for the generator.
    pub(crate) fn list(self) -> String {
        let Work { burn_us, sleep_us, share } = self;
        let file = (share < 1.0).then(|| format!("{FILE_PATH} {}\n", 1.0 - share));
        let work = format!("{WORK_PATH}?burn-us={burn_us}&sleep-us={sleep_us} {share}\n");
        file.unwrap_or_default() + &work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_asked_for_beside_the_file_or_alone() {
        let work = Work { burn_us: 5000, sleep_us: 0, share: 0.25 };
        assert_eq!(work.list(), "/one_pkt 0.75\n/work?burn-us=5000&sleep-us=0 0.25\n");
        let all = Work { share: 1.0, ..work };
        assert_eq!(all.list(), "/work?burn-us=5000&sleep-us=0 1\n");
        let of = |name: &str, work| Workload { name: name.into(), work, ..Workload::default() };
        assert!(of("one-packet", Some(work)).has_files());
        assert!(!of("one-packet", Some(all)).has_files());
        assert!(of("one-packet", Some(all)).check_work().is_ok());
        assert!(of("webstone", Some(all)).check_work().is_err());
        assert!(of("one-packet", Some(Work { share: 0.0, ..work })).check_work().is_err());
    }
}
