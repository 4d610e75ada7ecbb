//! Load from more than one machine.
//!
//! On each client host `flyball load --agent ADDRESS` waits. `flyball load --agents A,B ...` gives
//! each of them the same command line and its share of the load, starts them together, and merges
//! what they counted: distributions are added, never averaged. An agent that is lost makes the run
//! void.
//!
//! They speak JSON, an object on each line. An agent generates load for whoever can connect to it:
//! it belongs on an address that only the coordinator reaches.

mod coordinate;
mod serve;

pub use coordinate::coordinate;
pub use serve::serve;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// The version of the protocol.
const VERSION: u64 = 5;

/// Between two signs of life of an agent.
const ALIVE_EVERY: Duration = Duration::from_millis(500);

/// Silence after which an agent counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(5);

/// Longest line from a coordinator, in bytes.
const ORDER_BYTES_MAX: u64 = 1 << 20;

/// Longest line from an agent, in bytes: the counts of a long run, second by second.
const RESULT_BYTES_MAX: u64 = 1 << 28;

/// Lines of JSON over a connection.
struct Lines {
    reader: BufReader<TcpStream>,
    bytes_max: u64,
    /// What came of a line before a wait was over.
    begun: Vec<u8>,
}

/// What came.
enum Line {
    /// An object.
    Said(Value),
    /// Nothing in the time that was given.
    Silence,
    /// The end of the connection.
    End,
}

impl Lines {
    fn new(stream: TcpStream, bytes_max: u64) -> Lines {
        Lines { reader: BufReader::new(stream), bytes_max, begun: Vec::new() }
    }

    /// The next line; waits for `wait` at most.
    fn next(&mut self, wait: Duration) -> io::Result<Line> {
        self.reader.get_ref().set_read_timeout(Some(wait))?;
        let room = self.bytes_max.saturating_sub(self.begun.len() as u64);
        match (&mut self.reader).take(room).read_until(b'\n', &mut self.begun) {
            Ok(_) => {}
            Err(error) if is_timeout(&error) => return Ok(Line::Silence),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(Line::End),
            Err(error) => return Err(error),
        }
        if !self.begun.ends_with(b"\n") {
            return if self.begun.len() as u64 >= self.bytes_max {
                Err(io::Error::other("a line is too long"))
            } else {
                Ok(Line::End)
            };
        }
        let value = serde_json::from_slice(&self.begun).map_err(io::Error::other)?;
        self.begun.clear();
        Ok(Line::Said(value))
    }

    fn say(&mut self, value: &Value) -> io::Result<()> {
        let line = format!("{value}\n");
        self.reader.get_mut().write_all(line.as_bytes())
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
