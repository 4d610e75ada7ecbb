//! What happens to a connection, written down once and played in many ways.

use flyball_http::h1::state::State;
use flyball_http::{Body, CloseReason, Limits};

use crate::driver::{Driver, Reply, text};

/// Lines that every answer of these tests begins with, after its status line.
pub const COMMON: &str = "Server: flyball\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Act {
    /// These bytes come.
    Send(Vec<u8>),
    /// The client closes its side.
    Finish,
    /// The driver learns that the client closed its side while nothing is read.
    HangUp,
    /// Milliseconds pass.
    Wait(u64),
    /// The delayed answer is there.
    Release,
    /// An answer comes that is not awaited.
    Late,
    /// A piece comes that is not awaited.
    LatePiece,
    /// The server drains.
    Drain,
    /// Others take over.
    Retire,
    /// The socket fails.
    Abort,
    /// The socket takes so many bytes more.
    Room(u64),
    /// The socket still holds so many bytes.
    InSocket(u64),
}

/// Bytes that come from the client.
pub fn send(bytes: impl AsRef<[u8]>) -> Act {
    Act::Send(bytes.as_ref().to_vec())
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// All that was put out.
    pub wire: String,
    /// Why the connection is closed, if it is.
    pub closed: Option<CloseReason>,
    /// Where it stands.
    pub state: State,
}

/// Limits that small tests can reach.
pub fn limits() -> Limits {
    Limits {
        target_bytes_max: 256,
        head_bytes_max: 1024,
        fields_max: 8,
        body_bytes_max: 2048,
        drain_bytes_max: 64,
        linger_bytes_max: 512,
        pipeline_max: 4,
        head_ms: 1_000,
        idle_ms: 5_000,
        answer_ms: 3_000,
        linger_ms: 200,
        linger_ms_max: 1_000,
        rate_window_ms: 1_000,
        body_rate_min: 8,
        send_rate_min: 100,
        keeps_slow: false,
        ..Limits::default()
    }
}

/// Plays the script whole, then split before every byte in turn, then byte by byte, each with
/// writes of any length, of 7 bytes and of 1; all must end alike.
pub fn play(acts: &[Act]) -> End {
    play_with(&limits(), acts)
}

/// The same with other limits.
pub fn play_with(limits: &Limits, acts: &[Act]) -> End {
    let whole = once(limits, acts, usize::MAX);
    let lens = acts.iter().map(|act| if let Act::Send(bytes) = act { bytes.len() } else { 0 });
    for write_max in [usize::MAX, 7, 1] {
        for at in 1..lens.clone().sum() {
            let split = once(limits, &split_at(acts, at), write_max);
            assert_eq!(split, whole, "split before byte {at}, writes of {write_max}: {acts:?}");
        }
        let bytewise = acts.iter().flat_map(single_bytes).collect::<Vec<_>>();
        let split = once(limits, &bytewise, write_max);
        assert_eq!(split, whole, "byte by byte, writes of {write_max}: {acts:?}");
    }
    whole
}

/// Plays the script in one way and looks at the driver afterwards.
pub fn drive(limits: &Limits, acts: &[Act], write_max: usize) -> Driver {
    let mut driver = Driver::new(limits.clone());
    driver.write_max = write_max;
    for act in acts {
        match act {
            Act::Send(bytes) => driver.receive(bytes),
            Act::Finish => driver.finish(),
            Act::HangUp => driver.hang_up(),
            Act::Wait(ms) => driver.wait(*ms),
            Act::Release => assert!(driver.release(), "no answer was delayed"),
            Act::Late => driver.answer_late(),
            Act::LatePiece => driver.piece_late(),
            Act::Drain => driver.drain(),
            Act::Retire => driver.retire(),
            Act::Abort => driver.abort(CloseReason::SocketError),
            Act::Room(room) => driver.open(*room),
            Act::InSocket(bytes) => driver.in_socket = *bytes,
        }
    }
    driver
}

/// What the site's answer to `path` looks like in a 1.1 connection that is kept.
pub fn kept(path: &str) -> String {
    answer(path, "")
}

/// The same with the fields that depend on the connection.
pub fn answer(path: &str, connection: &str) -> String {
    let reply = Reply::to(path.as_bytes());
    let (framing, content) = match reply.body {
        Body::Stream { len: Some(len) } => (format!("Content-Length: {len}\r\n"), reply.content()),
        Body::Stream { len: None } => ("Transfer-Encoding: chunked\r\n".into(), reply.chunks()),
        _ => (String::new(), reply.content()),
    };
    let (fields, content) = (text(reply.fields.lines().h1()), text(&content));
    format!("HTTP/1.1 200 OK\r\n{COMMON}{connection}{framing}{fields}\r\n{content}")
}

/// The same to HTTP/1.0 when its length is not known: the last answer of a connection.
pub fn until_close(path: &str) -> String {
    let reply = Reply::to(path.as_bytes());
    let content = text(&reply.content());
    format!("HTTP/1.1 200 OK\r\n{COMMON}Connection: close\r\n\r\n{content}")
}

/// The last answer of a connection.
pub fn last(path: &str) -> String {
    answer(path, "Connection: close\r\n")
}

fn once(limits: &Limits, acts: &[Act], write_max: usize) -> End {
    let driver = drive(limits, acts, write_max);
    assert!(
        driver.batch_max <= usize::from(limits.pipeline_max),
        "{} answers were gathered",
        driver.batch_max
    );
    End { wire: driver.text(), closed: driver.closed, state: driver.state() }
}

/// The script with one more boundary, before the byte `at` of all that is sent.
fn split_at(acts: &[Act], at: usize) -> Vec<Act> {
    let mut left = at;
    let mut split = Vec::new();
    for act in acts {
        match act {
            Act::Send(bytes) if left > 0 && left < bytes.len() => {
                split.extend([send(&bytes[..left]), send(&bytes[left..])]);
                left = 0;
            }
            Act::Send(bytes) => {
                left = left.saturating_sub(bytes.len());
                split.push(act.clone());
            }
            _ => split.push(act.clone()),
        }
    }
    split
}

fn single_bytes(act: &Act) -> Vec<Act> {
    match act {
        Act::Send(bytes) => bytes.iter().map(|byte| send([*byte])).collect(),
        _ => vec![act.clone()],
    }
}
