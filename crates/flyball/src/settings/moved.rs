//! Keys that there were, and what is written in their place: one that has another name is
//! understood for a version, with a warning.

use super::server::SETTINGS;
use super::table::find;

/// Each with what is written instead.
const GONE: &[(&str, &str)] = &[
    ("lab.path-cache", "cache.paths = 0, where it was false"),
    ("lab.head-cache", "cache.heads = false, where it was false"),
    ("lab.content-cache", "cache.content = 0 and cache.files = 0, where it was false"),
    ("lab.copy-loop", "cache.content = 0 and send.mode = \"copy\", where it was true"),
];

/// Switches of experiments that stood among the settings of a server, each with its key now.
const MOVED: &[(&str, &str)] = &[
    ("accept.extra", "experiment.accept-extra"),
    ("accept.on-close", "experiment.accept-on-close"),
    ("accept.every-loop", "experiment.accept-every-loop"),
    ("accept.modify-listeners", "experiment.modify-listeners"),
    ("work.order", "experiment.work-order"),
    ("work.eager-write", "experiment.eager-write"),
    ("work.full-read", "experiment.full-read"),
    ("send.cork", "experiment.cork"),
    ("uring.order", "experiment.completion-order"),
];

/// Keys that are understood by the names that they had in the version before, each with its name
/// now.
const RENAMED: &[(&str, &str)] = &[("architecture", "arch")];

/// The name now of a key that had this one in the version before.
pub(super) fn renamed(key: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(before, _)| *before == key).map(|(_, now)| *now)
}

/// The name that this key had in the version before, if it had another.
pub fn name_before(key: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(_, now)| *now == key).map(|(before, _)| *before)
}

/// What an error says about a key that is no longer there.
pub(super) fn instead(key: &str) -> Option<String> {
    if let Some((_, instead)) = GONE.iter().find(|(gone, _)| *gone == key) {
        return Some(format!("is gone; write {instead}"));
    }
    let now = match MOVED.iter().find(|(before, _)| *before == key) {
        Some((_, now)) => (*now).to_owned(),
        None => format!("experiment.{}", key.strip_prefix("lab.")?),
    };
    find(SETTINGS, &now).map(|_| format!("is {now} now"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_no_setting_and_what_is_written_instead_is_one() {
        for (gone, instead) in GONE {
            assert!(find(SETTINGS, gone).is_none(), "{gone}");
            let mut keys = instead.split_whitespace().filter(|word| word.contains('.'));
            assert!(keys.all(|key| find(SETTINGS, key).is_some()), "{gone}: {instead}");
        }
    }

    #[test]
    fn a_key_that_is_understood_by_its_name_before_has_that_no_more() {
        for (before, now) in RENAMED {
            assert!(find(SETTINGS, before).is_none(), "{before}");
            assert!(find(SETTINGS, now).is_some(), "{now}");
        }
    }

    #[test]
    fn a_key_that_moved_names_its_new_place() {
        let said = instead("lab.accept-lock");
        assert_eq!(said.as_deref(), Some("is experiment.accept-lock now"));
        assert_eq!(instead("lab.other"), None);
        for (before, now) in MOVED {
            assert!(find(SETTINGS, before).is_none(), "{before}");
            assert_eq!(instead(before), Some(format!("is {now} now")));
        }
    }
}
