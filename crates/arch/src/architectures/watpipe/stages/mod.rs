//! What a pipeline of stages is made of: the connection that moves, the queues between the stages,
//! the stages in which connections wait for events, and what all threads share.

mod acceptor;
mod conduct;
mod connection;
mod links;
mod pipeline;
mod poll;
mod ports;
mod queue;

pub(crate) use acceptor::Acceptor;
pub(crate) use conduct::{conduct, spawn};
pub(crate) use connection::Line;
pub(crate) use pipeline::{Pipeline, Thread};
pub(crate) use poll::{Found, PollStage, Poller};
pub(crate) use ports::{ReadPort, WritePort};
