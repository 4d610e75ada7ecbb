//! The log of what was posted: a count in the first line, and a record of 139 bytes for each post.
//!
//! All processes and threads write at once and none waits: the number of a record comes from a
//! counter that they share, and its place in the file follows from the number. The count is written
//! again by whoever finds that it was overtaken, so that the last one is right.

use std::io;

use std::path::Path;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use flyball_sys::process;
use flyball_sys::shared_file::SharedFile;

/// Counters that a log shares: the records.
pub(super) const COUNTERS: usize = 1;

/// Bytes of the first line.
const COUNT: u64 = 11;

/// Bytes of a record.
const RECORD: u64 = 139;

/// What is posted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Post<'a> {
    pub(super) directory: u64,
    pub(super) class: u64,
    pub(super) file: u64,
    pub(super) client: u64,
    /// The path of the file.
    pub(super) name: &'a str,
    /// The number of the user.
    pub(super) cookie: u64,
}

/// The log.
#[derive(Clone, Debug)]
pub(super) struct PostLog {
    file: Arc<SharedFile>,
    records: &'static AtomicU64,
}

impl PostLog {
    /// The one in this file, which goes on where it ended.
    pub(super) fn open(path: &Path, counters: &'static [AtomicU64]) -> io::Result<PostLog> {
        let file = SharedFile::open(path)?;
        let log = PostLog { file: Arc::new(file), records: &counters[0] };
        let records = log.len()?.saturating_sub(COUNT) / RECORD;
        log.records.store(records, SeqCst);
        log.write_count(records)?;
        Ok(log)
    }

    /// Forgets every record. Nobody may post meanwhile.
    pub(super) fn clear(&self) -> io::Result<()> {
        self.file.cut(0)?;
        self.records.store(0, SeqCst);
        self.write_count(0)
    }

    /// Writes a record.
    pub(super) fn append(&self, post: &Post<'_>, now_s: u64) -> io::Result<()> {
        let number = self.records.fetch_add(1, SeqCst) + 1;
        let record = record(number, post, now_s, process::own_id());
        self.file.write(COUNT + (number - 1) * RECORD, record.as_bytes())?;
        let mut written = number;
        loop {
            self.write_count(written)?;
            let now = self.records.load(SeqCst);
            if now <= written {
                return Ok(());
            }
            written = now;
        }
    }

    fn write_count(&self, count: u64) -> io::Result<()> {
        self.file.write(0, format!("{count:10}\n").as_bytes())
    }

    /// Its bytes.
    pub(super) fn len(&self) -> io::Result<u64> {
        Ok(self.file.state()?.0)
    }

    /// A part of it.
    pub(super) fn read(&self, from: u64, len: usize) -> io::Result<Vec<u8>> {
        self.file.read(from, len)
    }
}

fn record(number: u64, post: &Post<'_>, now_s: u64, pid: i32) -> String {
    let Post { directory, class, file, client, name, cookie } = post;
    format!(
        "{number:10} {now_s:10} {pid:10} {directory:5} {class:2} {file:2} {client:10} \
         {name:<60.60} {pid:10} {cookie:10}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_many_writers_are_whole_and_counted() {
        let directory = tempfile::tempdir().unwrap();
        let counters = Box::leak(Box::new([AtomicU64::new(0)]));
        let log = PostLog::open(&directory.path().join("log"), counters).unwrap();
        let name = "/file_set/dir00001/class2_3";
        std::thread::scope(|scope| {
            for client in 0..8 {
                let log = log.clone();
                scope.spawn(move || {
                    for file in 0..100 {
                        let cookie = 10_000 + client;
                        let post =
                            Post { directory: 1, class: 2, file: file % 9, client, name, cookie };
                        log.append(&post, 1_700_000_000).unwrap();
                    }
                });
            }
        });
        let bytes = log.read(0, log.len().unwrap() as usize).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("       800"));
        for (nth, line) in lines.enumerate() {
            assert_eq!(line.len() as u64, RECORD - 1);
            assert!(line.starts_with(&format!("{:10} 1700000000 ", nth + 1)), "{line}");
            assert!(line.contains(name));
        }
        log.clear().unwrap();
        assert_eq!(log.read(0, log.len().unwrap() as usize).unwrap(), b"         0\n");
    }
}
