//! A file with the number of a process.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};

use crate::place::Place;

/// Longest PID file that is looked into, in bytes.
const BYTES_MAX: u64 = 32;

/// Writes the number of a process to `path`. Whoever reads meanwhile finds the number that was
/// there before or this one, never half of one. A link of that name is replaced and not followed,
/// and so is one of the name that the file has at first, which others can tell beforehand.
///
/// # Errors
/// As [`Place::of`], open(2) and rename(2).
pub fn write(path: &Path, process: i32) -> io::Result<()> {
    let place = Place::of(path)?;
    let (directory, name) = (place.directory(), place.name());
    let new = place.name_and(&format!(".{process}"));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let make = || openat(directory, &*new, flags, Mode::from_raw_mode(0o644));
    let made = match make() {
        // Left by a process that had this number, or put there: it is taken away, and once only.
        Err(rustix::io::Errno::EXIST) => {
            unlinkat(directory, &*new, AtFlags::empty())?;
            make()
        }
        made => made,
    };
    let written = File::from(made?)
        .write_all(format!("{process}\n").as_bytes())
        .and_then(|()| Ok(renameat(directory, &*new, directory, name)?));
    written.inspect_err(|_| {
        let _ = unlinkat(directory, &*new, AtFlags::empty());
    })
}

/// The number that stands in `path`; never waits, and follows no link of that name.
pub fn read(path: &Path) -> Option<i32> {
    read_at(&Place::of(path).ok()?)
}

fn read_at(place: &Place) -> Option<i32> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(place.directory(), place.name(), flags, Mode::empty()).ok()?);
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= BYTES_MAX).then(|| text.trim().parse().ok())?
}

/// Removes `path` if it has the number of this process.
pub fn remove(path: &Path, process: i32) {
    let place = Place::of(path).ok().filter(|place| read_at(place) == Some(process));
    if let Some(place) = place {
        let _ = unlinkat(place.directory(), place.name(), AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_is_removed_by_its_own_process_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        std::fs::write(&path, "stale, from long ago").unwrap();
        write(&path, 17).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"17\n");
        remove(&path, 18);
        assert_eq!(read(&path), Some(17));
        remove(&path, 17);
        assert_eq!(read(&path), None);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(write(Path::new("/no/such/place"), 17).is_err());
    }

    #[test]
    fn a_link_in_the_way_is_replaced_and_never_followed() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let within = |name: &str| directory.path().join(name);
        let (path, victim) = (within("pid"), within("victim"));
        std::fs::write(&victim, "19\n").unwrap();
        symlink(&victim, within("pid.17")).unwrap();
        symlink(&victim, &path).unwrap();
        assert_eq!(read(&path), None);
        remove(&path, 19);
        write(&path, 17).unwrap();
        assert_eq!((read(&path), read(&victim)), (Some(17), Some(19)));
        assert!(path.symlink_metadata().unwrap().is_file());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
        // Neither is one that waits for a writer.
        let fifo = within("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::from_raw_mode(0o600)).unwrap();
        assert_eq!(read(&fifo), None);
    }
}
