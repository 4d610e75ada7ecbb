//! The binary records of the access logs of the World Cup of 1998: twenty bytes each, big-endian:
//! time, client, object and size of four bytes, then method, status, type and server of one.
//!
//! Their names of objects are not part of the log: object 57 is asked for as `/57`.

use super::Entry;
use crate::workload::skipped::Skipped;

/// Bytes of a record.
const RECORD: usize = 20;

/// The months of the logs, in seconds since 1970, with some room: April to August 1998.
const TIMES_S: std::ops::Range<u32> = 890_000_000..905_000_000;

/// Methods by their number; those behind have no name.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "OPTIONS"];

/// Records that are looked at to recognise a log.
const LOOKED_AT: usize = 16;

/// Whether it begins as a log of such records does.
pub(super) fn is_log(log: &[u8]) -> bool {
    let mut records = log.chunks_exact(RECORD).take(LOOKED_AT).peekable();
    records.peek().is_some() && records.all(|record| TIMES_S.contains(&number(record, 0)))
}

/// Gives every record with the number of its client to `take`.
///
/// # Errors
/// When a record is wrong and `skipped` refuses it.
pub(super) fn read(
    log: &[u8],
    skipped: &mut Skipped,
    take: &mut dyn FnMut(Entry<'_>, u32),
) -> Result<(), String> {
    for (nth, record) in log.chunks(RECORD).enumerate() {
        let place = || format!("record {}", nth + 1);
        if record.len() < RECORD {
            skipped.skip(&place(), "it is cut off")?;
            continue;
        }
        let Some(method) = METHODS.get(usize::from(record[16])) else {
            skipped.skip(&place(), "its method has no name")?;
            continue;
        };
        let entry = Entry {
            client: &record[4..8],
            time_s: i64::from(number(record, 0)),
            method,
            target: format!("/{}", number(record, 8)),
            // The two highest bits of the status are the version: 0 to 2 for 0.9, 1.0 and 1.1.
            is_http10: record[17] >> 6 < 2,
            // Of the others nothing is asked but whether they are a file's.
            status: match record[17] & 0x3f {
                2 => 200,
                13 => 304,
                _ => 0,
            },
            bytes: u64::from(Some(number(record, 12)).filter(|size| *size < u32::MAX).unwrap_or(0)),
            is_cut: false,
        };
        take(entry, number(record, 4));
    }
    Ok(())
}

fn number(record: &[u8], at: usize) -> u32 {
    let bytes = record.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u32::from_be_bytes(bytes.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time_s: u32, client: u32, object: u32, method: u8, status: u8) -> Vec<u8> {
        let words = [time_s, client, object, 4_096];
        let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        record.extend([method, status, 1, 7]);
        record
    }

    #[test]
    fn records_are_recognised_and_read() {
        let mut log = record(894_000_000, 9, 57, 0, 0b1000_0010);
        log.extend(record(894_000_003, 4, 8, 1, 0b0100_0010));
        log.extend(record(894_000_003, 4, 8, 9, 0));
        log.extend([1, 2, 3]);
        assert!(is_log(&log));
        let (mut skipped, mut found) = (Skipped::new(false), Vec::new());
        read(&log, &mut skipped, &mut |entry, client| {
            found.push((entry.time_s, client, entry.method.to_owned(), entry.target));
            assert_eq!(entry.is_http10, client == 4);
            assert_eq!((entry.status, entry.bytes), (200, 4_096));
        })
        .unwrap();
        assert_eq!(found[0], (894_000_000, 9, "GET".into(), "/57".into()));
        assert_eq!(found[1], (894_000_003, 4, "HEAD".into(), "/8".into()));
        let note = skipped.note().unwrap();
        assert!(note.contains("record 3: its method") && note.contains("record 4: it is cut off"));
    }

    #[test]
    fn text_is_no_log_of_records() {
        assert!(!is_log(b"in24.inetnebr.com - - [01/Aug/1995:00:00:01 -0400] \"GET / HTTP/1.0\""));
        assert!(!is_log(b""));
    }
}
