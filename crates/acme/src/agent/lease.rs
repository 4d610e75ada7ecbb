//! One agent at a time orders, of all that have one storage.
//!
//! On one machine flock(2) says who: a holder that dies holds it no more. Some shared file systems
//! keep such locks from other machines, so that the file also says who holds it and until when: the
//! holder goes on saying so, and one that has died is waited for as long as its last word.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flyball_sys::secret_file;
use serde::{Deserialize, Serialize};

use crate::agent::storage;

/// For how many seconds the holder says that it holds.
const LEASE: u64 = 180;

/// Longest content that is read, in bytes.
const CONTENT_MAX: u64 = 4_096;

/// One value for each start of a kernel: below one of these flock(2) is enough.
const MACHINE: &str = "/proc/sys/kernel/random/boot_id";

/// What the file says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Word {
    machine: String,
    until: u64,
    /// It is no agent, but an import.
    #[serde(default)]
    imports: bool,
}

/// The right to order, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    file: File,
    machine: String,
    until: u64,
    imports: bool,
}

/// What is done by who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Agent,
    Import,
}

impl Lease {
    /// Takes it, unless another has it. Times are seconds since 1970. Does not wait.
    ///
    /// # Errors
    /// When the disk fails or is full, or what is there is no regular file.
    pub(crate) fn take(path: &Path, now: u64, by: Holder) -> io::Result<Option<Lease>> {
        let machine = std::fs::read_to_string(MACHINE).unwrap_or_default().trim().to_owned();
        Lease::take_as(path, machine, now, by)
    }

    /// Who has it, as far as the file says: an agent, where it is just being written.
    pub(crate) fn holder(path: &Path) -> Holder {
        let read = secret_file::read(path, CONTENT_MAX).ok();
        let word: Option<Word> = read.and_then(|file| serde_json::from_slice(&file.bytes).ok());
        if word.is_some_and(|word| word.imports) { Holder::Import } else { Holder::Agent }
    }

    fn take_as(path: &Path, machine: String, now: u64, by: Holder) -> io::Result<Option<Lease>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = storage::open(path, &mut options)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        let mut text = String::new();
        // What cannot be read was torn by one who died.
        let _ = Read::by_ref(&mut file).take(CONTENT_MAX).read_to_string(&mut text);
        if let Ok(word) = serde_json::from_str::<Word>(&text)
            && word.machine != machine
            && (now..=now + LEASE).contains(&word.until)
        {
            return Ok(None);
        }
        let mut lease = Lease { file, machine, until: 0, imports: by == Holder::Import };
        lease.keep(now)?;
        Ok(Some(lease))
    }

    /// Says that it is still held, where two thirds of the time have passed. To be called before
    /// each thing that takes long.
    ///
    /// # Errors
    /// When the disk fails or is full.
    pub(crate) fn keep(&mut self, now: u64) -> io::Result<()> {
        if self.until.saturating_sub(now) > LEASE / 3 {
            return Ok(());
        }
        self.until = now + LEASE;
        let (machine, imports) = (self.machine.clone(), self.imports);
        let word = Word { machine, until: self.until, imports };
        let mut text = serde_json::to_vec(&word)?;
        text.push(b'\n');
        self.file.rewind()?;
        self.file.write_all(&text)?;
        self.file.set_len(text.len() as u64)?;
        self.file.sync_data()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A file that says nothing is free; one that goes on saying is waited for.
        let _ = self.file.set_len(0);
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(path: &Path, machine: &str, now: u64) -> Option<Lease> {
        Lease::take_as(path, machine.into(), now, Holder::Agent).unwrap()
    }

    #[test]
    fn one_at_a_time_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = take(&path, "a", 100).unwrap();
        assert!(take(&path, "a", 100).is_none());
        // However late it is: flock says that the holder lives.
        assert!(take(&path, "a", 10_000).is_none());
        drop(held);
        assert!(take(&path, "b", 100).is_some());
    }

    #[test]
    fn the_dead_of_this_machine_hold_nothing_and_those_of_another_until_their_last_word() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let word = |machine: &str, until| {
            let word = Word { machine: machine.into(), until, imports: false };
            std::fs::write(&path, serde_json::to_vec(&word).unwrap()).unwrap();
        };
        word("a", 200);
        assert!(take(&path, "a", 100).is_some());
        word("a", 200);
        assert!(take(&path, "b", 100).is_none());
        assert!(take(&path, "b", 201).is_some());
        // No holder says so: a clock was wrong.
        word("a", 100_000);
        assert!(take(&path, "b", 100).is_some());
        std::fs::write(&path, "{\"machine\"").unwrap();
        assert!(take(&path, "b", 100).is_some());
    }

    #[test]
    fn a_pipe_is_no_lock_and_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let why = Lease::take(&path, 100, Holder::Agent).unwrap_err().to_string();
        assert_eq!(why, format!("{}: is not a file", path.display()));
    }

    #[test]
    fn the_holder_goes_on_saying_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let mut held = take(&path, "a", 100).unwrap();
        let until =
            || serde_json::from_slice::<Word>(&std::fs::read(&path).unwrap()).unwrap().until;
        assert_eq!(until(), 100 + LEASE);
        held.keep(110).unwrap();
        assert_eq!(until(), 100 + LEASE);
        held.keep(250).unwrap();
        assert_eq!(until(), 250 + LEASE);
    }
}
