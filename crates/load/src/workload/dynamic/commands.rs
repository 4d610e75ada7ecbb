//! What is asked of the server around a run: to make its tables anew and empty the log of what is
//! posted, and to show that log afterwards.

use std::time::{Duration, Instant};

use super::ads::Tables;
use super::{DynamicOptions, Place};
use crate::ask::ask;
use crate::dial::Peer;
use crate::workload::{Catalog, Message};

/// Bytes of a record of the log.
const RECORD: usize = 139;

/// Bytes of its first line, which counts the records.
const COUNT: usize = 11;

/// Widths of the words of a record.
const WIDTHS: [usize; 10] = [10, 10, 10, 5, 2, 2, 10, 60, 10, 10];

/// Users in the tables that are asked for.
const USERS: u32 = 1_000;

/// Longest wait for tables that are not older than the reset, and how often they are looked at.
const FRESH_WAIT: Duration = Duration::from_secs(3);
const FRESH_EVERY: Duration = Duration::from_millis(50);

/// Most wrong records that are told.
const TOLD_MAX: usize = 5;

/// Resets the server and reads its tables.
pub(super) fn reset(
    asked: &DynamicOptions,
    place: Place<'_>,
    message: &Message,
    catalog: &Catalog,
    seed: u64,
) -> Result<Tables, String> {
    let (script, base) = (&asked.script, place.base);
    let target = format!(
        "{script}?command/Reset&maxload={USERS}&pttime={seed}&maxthread=1&exp=1,100&urlroot={base}"
    );
    let remedy = |why: String| {
        format!(
            "{why}: have the server run the module specweb99 at {script} (docs/dynamic.md), or \
             name its path by --dynamic-script"
        )
    };
    let fetch = |target: &str| {
        let message = Message { method: "GET".into(), target: target.into(), ..message.clone() };
        let reply = ask(place.peer, &catalog.bytes_of(&message))
            .map_err(|why| remedy(format!("{target}: {why}")))?;
        match reply.status {
            200 => Ok(reply),
            status => Err(remedy(format!("{target}: status {status}"))),
        }
    };
    let reset_s = fetch(&target)?.date_of("date");
    // A server may know its files by what they were a moment ago.
    let begun = Instant::now();
    let fresh = |name: &str| loop {
        let table = fetch(&format!("{base}/{name}"))?;
        let is_older = table.date_of("last-modified").zip(reset_s).is_some_and(|(a, b)| a < b);
        if !is_older || begun.elapsed() > FRESH_WAIT {
            return Ok(table.body);
        }
        std::thread::park_timeout(FRESH_EVERY);
    };
    let (users, ads): (Result<_, String>, _) = (fresh("User.Personality"), fresh("Custom.Ads"));
    Tables::read(&users?, &ads?).map_err(remedy)
}

/// What the server has a record of, after a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostLog {
    /// Records.
    pub records: u64,
    /// What is wrong with the log; nothing is as it should be.
    pub wrong: Vec<String>,
}

/// Fetches the log of what was posted and looks at every record; at least `answered` must be
/// there. Blocks on the server.
pub(crate) fn fetch_log(peer: Peer<'_>, script: &str, authority: &str, answered: u64) -> PostLog {
    let catalog = Catalog::new(authority, Vec::new());
    let target = format!("{script}?command/Fetch");
    let request = catalog.bytes_of(&Message { target, ..Message::default() });
    match ask(peer, &request) {
        Ok(reply) if reply.status == 200 => judge(&reply.body, answered),
        Ok(reply) => wrong(format!("the log of posts cannot be fetched: status {}", reply.status)),
        Err(why) => wrong(format!("the log of posts cannot be fetched: {why}")),
    }
}

fn wrong(why: String) -> PostLog {
    PostLog { records: 0, wrong: vec![why] }
}

/// Whether the log is its count and as many whole records, each number once.
fn judge(log: &[u8], answered: u64) -> PostLog {
    let Some((count, records)) = log.split_at_checked(COUNT) else {
        return wrong(format!("the log of posts has {} bytes", log.len()));
    };
    let mut told = Vec::new();
    let number = |text: &[u8]| str::from_utf8(text).ok()?.trim().parse::<u64>().ok();
    let found = (records.len() / RECORD) as u64;
    if number(count) != Some(found) || !records.len().is_multiple_of(RECORD) {
        let count = String::from_utf8_lossy(count).trim().to_owned();
        let bytes = records.len();
        told.push(format!("the log of posts counts {count:?} and has {bytes} bytes of records"));
    }
    if found < answered {
        told.push(format!("{answered} posts were answered, and {found} are in the log"));
    }
    let mut seen = vec![false; found as usize];
    for (at, record) in records.chunks_exact(RECORD).enumerate() {
        if told.len() >= TOLD_MAX {
            break;
        }
        if !is_record(record) {
            let text = String::from_utf8_lossy(record);
            told.push(format!("record {} of the log of posts is torn: {text:?}", at + 1));
            continue;
        }
        let place = number(&record[..10]).and_then(|nth| (nth as usize).checked_sub(1));
        match place.and_then(|place| seen.get_mut(place)) {
            Some(seen) if !*seen => *seen = true,
            _ => {
                told.push(format!("record {} of the log of posts has no number of its own", at + 1))
            }
        }
    }
    PostLog { records: found, wrong: told }
}

/// Whether it is words of their widths, numbers but for the name of the file.
fn is_record(record: &[u8]) -> bool {
    let mut at = 0;
    let words_fit = WIDTHS.iter().all(|width| {
        let word = &record[at..at + width];
        let end = record[at + width];
        at += width + 1;
        let is_number = || {
            let digits = word.trim_ascii();
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        };
        let is_text = || word.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
        let is_last = at == RECORD;
        end == if is_last { b'\n' } else { b' ' }
            && if *width == 60 { is_text() } else { is_number() }
    });
    words_fit && at == RECORD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: usize) -> String {
        let (pid, dir) = (77, 3);
        format!(
            "{number:10} {:10} {pid:10} {dir:5} {:2} {:2} {:10} {:<60.60} {pid:10} {:10}\n",
            1, 2, 3, 4, "/file_set/dir00003/class2_3", 10_001
        )
    }

    #[test]
    fn a_log_is_its_count_and_whole_records_of_their_own_numbers() {
        assert_eq!(record(1).len(), RECORD);
        let log =
            |count: usize, records: &str| judge(format!("{count:10}\n{records}").as_bytes(), 2);
        let both = [record(2), record(1)].concat();
        assert_eq!(log(2, &both), PostLog { records: 2, wrong: Vec::new() });
        let told = |count, records: &str| log(count, records).wrong.join("; ");
        assert!(told(3, &both).contains("counts \"3\" and has 278 bytes"));
        assert!(told(1, &record(1)).contains("2 posts were answered, and 1 are in the log"));
        assert!(
            told(2, &[record(1), record(1)].concat()).contains("record 2 of the log of posts has")
        );
        let torn = both.replacen("77", "7x", 1);
        assert!(
            told(2, &torn).contains("record 1 of the log of posts is torn"),
            "{}",
            told(2, &torn)
        );
        assert!(judge(b"", 0).wrong[0].contains("0 bytes"));
    }
}
