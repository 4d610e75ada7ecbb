//! What a worker is told, and passes on to its connections.

/// What the master tells a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The server stops: refuse new connections, close idle ones, finish what is under way.
    Stop,
    /// Another generation of workers takes the listening sockets over: leave them as they are,
    /// and close each connection after its next answer.
    Retire,
}
