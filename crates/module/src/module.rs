//! What a module implements, and what it says when it has had its turn.

use std::sync::atomic::AtomicU64;

use crate::exchange::Exchange;

/// A module: answers requests in the server's process.
pub trait Module: Send + Sync {
    /// Answers a request, as far as that goes without waiting. It is called once the head of the
    /// request is there; the body may be on its way.
    fn answer(&self, exchange: &mut dyn Exchange) -> Turn;
}

/// A module that makes itself of its options.
pub trait Open: Module + Sized + 'static {
    /// Whether its calls may block: they are then made where the architecture does disk work.
    const BLOCKS: bool = false;

    /// Makes the instance that answers. With `load = "start"` it is called in the master, with the
    /// rights that the server was started with, and processes that answer have copies of what it
    /// makes. With `load = "first-use"` it is called in each of those processes, with the few
    /// rights that they have.
    ///
    /// It must not start threads with `load = "start"`: a copy of the process has none of them.
    ///
    /// # Errors
    /// What is wrong, in a sentence: the server does not start then, or answers with 500.
    fn open(setup: &mut dyn Setup) -> Result<Self, String>;
}

/// What a module finds when it is made.
pub trait Setup {
    /// The `options` of the configuration, in their order.
    fn options(&self) -> &[(String, String)];

    /// Counters in memory that all processes share when they are asked for with `load = "start"`,
    /// zero at first, which stay as long as any process does.
    ///
    /// # Errors
    /// When there are too many of them, or memory is out.
    fn counters(&mut self, count: usize) -> Result<&'static [AtomicU64], String>;

    /// The value of an option.
    fn option(&self, key: &str) -> Option<&str> {
        self.options().iter().rev().find(|(known, _)| known == key).map(|(_, value)| &**value)
    }
}

/// How a call of a module ended.
#[derive(Debug)]
pub enum Turn {
    /// The answer is complete.
    Done,
    /// There will be no answer: 500, or the end of the connection when some of it is sent.
    Failed,
    /// What was written is sent, and this goes on with the answer later.
    Wait(Wake, Box<dyn Pending>),
}

/// What the rest of an answer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// More of the request body, or its end.
    Body,
    /// Room: most of what was written has left.
    Room,
    /// A time, in milliseconds; at most [`crate::abi::WAIT_MS_MAX`].
    After(u64),
}

/// The rest of an answer. It is dropped when it is not wanted any more.
pub trait Pending: Send {
    /// Goes on, as [`Module::answer`] began.
    fn go_on(self: Box<Self>, exchange: &mut dyn Exchange) -> Turn;
}

impl std::fmt::Debug for dyn Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pending")
    }
}

/// A function that goes on is enough.
impl<F: FnOnce(&mut dyn Exchange) -> Turn + Send> Pending for F {
    fn go_on(self: Box<Self>, exchange: &mut dyn Exchange) -> Turn {
        self(exchange)
    }
}
