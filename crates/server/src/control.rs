//! Changing a running server: what may be asked, how it crosses from the admin process to the
//! master and back, and the client that asks.
//!
//! The admin process reads the request from the network; the master gets one of a few commands as a
//! short record of plain words, which it checks as if the sender were hostile.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use flyball_http::h1::{Incoming, Part};
use flyball_sys::channel::{self, Channel};
use flyball_sys::clock;
use flyball_sys::net::{self, Endpoint, Peer};

/// Longest key or value that crosses to the master, in bytes.
const WORD_BYTES_MAX: usize = 200;

/// Longest wait for the master to do what it was told: workers leave the listening sockets first.
pub(crate) const COMMAND_MS_MAX: u64 = 15_000;

/// Longest wait for it to list the settings, which it does at once: the admin process, which waits,
/// is asked by those who may not hold it up.
const LIST_MS_MAX: u64 = 1_000;

/// Longest time that `upgrade-timeout` may give a new program, in milliseconds: the client that
/// asks for an upgrade waits for its end.
pub const UPGRADE_MS_MOST: u64 = 60_000;

/// Longest wait of [`ask`] for an answer, in milliseconds, and for that of an upgrade: what the
/// master may take, and as long for all that is around it.
const ANSWER_MS_MAX: u64 = 30_000;
const UPGRADE_ANSWER_MS_MAX: u64 = 90_000;
const _: () = assert!(ANSWER_MS_MAX >= 2 * COMMAND_MS_MAX);
const _: () = assert!(UPGRADE_ANSWER_MS_MAX >= UPGRADE_MS_MOST + 2 * COMMAND_MS_MAX);

/// Longest answer of the master, in bytes: the settings that can be changed take some thousands.
const REPLY_BYTES_MAX: usize = 32_768;

/// What it has before its text: the number of the request, and whether it is refused.
const REPLY_HEAD_BYTES: usize = size_of::<u64>() + 1;

/// Longest answer that [`ask`] takes, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Where an upgrade is asked for.
pub const UPGRADE: &str = "/upgrade";

/// What the master may be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Give the setting of this key this value.
    Set(String, String),
    /// Tell the value of the setting of this key.
    Get(String),
    /// Tell which settings can be changed, and their values.
    Settings,
    /// Read the configuration again.
    Reload,
    /// Accept nothing more, finish, and end.
    Drain,
    /// Let another program take over.
    Upgrade,
    /// Have the certificate of this name ordered once more.
    Renew(String),
    /// Have it revoked, and another ordered.
    Revoke(String),
}

impl Command {
    /// The command that gives setting `key` this value.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn set(key: &str, value: &str) -> Result<Command, String> {
        match is_word(key) && is_word(value) {
            true => Ok(Command::Set(key.into(), value.into())),
            false => Err(format!("{key:?} cannot be set to {value:?}")),
        }
    }

    /// The command that asks for the value of setting `key`.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn get(key: &str) -> Result<Command, String> {
        match is_word(key) {
            true => Ok(Command::Get(key.into())),
            false => Err(format!("there is no setting {key:?}")),
        }
    }

    /// The command about the certificate of this name.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn certificate(what: &str, name: &str) -> Result<Command, String> {
        match what {
            _ if !is_name(name) => Err(format!("{name:?} is no name of a certificate")),
            "renew" => Ok(Command::Renew(name.into())),
            "revoke" => Ok(Command::Revoke(name.into())),
            _ => Err(format!("a certificate is renewed or revoked, and not {what:?}")),
        }
    }

    /// The words of a record.
    fn encode(&self) -> String {
        match self {
            Command::Set(key, value) => format!("set {key} {value}"),
            Command::Get(key) => format!("get {key}"),
            Command::Settings => "settings".into(),
            Command::Reload => "reload".into(),
            Command::Drain => "drain".into(),
            Command::Upgrade => "upgrade".into(),
            Command::Renew(name) => format!("renew {name}"),
            Command::Revoke(name) => format!("revoke {name}"),
        }
    }

    fn decode(words: &[&str]) -> Option<Command> {
        match words {
            ["set", key, value] => Command::set(key, value).ok(),
            ["get", key] => Command::get(key).ok(),
            ["settings"] => Some(Command::Settings),
            ["reload"] => Some(Command::Reload),
            ["drain"] => Some(Command::Drain),
            ["upgrade"] => Some(Command::Upgrade),
            [what, name] => Command::certificate(what, name).ok(),
            _ => None,
        }
    }
}

/// A command, and who wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Of all that have been asked since the machine was started, which its answer names too: the
    /// moment. A process asks one after the other, and one that follows it asks later.
    pub(crate) number: u64,
    /// As the kernel told the admin process, which may lie: for the log, and no guard.
    pub(crate) peer: Option<Peer>,
    pub(crate) command: Command,
}

impl Request {
    /// One that is asked now.
    pub(crate) fn new(peer: Option<Peer>, command: Command) -> Request {
        Request { number: clock::monotonic_ns(), peer, command }
    }

    /// Whether the answer comes too late for who asked: settings are listed for those who may only
    /// read, whose requests must not fill the way to a process that waits for none of them.
    pub(crate) fn is_over(&self) -> bool {
        let age_ns = clock::monotonic_ns().saturating_sub(self.number);
        self.command == Command::Settings && age_ns >= LIST_MS_MAX * 1_000_000
    }

    /// A record of one line: its number, user and process, the kind of the command, and its words.
    fn encode(&self) -> String {
        let (number, words) = (self.number, self.command.encode());
        match &self.peer {
            Some(peer) => format!("{number} {} {} {words}", peer.user, peer.process),
            None => format!("{number} - - {words}"),
        }
    }

    fn decode(record: &[u8]) -> Option<Request> {
        let words: Vec<&str> = std::str::from_utf8(record).ok()?.split(' ').collect();
        let [number, user, process, words @ ..] = words.as_slice() else { return None };
        let peer = match (*user, *process) {
            ("-", "-") => None,
            (user, process) => {
                Some(Peer { user: user.parse().ok()?, process: process.parse().ok()? })
            }
        };
        Some(Request { number: number.parse().ok()?, peer, command: Command::decode(words)? })
    }

    /// Who wants it.
    pub(crate) fn asker(&self) -> Asker {
        let whose = match &self.peer {
            Some(peer) => format!("user {}, process {}", peer.user, peer.process),
            None => "an unknown process".into(),
        };
        Asker { number: self.number, whose }
    }
}

/// Who waits for the answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asker {
    /// That of the request.
    pub(crate) number: u64,
    /// Who it is, for the log.
    pub(crate) whose: String,
}

/// Whether a key or a value is of the characters that such have, and not too long.
fn is_word(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._+".contains(&b);
    (1..=WORD_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

/// Whether a text is of the characters that names of certificates have, and not too long.
fn is_name(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._*:".contains(&b);
    (1..=WORD_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

/// What the master answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It is so now.
    Done(String),
    /// It is not, and why.
    Refused(String),
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        match self {
            Reply::Done(text) | Reply::Refused(text) => text,
        }
    }

    /// A record: the number of the request, whether it is refused, and the text.
    fn encode(&self, number: u64) -> Vec<u8> {
        let mut record = number.to_ne_bytes().to_vec();
        record.push(u8::from(matches!(self, Reply::Refused(_))));
        record.extend_from_slice(self.text().as_bytes());
        record.truncate(REPLY_HEAD_BYTES + REPLY_BYTES_MAX);
        record
    }

    /// The answer to the request of this number, if it is that.
    fn decode(record: &[u8], number: u64) -> Option<Reply> {
        let (of, rest) = record.split_first_chunk()?;
        let (kind, text) = rest.split_first()?;
        let text = String::from_utf8_lossy(text).into_owned();
        let reply = if *kind == 0 { Reply::Done(text) } else { Reply::Refused(text) };
        (u64::from_ne_bytes(*of) == number).then_some(reply)
    }
}

/// In the admin process: tells the master, and waits for its answer. Blocks.
pub(crate) fn tell(master: &Channel, request: &Request) -> Reply {
    let failed = || Reply::Refused("the master does not answer".into());
    let ms = match request.command {
        Command::Upgrade => UPGRADE_MS_MOST + COMMAND_MS_MAX,
        Command::Settings => LIST_MS_MAX,
        _ => COMMAND_MS_MAX,
    };
    let until_ms = clock::monotonic_ms() + ms;
    let mut buffer = [0; REPLY_HEAD_BYTES + REPLY_BYTES_MAX];
    let mut told = net::set_timeout(master.as_fd(), Duration::from_millis(ms))
        .and_then(|()| master.send(request.encode().as_bytes(), None));
    while told.is_ok() {
        let left_ms = until_ms.saturating_sub(clock::monotonic_ms());
        if left_ms == 0 {
            break;
        }
        let received = net::set_timeout(master.as_fd(), Duration::from_millis(left_ms))
            .and_then(|()| master.receive(&mut buffer));
        match received {
            Ok((0, _)) => break,
            Ok((len, _)) => {
                // What came too late for an earlier command is not the answer to this.
                if let Some(reply) = Reply::decode(&buffer[..len], request.number) {
                    return reply;
                }
            }
            Err(error) => told = Err(error),
        }
    }
    failed()
}

/// What the admin process has sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A command.
    Asked(Request),
    /// Nothing that makes sense.
    Nothing,
    /// It has gone.
    End,
}

/// In the master: what was sent. Never waits.
pub(crate) fn receive(admin: &Channel) -> Received {
    let mut record = [0; 2 * WORD_BYTES_MAX + 64];
    match admin.receive_now(&mut record) {
        Ok(0) => Received::End,
        Ok(len) => match Request::decode(&record[..len]) {
            Some(request) => Received::Asked(request),
            None => {
                channel::say_dropped();
                Received::Nothing
            }
        },
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Received::Nothing,
        Err(_) => Received::End,
    }
}

/// In the master: answers. Never waits for an admin process that does not listen.
///
/// # Errors
/// When it has gone, or has many answers that it did not read.
pub(crate) fn reply(admin: &Channel, asker: &Asker, reply: &Reply) -> io::Result<()> {
    admin.send_now(&reply.encode(asker.number))
}

/// Times that a request is sent again to an admin process that ends before it reads it.
const TRIES_MAX: u32 = 5;

/// Asks a running server through its Unix-domain socket: the status and the text of its answer.
/// Blocks until it has answered, or until longer than it may take is over.
///
/// # Errors
/// With a message for the user.
pub fn ask(socket: &Path, method: &str, target: &str) -> Result<(u16, String), String> {
    let timeout = match target {
        UPGRADE => Duration::from_millis(UPGRADE_ANSWER_MS_MAX),
        _ => Duration::from_millis(ANSWER_MS_MAX),
    };
    ask_at(&Endpoint::Unix(socket.to_path_buf()), method, target, timeout)
}

/// The same, wherever its `--admin` is. Blocks for `timeout`, or for as long again where an answer
/// has begun.
///
/// # Errors
/// With a message for the user.
pub fn ask_at(
    admin: &Endpoint,
    method: &str,
    target: &str,
    timeout: Duration,
) -> Result<(u16, String), String> {
    let place = match admin {
        Endpoint::Tcp(address) => address.to_string(),
        Endpoint::Unix(path) => format!("unix:{}", path.display()),
    };
    let fail = |error: io::Error| failure(&error, &place, timeout);
    let start = Instant::now();
    let request = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut tries = 0;
    let stream = loop {
        let stream = match admin {
            Endpoint::Unix(path) => net::connect_unix(path, timeout),
            Endpoint::Tcp(address) => net::connect(*address, timeout),
        };
        let stream = stream.map_err(fail)?;
        // A socket that has just been connected holds as much.
        match net::send(&stream, request.as_bytes(), false) {
            Ok(_) => break stream,
            // The process has been replaced since it accepted, and has read nothing.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && tries < TRIES_MAX => {
                tries += 1;
            }
            Err(error) => return Err(fail(error)),
        }
    };
    let mut answer = Incoming::new(false);
    let (mut status, mut body) = (0, Vec::new());
    loop {
        let held = answer.held();
        match answer.next_part() {
            Part::Head(head, _) => status = head.status,
            Part::Body(bytes) => body.extend_from_slice(bytes),
            Part::End => return Ok((status, String::from_utf8_lossy(&body).into_owned())),
            Part::More if held + body.len() < ANSWER_BYTES_MAX => {
                if start.elapsed() >= timeout {
                    return Err(fail(io::ErrorKind::TimedOut.into()));
                }
                let mut piece = [0; 4096];
                let read = net::recv(&stream, &mut piece).map_err(fail)?;
                if read == 0 {
                    return Err("the server closed the connection without an answer".into());
                }
                answer.received(&piece[..read]);
            }
            other => return Err(format!("the server's answer makes no sense: {other:?}")),
        }
    }
}

/// What the user is told of a server at this place that could not be asked.
fn failure(error: &io::Error, place: &str, timeout: Duration) -> String {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!("no server listens on {place}")
        }
        io::ErrorKind::PermissionDenied => format!(
            "no permission to control the server at {place}: its owner may, and whom `admin-mode` \
             and `admin-group` let"
        ),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("{place}: no answer within {} s", timeout.as_secs_f32())
        }
        _ => format!("{place}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_listed_for_who_waits_for_them() {
        assert!(!Request::new(None, Command::Settings).is_over());
        let long_ago = |command| Request { number: 0, peer: None, command };
        assert!(long_ago(Command::Settings).is_over());
        assert!(!long_ago(Command::Reload).is_over(), "it is done, however late");
    }

    #[test]
    fn a_server_that_says_nothing_or_never_ends_is_waited_for_no_longer_than_that() {
        for drips in [false, true] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = std::thread::spawn(move || {
                let (mut client, _) = listener.accept().unwrap();
                // It ends when the client has left.
                let begun = b"HTTP/1.1 200 OK\r\nX: ";
                let drips = drips && io::Write::write_all(&mut client, begun).is_ok();
                while drips && io::Write::write_all(&mut client, b"H").is_ok() {
                    std::thread::park_timeout(Duration::from_millis(5));
                }
                // Of one that has left with something unread, the error is its end.
                let _ = io::Read::read_to_end(&mut client, &mut Vec::new());
            });
            let timeout = Duration::from_millis(500);
            let answer = ask_at(&Endpoint::Tcp(address), "GET", "/status", timeout);
            assert_eq!(answer, Err(format!("{address}: no answer within 0.5 s")));
            server.join().unwrap();
        }
    }

    #[test]
    fn a_command_crosses_unchanged_and_nothing_else_does() {
        let (admin, master) = Channel::pair().unwrap();
        for command in [
            Command::set("arch", "mt").unwrap(),
            Command::set("timeout.idle", &"9".repeat(WORD_BYTES_MAX)).unwrap(),
            Command::get("accept.limit").unwrap(),
            Command::Settings,
            Command::Reload,
            Command::Drain,
            Command::Upgrade,
            Command::certificate("renew", "*.example.org").unwrap(),
            Command::certificate("revoke", "2001:db8::1").unwrap(),
        ] {
            for peer in [None, Some(Peer { user: u32::MAX, process: i32::MAX })] {
                let request = Request { number: u64::MAX, peer, command: command.clone() };
                admin.send(request.encode().as_bytes(), None).unwrap();
                assert_eq!(receive(&master), Received::Asked(request));
            }
        }
        let long = format!("1 - - get {}", "x".repeat(WORD_BYTES_MAX + 1));
        let hostile: [&[u8]; 14] = [
            b"1 - - renew a/b",
            b"1 - - order a",
            b"- - drain",
            b"-1 - - drain",
            b"",
            b"x",
            &[0; 16],
            &[255; 16],
            b"1 - - set a",
            b"1 1 1 get a b",
            b"1 1 1 set a \n",
            b"drain",
            b"1 1 - drain",
            long.as_bytes(),
        ];
        for record in hostile {
            admin.send(record, None).unwrap();
            assert_eq!(receive(&master), Received::Nothing, "{record:?}");
        }
        drop(admin);
        assert_eq!(receive(&master), Received::End);
    }

    #[test]
    fn an_admin_process_that_does_not_listen_does_not_hold_the_master_up() {
        let (_admin, master) = Channel::pair().unwrap();
        let answer = Reply::Done("x".repeat(REPLY_BYTES_MAX));
        let asker = Asker::default();
        assert!((0..100_000).any(|_| reply(&master, &asker, &answer).is_err()));
    }

    #[test]
    fn a_late_answer_is_not_taken_for_the_next_one() {
        let (admin, master) = Channel::pair().unwrap();
        let [earlier, request] = [Command::Settings, Command::Reload].map(|command| {
            let request = Request::new(None, command);
            (request.asker(), request)
        });
        let late = Reply::Done("late".into());
        reply(&master, &earlier.0, &late).unwrap();
        std::thread::scope(|scope| {
            let (asker, request) = request;
            let asked = scope.spawn(move || tell(&admin, &request));
            net::wait_readable(master.as_fd(), 10_000).unwrap();
            assert!(matches!(receive(&master), Received::Asked(_)));
            reply(&master, &earlier.0, &late).unwrap();
            reply(&master, &asker, &Reply::Refused("new".into())).unwrap();
            assert_eq!(asked.join().unwrap(), Reply::Refused("new".into()));
        });
    }

    #[test]
    fn only_plain_words_make_a_command() {
        for (key, value) in [("a b", "1"), ("", "1"), ("a", ""), ("a", "x\ny"), ("a", "\u{e9}")] {
            assert!(Command::set(key, value).is_err(), "{key} {value}");
        }
        assert!(Command::get("a/b").is_err());
    }
}
