//! What systemd is told: that the server is ready, reloads, stops, and lives (sd_notify(3)).
//!
//! A datagram for each state, to the socket that `NOTIFY_SOCKET` names, which may be in the
//! abstract namespace. Without that variable nothing is sent. A message that finds no room is lost:
//! the master never waits for its supervisor.

use std::fmt::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::{clock, process};

/// The variable with the process that is watched.
pub const WATCHED: &str = "WATCHDOG_PID";

/// The way to whoever supervises this server, if there is somebody.
#[derive(Debug, Default)]
pub struct Notifier {
    way: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that the master lives, in milliseconds: twice as often as it
    /// asks for.
    alive_ms: Option<u64>,
    alive_due_ms: u64,
}

impl Notifier {
    /// As the environment of this process says.
    pub fn of_process() -> Notifier {
        let text = |name: &str| std::env::var(name).ok();
        let Some(way) = text("NOTIFY_SOCKET").and_then(|path| open(&path)) else {
            return Notifier::default();
        };
        let is_watched = text(WATCHED).is_none_or(|id| id == process::own_id().to_string());
        let every_us: Option<u64> = text("WATCHDOG_USEC").and_then(|us| us.parse().ok());
        let alive_ms = every_us.filter(|us| is_watched && *us > 0).map(|us| (us / 2000).max(1));
        Notifier { way: Some(way), alive_ms, alive_due_ms: 0 }
    }

    /// Whether somebody supervises this server.
    pub fn is_heard(&self) -> bool {
        self.way.is_some()
    }

    /// Serving, or serving again after a reload.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nMAINPID={}\n{}", process::own_id(), status_line(status)));
    }

    /// A reload has begun; [`Notifier::ready`] follows, however it ends.
    pub fn reloading(&self) {
        let since_us = clock::monotonic_ns() / 1000;
        let status = status_line("loading the configuration");
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={since_us}\n{status}"));
    }

    /// The server stops.
    pub fn stopping(&self) {
        self.send(&format!("STOPPING=1\n{}", status_line("finishing what is under way")));
    }

    /// Another process takes this one's place.
    pub fn replaced_by(&self, process: i32) {
        let status = status_line(&format!("process {process} has taken over"));
        self.send(&format!("MAINPID={process}\nREADY=1\n{status}"));
    }

    /// When it wants to hear again that the master lives, in monotonic milliseconds.
    pub fn due_ms(&self) -> Option<u64> {
        self.alive_ms.map(|_| self.alive_due_ms)
    }

    /// Says that the master lives, when that is due.
    pub fn alive(&mut self) {
        let now_ms = clock::monotonic_ms();
        if let Some(every_ms) = self.alive_ms.filter(|_| now_ms >= self.alive_due_ms) {
            self.send("WATCHDOG=1");
            self.alive_due_ms = now_ms + every_ms;
        }
    }

    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.way {
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

fn open(path: &str) -> Option<(UnixDatagram, SocketAddr)> {
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(path),
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    Some((socket, address.ok()?))
}

fn status_line(status: &str) -> String {
    let mut line = String::from("STATUS=");
    let _ = write!(line, "{}", status.replace('\n', " "));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reaches_a_socket_in_the_file_system_and_an_abstract_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("flyball-test-{}", process::own_id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        let sockets = [
            (UnixDatagram::bind(&path).unwrap(), path.display().to_string()),
            (UnixDatagram::bind_addr(&abstract_address).unwrap(), format!("@{name}")),
        ];
        for (socket, told) in sockets {
            let notifier = Notifier { way: open(&told), ..Notifier::default() };
            notifier.ready("one\ntwo");
            let mut message = [0; 200];
            let len = socket.recv(&mut message).unwrap();
            let expected = format!("READY=1\nMAINPID={}\nSTATUS=one two", process::own_id());
            assert_eq!(std::str::from_utf8(&message[..len]), Ok(expected.as_str()));
        }
        assert!(
            open("vsock:2:1").is_none_or(|(socket, to)| socket.send_to_addr(b"x", &to).is_err())
        );
        Notifier::default().stopping();
    }
}
