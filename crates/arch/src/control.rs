//! Changing a running server: what may be asked, how it crosses from the admin process to the
//! master and back, and the client that asks.
//!
//! The admin process reads the request from the network; the master gets one of a few commands as a
//! record of fixed length, which it checks as if the sender were hostile.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use flyball_http::Limits;
use flyball_http::h1::{Client, Event};
use flyball_sys::net;

use crate::registry;
use crate::settings::{AcceptLimit, AdminAddress};

/// Settings that may be changed while the server runs.
pub const CHANGEABLE: &[&str] = &["architecture", "accept.limit"];

/// Longest wait for the master to do what it was told: workers leave the listening sockets first.
pub(crate) const COMMAND_MS_MAX: u64 = 15_000;

/// Longest answer of the master, in bytes.
const REPLY_BYTES_MAX: usize = 8_192;

/// Longest answer that [`ask`] takes, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What the master may be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Command {
    /// Run this architecture, by its place in [`registry::ALL`].
    Architecture(usize),
    /// Accept at most so many connections in an accept phase.
    AcceptLimit(AcceptLimit),
    /// Read the configuration again.
    Reload,
    /// Accept nothing more, finish, and end.
    Drain,
    /// Let another program take over.
    Upgrade,
}

impl Command {
    /// The command that gives setting `key` this value.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn set(key: &str, value: &str) -> Result<Command, String> {
        match key {
            "architecture" => {
                let at = registry::ALL.iter().position(|arch| arch.name() == value);
                at.map(Command::Architecture)
                    .ok_or_else(|| format!("there is no architecture {value:?}"))
            }
            "accept.limit" => AcceptLimit::parse(value)
                .map(Command::AcceptLimit)
                .ok_or_else(|| format!("expected {}, found {value:?}", AcceptLimit::FORM)),
            _ => Err(format!(
                "{key:?} cannot be changed while the server runs; {} can",
                CHANGEABLE.join(" and ")
            )),
        }
    }

    fn encode(self) -> [u8; 16] {
        let (kind, value) = match self {
            Command::Architecture(at) => (1, at as u64),
            Command::AcceptLimit(limit) => (2, limit.as_f64().to_bits()),
            Command::Reload => (3, 0),
            Command::Drain => (4, 0),
            Command::Upgrade => (5, 0),
        };
        let mut record = [0; 16];
        record[..8].copy_from_slice(&u64::to_le_bytes(kind));
        record[8..].copy_from_slice(&value.to_le_bytes());
        record
    }

    fn decode(record: [u8; 16]) -> Option<Command> {
        let (kind, value) = record.split_at(8);
        let value = u64::from_le_bytes(value.try_into().ok()?);
        match u64::from_le_bytes(kind.try_into().ok()?) {
            1 => {
                let at = usize::try_from(value).ok().filter(|at| *at < registry::ALL.len())?;
                Some(Command::Architecture(at))
            }
            2 => AcceptLimit::from_f64(f64::from_bits(value)).map(Command::AcceptLimit),
            3 if value == 0 => Some(Command::Reload),
            4 if value == 0 => Some(Command::Drain),
            5 if value == 0 => Some(Command::Upgrade),
            _ => None,
        }
    }
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
}

/// In the admin process: tells the master, and waits for its answer. Blocks.
pub(crate) fn tell(master: &OwnedFd, command: Command) -> Reply {
    let failed = || Reply::Refused("the master does not answer".into());
    let timeout = Duration::from_millis(COMMAND_MS_MAX);
    let mut buffer = [0; REPLY_BYTES_MAX];
    // An answer that came too late for whoever asked is not the answer to this.
    while net::recv_now(master, &mut buffer).is_ok_and(|len| len > 0) {}
    let told = net::set_timeout(master, timeout)
        .and_then(|()| net::send(master, &command.encode(), false))
        .and_then(|_| net::recv(master, &mut buffer));
    let Ok(len @ 1..) = told else { return failed() };
    let text = String::from_utf8_lossy(&buffer[1..len]).into_owned();
    if buffer[0] == 0 { Reply::Done(text) } else { Reply::Refused(text) }
}

/// In the master: the command that was sent; `None` at the end, or for anything that is none.
pub(crate) fn receive(admin: &OwnedFd) -> Option<Command> {
    let mut record = [0; 16];
    match net::recv(admin, &mut record) {
        Ok(16) => Command::decode(record),
        _ => None,
    }
}

/// In the master: answers. Never waits for an admin process that does not listen.
///
/// # Errors
/// When it has gone, or has many answers that it did not read.
pub(crate) fn reply(admin: &OwnedFd, reply: &Reply) -> io::Result<()> {
    let mut record = vec![u8::from(matches!(reply, Reply::Refused(_)))];
    record.extend_from_slice(reply.text().as_bytes());
    record.truncate(REPLY_BYTES_MAX);
    net::send_gather_now(admin, &[io::IoSlice::new(&record)], false).map(drop)
}

/// Asks a running server through its Unix-domain socket: the status and the text of its answer.
/// Blocks until it has answered or [`COMMAND_MS_MAX`] is over twice.
///
/// # Errors
/// With a message for whoever asked.
pub fn ask(socket: &Path, method: &str, target: &str) -> Result<(u16, String), String> {
    let timeout = Duration::from_millis(2 * COMMAND_MS_MAX);
    ask_at(&AdminAddress::Unix(socket.to_path_buf()), method, target, timeout)
}

/// The same, wherever its `--admin` is; blocks for `timeout` whenever nothing comes.
///
/// # Errors
/// With a message for whoever asked.
pub fn ask_at(
    admin: &AdminAddress,
    method: &str,
    target: &str,
    timeout: Duration,
) -> Result<(u16, String), String> {
    let place = match admin {
        AdminAddress::Tcp(address) => address.to_string(),
        AdminAddress::Unix(path) => format!("unix:{}", path.display()),
    };
    let fail = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!("no server listens on {place}")
        }
        _ => format!("{place}: {error}"),
    };
    let stream = match admin {
        AdminAddress::Unix(path) => net::connect_unix(path, timeout),
        AdminAddress::Tcp(address) => net::connect(*address, timeout),
    };
    let stream = stream.map_err(fail)?;
    let request = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // A socket that has just been connected holds as much.
    net::send(&stream, request.as_bytes(), false).map_err(fail)?;
    let mut input = Vec::new();
    let mut client = Client::new(Limits::default());
    client.requested(false);
    let (mut status, mut body) = (0, Vec::new());
    loop {
        let (consumed, event) = client.recv(&input);
        input.drain(..consumed);
        match event {
            Event::Head(head) => status = head.status,
            Event::Body(ready) => {
                body.extend(input.drain(..ready));
                client.taken(ready);
            }
            Event::End => return Ok((status, String::from_utf8_lossy(&body).into_owned())),
            Event::More if input.len() + body.len() < ANSWER_BYTES_MAX => {
                let mut piece = [0; 4096];
                let read = net::recv(&stream, &mut piece).map_err(fail)?;
                if read == 0 {
                    return Err("the server closed the connection without an answer".into());
                }
                input.extend_from_slice(&piece[..read]);
            }
            other => return Err(format!("the server's answer makes no sense: {other:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_crosses_unchanged_and_nothing_else_does() {
        let (admin, master) = net::message_pair().unwrap();
        for command in [
            Command::set("architecture", "mt").unwrap(),
            Command::set("accept.limit", "inf").unwrap(),
            Command::set("accept.limit", "0.25").unwrap(),
        ] {
            net::send(&admin, &command.encode(), false).unwrap();
            assert_eq!(receive(&master), Some(command));
        }
        let hostile: [&[u8]; 4] = [b"x", &[0; 16], &[255; 16], &[1; 17]];
        for record in hostile {
            net::send(&admin, record, false).unwrap();
            assert_eq!(receive(&master), None, "{record:?}");
        }
        drop(admin);
        assert_eq!(receive(&master), None);
    }

    #[test]
    fn an_admin_process_that_does_not_listen_does_not_hold_the_master_up() {
        let (_admin, master) = net::message_pair().unwrap();
        let answer = Reply::Done("x".repeat(REPLY_BYTES_MAX));
        assert!((0..100_000).any(|_| reply(&master, &answer).is_err()));
    }

    #[test]
    fn a_late_answer_is_not_taken_for_the_next_one() {
        let (admin, master) = net::message_pair().unwrap();
        reply(&master, &Reply::Done("late".into())).unwrap();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| tell(&admin, Command::AcceptLimit(AcceptLimit::Infinite)));
            assert!(receive(&master).is_some());
            reply(&master, &Reply::Refused("new".into())).unwrap();
            assert_eq!(asked.join().unwrap(), Reply::Refused("new".into()));
        });
    }

    #[test]
    fn only_known_settings_and_values_make_a_command() {
        for (key, value) in [
            ("architecture", "none"),
            ("accept.limit", "0"),
            ("accept.limit", "x"),
            ("pin", "true"),
        ] {
            assert!(Command::set(key, value).is_err(), "{key} {value}");
        }
    }
}
