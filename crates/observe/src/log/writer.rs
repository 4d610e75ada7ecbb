//! One thread's end of the access log: lines in a buffer of its own, handed over in batches.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use flyball_http::random::nth;
use flyball_http::{End, Now, Remote, Request, Secured, Status};
use flyball_sys::clock;

use super::format::{Ended, LATE_BYTES_MAX, Record};
use super::logs::Tag;
use super::open::{OpenLines, Place};
use super::{BATCH_BYTES_MAX, Lines, LogSender};
use crate::text::Dates;
use crate::waited::Waited;

/// Bytes gathered before they are handed over; per thread of control.
const BATCH_BYTES: usize = 48 * 1024;

/// Longest line, in bytes: one that is begun at [`BATCH_BYTES`] ends within a batch.
const LINE_BYTES_MAX: usize = BATCH_BYTES_MAX - BATCH_BYTES;

/// Most bytes of each field that a client chose.
const FIELD_BYTES_MAX: usize = 8 * 1024;

/// The same for a line that would be longer than [`LINE_BYTES_MAX`]. A format has less than 1 KiB,
/// hence less than 256 fields, and a byte is escaped to six.
const FIELD_BYTES_CUT: usize = 8;

/// The same for one that is still longer.
const FIELD_BYTES_MIDDLE: usize = 512;

/// Longest time a line waits in the buffer, in milliseconds.
const DELAY_MS: u64 = 1_000;

/// Wait before a batch is offered again for which there was no room, in milliseconds.
const RETRY_MS: u64 = 5;

/// Most bytes that wait in one process beyond one batch for each of its threads.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Longest wait for room when a thread ends, in milliseconds.
const LAST_MS_MAX: u64 = 1_000;

/// An answer, as far as a line tells of it when it is known.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// The site that gave it, by its number in the configuration, if one did.
    pub site: Option<usize>,
    /// Its status.
    pub status: Status,
    /// Length of the content that it promises, if that is known.
    pub bytes: Option<u64>,
    /// Who has logged in.
    pub user: Option<&'a [u8]>,
    /// When its request had come, on the clock of [`AccessLogWriter::clock_ns`].
    pub began_ns: u64,
    /// When a backend was asked; 0 where none was.
    pub backend_ns: u64,
    /// How long it had waited before that.
    pub waited: Waited,
}

/// One thread's end of the log. Whatever it holds is handed over when it is dropped.
#[derive(Debug)]
pub struct AccessLogWriter(Option<Box<Open>>);

#[derive(Debug)]
struct Open {
    lines: Arc<Lines>,
    worker: usize,
    is_timed: bool,
    times_answers: bool,
    ids: Option<RequestIds>,
    names_users: bool,
    dates: Dates,
    buffer: Vec<u8>,
    /// Lines in the buffer.
    gathered: u64,
    /// Bytes of the buffer beyond one batch that were asked for and granted.
    granted: usize,
    since_ms: u64,
    /// When a batch may be offered again.
    offer_ms: u64,
    lost: u64,
}

/// Numbers that no other request has: a random one for the thread, and a count, both mixed.
#[derive(Debug)]
struct RequestIds {
    seed: [u64; 2],
    count: u64,
}

impl RequestIds {
    fn new() -> RequestIds {
        // Keyed anew from the system's randomness in each thread, and a forked process differs by
        // its number and the time.
        let own = (flyball_sys::process::own_id(), clock::monotonic_ns());
        let random = || RandomState::new().hash_one(own);
        RequestIds { seed: [random(), random()], count: 0 }
    }

    fn next(&mut self) -> [u64; 2] {
        self.count += 1;
        self.seed.map(|seed| nth(0, seed.wrapping_add(self.count)))
    }
}

impl AccessLogWriter {
    /// A writer to this log.
    pub fn new(log: &LogSender) -> AccessLogWriter {
        AccessLogWriter(log.on.as_ref().map(|lines| {
            Box::new(Open {
                worker: log.worker,
                is_timed: lines.format.is_timed() || lines.format.times_answers(),
                times_answers: lines.format.times_answers(),
                ids: lines.format.has_ids().then(RequestIds::new),
                names_users: lines.format.names_users(),
                dates: Dates::new(),
                buffer: Vec::with_capacity(BATCH_BYTES_MAX),
                gathered: 0,
                granted: 0,
                since_ms: 0,
                offer_ms: 0,
                lost: 0,
                lines: Arc::clone(lines),
            })
        }))
    }

    /// True when lines go anywhere.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The time in nanoseconds, for [`Answered`]; 0 when no line says how long a request takes, so
    /// that no clock is read.
    pub fn clock_ns(&self) -> u64 {
        if self.0.as_ref().is_some_and(|open| open.is_timed) { clock::monotonic_ns() } else { 0 }
    }

    /// Whether the lines say who has logged in.
    pub fn names_users(&self) -> bool {
        self.0.as_ref().is_some_and(|open| open.names_users)
    }

    /// Begins the line of one request, when its answer is known, if its site has a log; then
    /// [`AccessLogWriter::place`].
    pub fn begin(
        &mut self,
        lines: &mut OpenLines,
        request: &Request<'_>,
        answer: &Answered<'_>,
        now: &Now,
    ) {
        let Some(open) = &mut self.0 else { return };
        let Answered { site, status, bytes, user, began_ns, backend_ns, waited } = *answer;
        let Some(tag) = open.lines.targets.of(site) else { return };
        let duration_us =
            open.is_timed.then(|| clock::monotonic_ns().saturating_sub(began_ns) / 1_000);
        let record = Record {
            request: Some(request),
            secured: request.secured(),
            client: request.client(),
            user,
            status,
            duration_us,
            waited,
            unix_ms: now.unix_ms(),
            worker: open.worker,
            id: open.next_id(),
        };
        open.begin(lines, (tag, &record), (End::Whole, began_ns, backend_ns), bytes, now);
    }

    /// Begins the line of a request that was refused before it was understood, by so much content;
    /// then [`AccessLogWriter::place`].
    pub fn begin_refusal(
        &mut self,
        lines: &mut OpenLines,
        (status, content): (Status, u64),
        (client, secured, waited): (Remote, Option<&Secured>, Waited),
        now: &Now,
    ) {
        let Some(open) = &mut self.0 else { return };
        let Some(tag) = open.lines.targets.of(None) else { return };
        let is_late = matches!(status, Status::REQUEST_TIMEOUT | Status::SERVICE_UNAVAILABLE);
        let end = if is_late { End::Timeout } else { End::Refused };
        let record = Record {
            request: None,
            secured,
            client,
            user: None,
            status,
            duration_us: None,
            waited,
            unix_ms: now.unix_ms(),
            worker: open.worker,
            id: open.next_id(),
        };
        open.begin(lines, (tag, &record), (end, 0, 0), Some(content), now);
    }

    /// The answer whose line was begun is in the output, of which so much was sent before.
    pub fn place(&mut self, lines: &mut OpenLines, place: Place, sent: u64) {
        let Some(open) = &mut self.0 else { return };
        if place.content.is_some() {
            open.backend_done(lines);
        }
        lines.place(place, sent);
    }

    /// So many bytes more of the body of the newest answer are in the output.
    pub fn grow(&mut self, lines: &mut OpenLines, content: u64) {
        lines.grow(content);
    }

    /// All of the newest answer is in the output, and it ends there.
    pub fn end_growing(&mut self, lines: &mut OpenLines, queued_end: u64) {
        let Some(open) = &mut self.0 else { return };
        open.backend_done(lines);
        lines.end_growing(queued_end);
    }

    /// So many bytes of the output of a connection were sent since that began: lines of answers
    /// that have left go to the log. Never waits.
    pub fn sent(&mut self, lines: &mut OpenLines, sent: u64, now: &Now) {
        let Some(open) = &mut self.0 else { return };
        let now_ns = if open.times_answers { clock::monotonic_ns() } else { 0 };
        while let Some(line) = lines.oldest() {
            if line.first_byte_ns == 0 && line.has_begun(sent) {
                line.first_byte_ns = now_ns;
            }
            if sent < line.until {
                break;
            }
            let end = line.end;
            open.close(lines, end, sent, now_ns, now);
        }
    }

    /// A connection is over, of whose output so many bytes have come to its client. What is left of
    /// its lines goes to the log.
    pub fn cut(&mut self, lines: &mut OpenLines, end: End, sent: u64, now: &Now) {
        let Some(open) = &mut self.0 else { return };
        let now_ns = if open.times_answers { clock::monotonic_ns() } else { 0 };
        while !lines.is_empty() {
            open.close(lines, end, sent, now_ns, now);
        }
    }

    /// Hands the lines over when the oldest has waited long enough, or they are many. Never waits.
    pub fn flush_when_due(&mut self, now: &Now) {
        if let Some(open) = &mut self.0
            && !open.buffer.is_empty()
            && (now.ms().saturating_sub(open.since_ms) >= DELAY_MS
                || open.buffer.len() > BATCH_BYTES)
        {
            open.offer(now.ms());
        }
    }

    /// Hands the lines over, as far as there is room. Never waits.
    pub fn flush(&mut self) {
        if let Some(open) = &mut self.0 {
            open.hand_over();
        }
    }

    /// Lines that wait to be handed over: they are lost when the process is killed.
    pub fn gathered(&self) -> u64 {
        self.0.as_ref().map_or(0, |open| open.gathered)
    }

    /// Lines that were lost since this was asked last.
    pub fn take_lost(&mut self) -> u64 {
        self.0.as_mut().map_or(0, |open| std::mem::take(&mut open.lost))
    }
}

impl Drop for AccessLogWriter {
    fn drop(&mut self) {
        let Some(open) = &mut self.0 else { return };
        let until_ms = clock::monotonic_ms() + LAST_MS_MAX;
        while !open.hand_over() {
            let left_ms = until_ms.saturating_sub(clock::monotonic_ms());
            if left_ms == 0 || open.lines.channel.wait_for_room(left_ms).is_err() {
                break;
            }
        }
        open.give_back();
    }
}

impl Open {
    /// The number of the next request, if lines have numbers.
    fn next_id(&mut self) -> [u64; 2] {
        self.ids.as_mut().map_or([0; 2], RequestIds::next)
    }

    /// Begins a line. Where its connection has no room for that, it is written at once: with the
    /// length that is promised, since nothing else is known.
    fn begin(
        &mut self,
        lines: &mut OpenLines,
        record: (Tag, &Record<'_>),
        line: (End, u64, u64),
        promised: Option<u64>,
        now: &Now,
    ) {
        self.dates.set(now);
        if lines.has_room() {
            return self.write(lines, record, line);
        }
        let mut alone = OpenLines::default();
        self.write(&mut alone, record, line);
        let (first_byte_us, request_us, backend_us) = (None, None, None);
        let ended = Ended { end: End::Open, sent: promised, first_byte_us, request_us, backend_us };
        self.add(&mut alone, &ended, now);
    }

    /// Writes a line but for what is late.
    fn write(
        &mut self,
        lines: &mut OpenLines,
        (tag, record): (Tag, &Record<'_>),
        line: (End, u64, u64),
    ) {
        let format = &self.lines.format;
        let (start, holes) = (lines.text.len(), lines.holes.len());
        let late_bytes_max = format.late().len() * LATE_BYTES_MAX;
        for most in [FIELD_BYTES_MAX, FIELD_BYTES_MIDDLE, FIELD_BYTES_CUT] {
            lines.text.truncate(start);
            lines.holes.truncate(holes);
            lines.text.extend_from_slice(tag.bytes());
            format.write(record, &self.dates, most, (&mut lines.text, &mut lines.holes));
            if lines.text.len() - start + late_bytes_max < LINE_BYTES_MAX {
                break;
            }
        }
        lines.push(line);
    }

    /// The backend of the newest answer has no more to say.
    fn backend_done(&self, lines: &mut OpenLines) {
        if self.times_answers
            && let Some(line) = lines.growing()
            && line.backend_ns != 0
        {
            line.backend_done_ns = clock::monotonic_ns();
        }
    }

    /// The oldest line of a connection has ended, when so many bytes of its output were sent.
    fn close(&mut self, lines: &mut OpenLines, end: End, sent: u64, now_ns: u64, now: &Now) {
        let Some(line) = lines.oldest() else { return };
        let (first_byte_us, request_us, backend_us) = (None, None, None);
        let sent = Some(line.content(sent));
        let mut ended = Ended { end, sent, first_byte_us, request_us, backend_us };
        if now_ns > 0 {
            line.time(now_ns, &mut ended);
        }
        self.add(lines, &ended, now);
    }

    /// Adds the oldest line of a connection to what is gathered.
    fn add(&mut self, lines: &mut OpenLines, ended: &Ended, now: &Now) {
        if self.buffer.is_empty() {
            self.since_ms = now.ms();
        }
        let start = self.buffer.len();
        lines.take_oldest(&self.lines.format, ended, &mut self.buffer);
        self.buffer.push(b'\n');
        self.gathered += 1;
        if self.buffer.len() > BATCH_BYTES {
            self.offer(now.ms());
            if self.buffer.len() > BATCH_BYTES_MAX + self.granted && !self.ask_for_more() {
                // There is no room anywhere: this line is lost, and no request waits for it.
                self.buffer.truncate(start);
                self.gathered -= 1;
                self.lost += 1;
            }
        }
    }

    /// Hands over what there is, unless there was no room a moment ago.
    fn offer(&mut self, now_ms: u64) {
        if now_ms >= self.offer_ms && !self.hand_over() {
            self.offer_ms = now_ms + RETRY_MS;
        }
    }

    /// Hands over whole lines until there is no room; true when nothing is left.
    fn hand_over(&mut self) -> bool {
        let mut sent = 0;
        while sent < self.buffer.len() {
            let rest = &self.buffer[sent..];
            let batch = &rest[..batch_len(rest)];
            match self.lines.channel.send(batch, None) {
                Ok(()) => sent += batch.len(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_full(&error) => break,
                Err(_) => {
                    // Nobody will ever take them.
                    self.lost += count_lines(rest);
                    sent = self.buffer.len();
                }
            }
        }
        if sent == self.buffer.len() {
            self.buffer.clear();
            self.gathered = 0;
            self.give_back();
            return true;
        }
        self.gathered -= count_lines(&self.buffer[..sent]);
        self.buffer.drain(..sent);
        false
    }

    /// Asks for room in this process for another batch.
    fn ask_for_more(&mut self) -> bool {
        let waiting = &self.lines.waiting;
        let more =
            |waiting: usize| Some(waiting + BATCH_BYTES_MAX).filter(|n| *n <= WAITING_BYTES_MAX);
        let granted = waiting.fetch_update(Relaxed, Relaxed, more).is_ok();
        if granted {
            self.granted += BATCH_BYTES_MAX;
        }
        granted
    }

    fn give_back(&mut self) {
        if self.granted > 0 {
            self.lines.waiting.fetch_sub(std::mem::take(&mut self.granted), Relaxed);
            self.buffer.shrink_to(BATCH_BYTES_MAX);
        }
    }
}

/// Length of the longest batch of whole lines at the front.
fn batch_len(lines: &[u8]) -> usize {
    if lines.len() <= BATCH_BYTES_MAX {
        return lines.len();
    }
    let front = &lines[..BATCH_BYTES_MAX];
    front.iter().rposition(|&byte| byte == b'\n').map_or(front.len(), |feed| feed + 1)
}

/// How many lines end in these bytes.
pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte == b'\n')).sum()
}

/// Whether a record found no room: in the channel, or in the kernel's memory.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory)
}

#[cfg(test)]
mod tests {
    use super::super::{AccessLog, AccessLogs, Lines, LogFormat};
    use super::*;
    use flyball_http::{Head, Limits, scan};
    use flyball_sys::channel::Channel;
    use std::sync::atomic::AtomicUsize;

    /// A writer of this format, and where its lines come out.
    fn writer(format: &str) -> (AccessLogWriter, LogSender, Channel) {
        let (channel, there) = Channel::pair().unwrap();
        channel.set_nonblocking().unwrap();
        there.set_nonblocking().unwrap();
        let format = LogFormat::parse(format).unwrap();
        let sites = [AccessLog::Off, AccessLog::File("own".into())];
        let targets = AccessLogs::of(&AccessLog::Stdout, &sites).targets().clone();
        let lines = Lines { format, targets, channel, waiting: AtomicUsize::new(0) };
        let sender = LogSender { on: Some(Arc::new(lines)), ..LogSender::off() }.of_worker(2);
        (AccessLogWriter::new(&sender), sender, there)
    }

    /// Begins the line of a request for this, whose answer promises five bytes.
    fn begin(writer: &mut AccessLogWriter, lines: &mut OpenLines, target: &str, now: &Now) {
        begin_of(writer, lines, None, target, now);
    }

    /// The same for an answer of this site.
    fn begin_of(
        writer: &mut AccessLogWriter,
        lines: &mut OpenLines,
        site: Option<usize>,
        target: &str,
        now: &Now,
    ) {
        let text = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        let limits = Limits { target_bytes_max: 1 << 20, ..Limits::default() };
        let mut head = Head::default();
        scan::parse_head(text.as_bytes(), &limits, &mut head).unwrap();
        head.client = Remote::Ip([127, 0, 0, 1].into());
        let began_ns = writer.clock_ns();
        let (status, bytes, user, backend_ns) = (Status::OK, Some(5), None, 0);
        let waited = Waited::default();
        let answer = Answered { site, status, bytes, user, began_ns, backend_ns, waited };
        writer.begin(lines, &head.request(text.as_bytes()), &answer, now);
    }

    fn write(writer: &mut AccessLogWriter, target: &str, now: &Now) {
        let mut lines = OpenLines::default();
        begin(writer, &mut lines, target, now);
        writer.place(&mut lines, Place { queued_end: 105, content: Some(5) }, 0);
        writer.sent(&mut lines, 104, now);
        assert!(!lines.is_empty(), "it has not ended");
        writer.sent(&mut lines, 105, now);
        assert!(lines.is_empty());
    }

    /// The lines that come in one batch, all of them for the log of the server.
    fn batch(there: &Channel) -> Option<String> {
        let lines = tagged(there)?;
        assert!(lines.iter().all(|(number, _)| *number == 0), "{lines:?}");
        Some(lines.into_iter().map(|(_, line)| line).collect())
    }

    /// The lines that come in one batch, with the numbers of their logs.
    fn tagged(there: &Channel) -> Option<Vec<(usize, String)>> {
        let mut batch = vec![0; BATCH_BYTES_MAX];
        let (len, _) = there.receive(&mut batch).ok()?;
        let read = |line| {
            let (number, line) = Tag::split(line).unwrap();
            (number, String::from_utf8(line.to_vec()).unwrap())
        };
        Some(batch[..len].split_inclusive(|byte| *byte == b'\n').map(read).collect())
    }

    #[test]
    fn a_line_says_which_log_it_is_for_and_a_site_without_one_has_none() {
        let (mut writer, _sender, there) = writer("$path $sent $end");
        let (mut lines, now) = (OpenLines::default(), Now::new(0, 0));
        let mut end = 0;
        for (site, path) in
            [(Some(1), "/own"), (Some(0), "/none"), (None, "/server"), (Some(1), "/own")]
        {
            begin_of(&mut writer, &mut lines, site, path, &now);
            end += 100;
            let place = Place { queued_end: end, content: Some(5) };
            writer.place(&mut lines, place, 0);
        }
        // A body that is made meanwhile, of a site without a log, is no other answer's.
        begin_of(&mut writer, &mut lines, Some(0), "/none", &now);
        writer.place(&mut lines, Place { queued_end: end + 95, content: None }, 0);
        writer.grow(&mut lines, 30);
        writer.end_growing(&mut lines, end + 125);
        writer.sent(&mut lines, end + 125, &now);
        assert!(lines.is_empty());
        writer.flush();
        let line = |number, path: &str| (number, format!("{path} 5 whole\n"));
        let expected = [line(1, "/own"), line(0, "/server"), line(1, "/own")];
        assert_eq!(tagged(&there), Some(expected.to_vec()));
    }

    #[test]
    fn lines_wait_for_each_other_but_not_long() {
        let (mut writer, _sender, there) = writer("$remote_addr $path $worker $bytes_sent");
        write(&mut writer, "/a", &Now::new(0, 0));
        write(&mut writer, "/b", &Now::new(5, 0));
        let (mut lines, now) = (OpenLines::default(), Now::new(6, 0));
        let client = Remote::Ip([127, 0, 0, 9].into());
        let from = (client, None, Waited::default());
        writer.begin_refusal(&mut lines, (Status::BAD_REQUEST, 40), from, &now);
        writer.place(&mut lines, Place { queued_end: 300, content: Some(40) }, 100);
        writer.sent(&mut lines, 300, &now);
        writer.flush_when_due(&Now::new(DELAY_MS - 1, 0));
        assert_eq!(batch(&there), None);
        writer.flush_when_due(&Now::new(DELAY_MS, 0));
        let lines = "127.0.0.1 /a 2 5\n127.0.0.1 /b 2 5\n127.0.0.9 - 2 40\n";
        assert_eq!(batch(&there).as_deref(), Some(lines));
        write(&mut writer, "/c", &Now::new(9, 0));
        drop(writer);
        assert_eq!(batch(&there).as_deref(), Some("127.0.0.1 /c 2 5\n"));
        assert_eq!(batch(&there), None);
    }

    #[test]
    fn lines_end_with_their_answers_and_the_rest_with_the_connection() {
        let (mut writer, _sender, there) = writer("$path $sent $end");
        let (mut lines, now) = (OpenLines::default(), Now::new(0, 0));
        // Of 100 bytes each, the first 95 its head; the third grows by 30.
        for (nth, content) in [Some(5), Some(5), None].into_iter().enumerate() {
            begin(&mut writer, &mut lines, &format!("/{nth}"), &now);
            let queued_end = (nth as u64 + 1) * 100;
            writer.place(&mut lines, Place { queued_end, content }, 0);
        }
        writer.grow(&mut lines, 30);
        writer.sent(&mut lines, 199, &now);
        writer.flush();
        assert_eq!(batch(&there).as_deref(), Some("/0 5 whole\n"));
        writer.sent(&mut lines, 320, &now);
        writer.flush();
        assert_eq!(batch(&there).as_deref(), Some("/1 5 whole\n"));
        let mut cut = |lines: &mut OpenLines, end, sent| {
            writer.cut(lines, end, sent, &now);
            writer.flush();
            assert!(lines.is_empty());
            batch(&there)
        };
        // Less came to the client than the socket had taken.
        assert_eq!(cut(&mut lines, End::Left, 312).as_deref(), Some("/2 12 left\n"));
        assert_eq!(cut(&mut lines, End::Left, 312), None);
    }

    #[test]
    fn what_grows_is_whole_when_it_is_said_to_end_and_has_left() {
        let (mut writer, _sender, there) = writer("$sent $end");
        let (mut lines, now) = (OpenLines::default(), Now::new(0, 0));
        begin(&mut writer, &mut lines, "/", &now);
        writer.place(&mut lines, Place { queued_end: 1_100, content: None }, 1_000);
        writer.grow(&mut lines, 7);
        writer.sent(&mut lines, 1_107, &now);
        assert!(!lines.is_empty(), "there may be more");
        writer.end_growing(&mut lines, 1_107);
        writer.sent(&mut lines, 1_107, &now);
        writer.flush();
        assert_eq!(batch(&there).as_deref(), Some("7 whole\n"));
    }

    #[test]
    fn a_line_without_room_in_its_connection_is_written_at_once() {
        let (mut writer, _sender, there) = writer("$path $sent $end $request_us");
        let (mut lines, now) = (OpenLines::default(), Now::new(0, 0));
        let long = format!("/{}", "x".repeat(7_000));
        let mut begun = 0;
        while lines.has_room() {
            begin(&mut writer, &mut lines, &long, &now);
            begun += 1;
            let place = Place { queued_end: begun * 100, content: Some(5) };
            writer.place(&mut lines, place, 0);
            assert!(begun < 100, "there is no bound");
        }
        begin(&mut writer, &mut lines, "/more", &now);
        // It has no place: that of the line before stays as it is.
        let place = Place { queued_end: (begun + 1) * 100, content: Some(5) };
        writer.place(&mut lines, place, 0);
        writer.flush();
        assert_eq!(batch(&there).as_deref(), Some("/more 5 open -\n"));
        writer.sent(&mut lines, begun * 100, &now);
        assert!(lines.is_empty());
        writer.flush();
        assert_eq!(batch(&there).map(|text| text.lines().count()), Some(begun as usize));
    }

    #[test]
    fn many_lines_do_not_wait() {
        let (mut writer, _sender, there) = writer("$path");
        let path = format!("/{}", "x".repeat(999));
        let count = BATCH_BYTES / 1001 + 1;
        (0..count).for_each(|_| write(&mut writer, &path, &Now::new(0, 0)));
        assert_eq!(batch(&there), Some(format!("{path}\n").repeat(count)));
    }

    #[test]
    fn a_line_is_bounded_whatever_a_client_sends() {
        for format in ["json", "combined", &"$path$request".repeat(70)] {
            let (mut writer, _sender, there) = writer(format);
            let target = format!("/{}", "\\".repeat(15_000));
            write(&mut writer, &target, &Now::new(0, 0));
            writer.flush();
            let line = batch(&there).unwrap();
            assert!(line.len() <= LINE_BYTES_MAX && line.ends_with('\n'), "{}", line.len());
            assert!(line.contains("...") && line.matches('\n').count() == 1);
            if format == "json" {
                serde_json::from_str::<serde_json::Value>(&line).unwrap();
            }
        }
    }

    #[test]
    fn lines_without_room_are_counted_and_the_others_come_whole() {
        let (mut writer, sender, there) = writer("$path");
        let mut now = Now::new(0, 0);
        let (path, mut written) = (format!("/{}", "x".repeat(98)), 0);
        while writer.take_lost() == 0 {
            now.set(now.ms() + 1, 0);
            write(&mut writer, &path, &now);
            written += 1;
            assert!(written < 1_000_000, "there is no bound");
        }
        let lines = &sender.on.as_ref().unwrap();
        assert!(lines.waiting.load(Relaxed) > WAITING_BYTES_MAX - 2 * BATCH_BYTES_MAX);
        let mut came = 0;
        let mut take = |writer: &mut AccessLogWriter| {
            while let Some(batch) = batch(&there) {
                assert!(batch.lines().all(|line| line == path) && batch.ends_with('\n'));
                came += batch.lines().count();
                writer.flush();
            }
        };
        take(&mut writer);
        assert_eq!(lines.waiting.load(Relaxed), 0);
        write(&mut writer, &path, &now);
        assert_eq!(writer.take_lost(), 0);
        writer.flush();
        take(&mut writer);
        assert_eq!(came, written, "one was lost and one more written");
    }

    #[test]
    fn every_request_has_a_number_of_its_own() {
        let (mut ids, mut other) = (RequestIds::new(), RequestIds::new());
        let mut seen: Vec<[u64; 2]> = (0..1000).flat_map(|_| [ids.next(), other.next()]).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 2000);
    }

    #[test]
    fn the_clock_is_read_only_for_those_who_ask() {
        assert_eq!(writer("combined").0.clock_ns(), 0);
        assert!(writer("json").0.clock_ns() > 0);
        assert_eq!(AccessLogWriter::new(&LogSender::off()).clock_ns(), 0);
    }
}
