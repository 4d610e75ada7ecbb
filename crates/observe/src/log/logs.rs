//! Which access log has the lines of which site. Several sites may have one; each has a number, by
//! which a line says to the log process where it belongs.

use std::sync::Arc;

use flyball_sys::log_file::AccessLog;

/// Most access logs of a server: each takes a descriptor of the log process.
pub const ACCESS_LOGS_MAX: usize = 1_000;

/// Bytes of a tag, which a line begins with on its way to the log process.
const TAG_BYTES: usize = 2;

/// Bits of a number in each of them; the highest is set, so that none of them ends a line.
const TAG_BITS: u32 = 7;
const TAG_MARK: u8 = 1 << TAG_BITS;

const _: () = assert!(ACCESS_LOGS_MAX <= 1 << (2 * TAG_BITS));

/// The number of an access log, as the first bytes of its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag([u8; TAG_BYTES]);

/// The access logs of a server: each once, with what goes to it.
#[derive(Clone, Debug, Default)]
pub struct AccessLogs {
    logs: Vec<AccessLog>,
    targets: Targets,
}

/// Where lines go, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Targets {
    /// Those of requests that no site answers.
    server: Option<Tag>,
    sites: Arc<[Option<Tag>]>,
}

impl Tag {
    fn of(number: usize) -> Tag {
        Tag([(number >> TAG_BITS) as u8 | TAG_MARK, number as u8 | TAG_MARK])
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The number of the log that a line is for, and the line; `None` for what has no tag.
    pub(super) fn split(line: &[u8]) -> Option<(usize, &[u8])> {
        let (tag, line) = line.split_first_chunk::<TAG_BYTES>()?;
        if line.is_empty() || tag.iter().any(|byte| byte & TAG_MARK == 0) {
            return None;
        }
        let [high, low] = tag.map(|byte| usize::from(byte & !TAG_MARK));
        Some((high << TAG_BITS | low, line))
    }
}

impl AccessLogs {
    /// Those of a server, and of its sites in their order.
    pub fn of<'a>(
        server: &AccessLog,
        sites: impl IntoIterator<Item = &'a AccessLog>,
    ) -> AccessLogs {
        let mut logs = Vec::new();
        let mut tag = |log: &AccessLog| {
            if *log == AccessLog::Off {
                return None;
            }
            let known = logs.iter().position(|known| known == log);
            let number = known.unwrap_or_else(|| {
                logs.push(log.clone());
                logs.len() - 1
            });
            Some(Tag::of(number))
        };
        let targets = Targets { server: tag(server), sites: sites.into_iter().map(tag).collect() };
        AccessLogs { logs, targets }
    }

    /// Whether a log process that writes those writes these too, with the same numbers.
    pub fn is_as(&self, other: &AccessLogs) -> bool {
        self.logs == other.logs && self.targets.server == other.targets.server
    }

    /// Each of them once.
    pub fn all(&self) -> &[AccessLog] {
        &self.logs
    }

    pub(super) fn targets(&self) -> &Targets {
        &self.targets
    }

    /// The key of the setting that says that there is this one.
    pub fn key_of(&self, number: usize) -> &'static str {
        if self.is_of_server(number) { "access-log" } else { "site.access-log" }
    }

    /// Whether this one is that of the server, and not of some site alone.
    pub(super) fn is_of_server(&self, number: usize) -> bool {
        self.targets.server == Some(Tag::of(number))
    }
}

impl Targets {
    /// Where a line goes that is about an answer of this site, or of none; `None` is nowhere.
    pub(super) fn of(&self, site: Option<usize>) -> Option<Tag> {
        match site.and_then(|site| self.sites.get(site)) {
            Some(target) => *target,
            None => self.server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> AccessLog {
        AccessLog::File(name.into())
    }

    #[test]
    fn sites_that_name_the_same_file_share_a_log() {
        let sites = [file("a"), AccessLog::Off, file("b"), file("a"), file("server")];
        let logs = AccessLogs::of(&file("server"), &sites);
        assert_eq!(logs.all(), [file("server"), file("a"), file("b")]);
        let number = |site| {
            logs.targets.of(site).map(|tag| Tag::split(&[tag.bytes(), b"x"].concat()).unwrap().0)
        };
        let numbers = [0, 1, 2, 3, 4].map(|site| number(Some(site)));
        assert_eq!(numbers, [Some(1), None, Some(2), Some(1), Some(0)]);
        assert_eq!((number(None), number(Some(9))), (Some(0), Some(0)));
        assert!(logs.is_of_server(0) && !logs.is_of_server(1));
        let without = AccessLogs::of(&AccessLog::Off, &sites);
        assert!(without.targets.of(None).is_none() && !without.is_of_server(0));
    }

    #[test]
    fn a_tag_is_read_as_it_was_written_and_ends_no_line() {
        for number in (0..ACCESS_LOGS_MAX).chain([(1 << 14) - 1]) {
            let line = [Tag::of(number).bytes(), b"line\n"].concat();
            assert_eq!(Tag::split(&line), Some((number, &b"line\n"[..])));
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        }
        for wrong in [&b""[..], b"\n", b"\x80\n", b"\x80\x80", b"a\x80line\n", b"line\n"] {
            assert_eq!(Tag::split(wrong), None, "{wrong:?}");
        }
    }
}
