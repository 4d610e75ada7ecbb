//! What the threads of the Read stage and those of the Write stage do for a connection.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::SeqCst;

use flyball_conn::Connection;
use flyball_http::CloseReason;
use flyball_site::Plan;
use flyball_sys::owned::Owned;

use super::connection::{Line, Told};
use super::links::Parked;
use super::pipeline::Pipeline;
use super::poll::PollStage;
use super::queue::Queue;
use crate::desk::Desk;
use crate::drive::{Port, Ready};
use crate::kernel::net;
use crate::links::{Held, Pool};
use crate::transmit::{Sent, transmit};

/// What Read does: it receives and parses; the rest is Write's.
pub(crate) struct ReadPort<'a> {
    pub(crate) socket: &'a Owned,
    pub(crate) ready: &'a mut Ready,
    pub(crate) link: &'a mut Held,
    pub(crate) plan: &'a mut Option<Box<Plan>>,
    /// Where links are at rest.
    pub(crate) read_poll: &'a PollStage,
}

impl Port for ReadPort<'_> {
    const SENDS: bool = false;

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn ready(&mut self) -> &mut Ready {
        self.ready
    }

    fn link(&mut self) -> (&mut Held, impl Pool) {
        (self.link, Parked(self.read_poll))
    }

    fn receive(&mut self, space: &mut [u8], _: &Desk) -> io::Result<usize> {
        net::recv_now(self.socket, space)
    }

    fn perform(&mut self, plan: Box<Plan>, _: &mut Connection, _: &mut Desk) -> Option<Box<Plan>> {
        *self.plan = Some(plan);
        None
    }
}

/// What Write does: it performs plans, and sends what the socket takes, or all while no client is
/// late, as `send.blocking` says.
pub(crate) struct WritePort<'a> {
    pub(crate) socket: &'a Owned,
    pub(crate) ready: &'a mut Ready,
    pub(crate) link: &'a mut Held,
    pub(crate) told: &'a mut Told,
    pub(crate) pipeline: &'a Pipeline,
    /// Connections of its partition that wait for a writer.
    pub(crate) others: &'a Queue<Line>,
}

impl Port for WritePort<'_> {
    const RECEIVES: bool = false;
    const PARSES: bool = false;

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn ready(&mut self) -> &mut Ready {
        self.ready
    }

    fn link(&mut self) -> (&mut Held, impl Pool) {
        (self.link, Parked(&self.pipeline.read_poll))
    }

    fn send(&mut self, connection: &mut Connection, desk: &mut Desk) -> Sent {
        // Of one that was given up nothing more is sent.
        while !connection.is_over() {
            let sent = transmit(self.socket, connection, desk);
            match sent {
                Sent::Failed(reason) => connection.send_failed(reason, desk),
                Sent::Piece | Sent::Full if desk.settings.send_blocking => {
                    desk.tick();
                    connection.expired(|| net::unacknowledged(self.socket), desk);
                    if desk.now.ms() >= self.pipeline.drain_until_ms.load(SeqCst) {
                        connection.abort(CloseReason::Draining);
                    }
                    if sent == Sent::Full {
                        return sent;
                    }
                }
                Sent::Piece if self.others.is_empty() => desk.tick(),
                sent => return sent,
            }
        }
        Sent::All
    }

    /// Blocks.
    fn perform(
        &mut self,
        mut plan: Box<Plan>,
        connection: &mut Connection,
        desk: &mut Desk,
    ) -> Option<Box<Plan>> {
        plan.run();
        desk.tick();
        self.told.tell(self.pipeline.order(), connection);
        Some(plan)
    }
}
