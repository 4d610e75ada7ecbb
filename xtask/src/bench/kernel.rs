//! Kernel settings that a work needs, put back on every way out.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits until its standard input ends, which the kernel sees to even when this process is killed,
/// then writes the old value back. Signals of the terminal must not end it before.
const KEEPER: &str = r#"trap '' HUP INT TERM; read -r _; printf %s "$2" > "$1""#;

/// A setting below /proc/sys that is changed while this lives.
#[derive(Debug)]
pub(crate) struct Changed {
    keeper: Child,
}

impl Changed {
    /// Sets `name`, a path below /proc/sys, to `value`. Nothing is changed, and nothing kept, when
    /// it has that value already. Fails without the right to write it.
    pub(crate) fn set(name: &str, value: &str) -> io::Result<Option<Changed>> {
        change(&Path::new("/proc/sys").join(name), value)
    }
}

/// The value of a setting below /proc/sys; empty when there is none.
pub(crate) fn value(name: &str) -> String {
    let text = fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap_or_default();
    text.trim().to_owned()
}

fn change(path: &Path, value: &str) -> io::Result<Option<Changed>> {
    let old = fs::read_to_string(path)?.trim().to_owned();
    if old == value {
        return Ok(None);
    }
    let mut command = Command::new("sh");
    command.args(["-c", KEEPER, "sh"]).arg(path).arg(&old).stdin(Stdio::piped());
    // Outside the terminal's foreground group, so that Ctrl-C does not reach it.
    let changed = Changed { keeper: command.process_group(0).stderr(Stdio::null()).spawn()? };
    fs::write(path, value)?;
    Ok(Some(changed))
}

impl Drop for Changed {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // It always ends once its input has; there is nothing to do about an error here.
        let _ = self.keeper.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("bench-{name}-{}", std::process::id()));
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_setting_is_changed_and_put_back() {
        let path = file("changed", "bbr\n");
        let changed = change(&path, "cubic").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "cubic");
        drop(changed);
        assert_eq!(fs::read_to_string(&path).unwrap(), "bbr");
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_setting_that_is_right_is_left_alone() {
        let path = file("right", "cubic\n");
        assert!(change(&path, "cubic").unwrap().is_none());
        assert_eq!(fs::read_to_string(&path).unwrap(), "cubic\n");
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_setting_that_does_not_exist_is_an_error() {
        assert!(Changed::set("no/such/setting", "1").is_err());
    }
}
