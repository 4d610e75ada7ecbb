//! The end of a connection that leads to what answers: a server, or a program that is started for
//! one request. Who drives the connection has the link; here is what is wanted of it, and what is
//! told.

use std::io;

use flyball_site::programs::Told;
use flyball_site::{NoLink, Responder, Target, Wire, Wish};

use super::Connection;
use crate::context::Context;
use crate::needs::LinkNeed;

/// The link of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Link {
    /// It has none.
    #[default]
    None,
    /// Its responder uses it.
    Used,
    /// What has used it is gone; it may be kept for another if it `keeps`, or go on by itself.
    Left { keeps: bool },
}

impl Connection {
    fn wire(&self) -> Option<&Wire> {
        self.responder()?.wire()
    }

    fn wire_mut(&mut self) -> Option<&mut Wire> {
        self.responder_mut()?.wire_mut()
    }

    /// What is to be done with its link before that is used.
    pub(super) fn link_need(&self) -> Option<LinkNeed> {
        let wish = self.wire().and_then(Wire::wish);
        match (self.link, wish) {
            (Link::Left { keeps }, _) => Some(LinkNeed::Leave { keeps }),
            (_, Some(Wish::Open)) => Some(LinkNeed::Open),
            (Link::Used, Some(Wish::Shut)) => Some(LinkNeed::Shut),
            (Link::Used, None) => {
                let keeps = self.responder().is_some_and(|one| one.keeps_link());
                Some(LinkNeed::Leave { keeps })
            }
            (Link::Used, Some(Wish::Use(_))) | (Link::None, _) => None,
        }
    }

    /// What is to be done with a link that it has left, however it ends itself.
    pub(super) fn link_left_over(&self) -> Option<LinkNeed> {
        let Link::Left { keeps } = self.link else { return None };
        Some(LinkNeed::Leave { keeps })
    }

    /// What it is used for.
    pub(super) fn link_use(&self) -> Option<Wish> {
        self.wire().filter(|_| self.link == Link::Used).and_then(Wire::wish)
    }

    /// This responder is let go of, and its link with it.
    pub(super) fn unlink(&mut self, responder: &dyn Responder) {
        if self.link == Link::Used {
            self.link = Link::Left { keeps: responder.keeps_link() };
        }
    }

    /// Where the link leads that it wants, in the place of the one that it has; then
    /// [`Connection::linked`], or [`Connection::link_queued`] before that.
    pub fn link_to(&self) -> Option<&Target> {
        Some(self.wire()?.target())
    }

    /// As many links are in use as may be: it waits for one, and has that wait in its place.
    pub fn link_queued(&mut self) {
        (self.again, self.link) = (true, Link::Used);
        if let Some(wire) = self.wire_mut() {
            wire.queued_up();
        }
    }

    /// It has its link, which was used before if that `was_idle`; or there is none for it.
    pub fn linked(&mut self, was_idle: Result<bool, NoLink>, cx: &Context) {
        self.again = true;
        self.link = match (&was_idle, self.responder().is_some()) {
            (Ok(_), true) => Link::Used,
            (Ok(_), false) => Link::Left { keeps: false },
            (Err(_), _) => Link::None,
        };
        if let Some(responder) = self.responder_mut() {
            responder.linked(was_idle, &cx.now);
        }
    }

    /// Where bytes of its link go; then [`Connection::link_received`].
    pub fn link_space(&mut self) -> &mut [u8] {
        self.wire_mut().map_or(&mut [], Wire::space)
    }

    /// So many bytes were put there; zero is the end of the stream.
    pub fn link_received(&mut self, received: io::Result<usize>) {
        self.again = true;
        if let Some(wire) = self.wire_mut() {
            wire.received(received);
        }
    }

    /// What is to be sent on its link.
    pub fn link_outgoing(&self) -> &[u8] {
        self.wire().map_or(&[], Wire::outgoing)
    }

    /// So many of these bytes were sent.
    pub fn link_sent(&mut self, sent: io::Result<usize>) {
        self.again = true;
        if let Some(wire) = self.wire_mut() {
            wire.sent(sent);
        }
    }

    /// The input of its program has ended.
    pub fn link_shut(&mut self) {
        self.again = true;
        if let Some(wire) = self.wire_mut() {
            wire.shut();
        }
    }

    /// Its program has written this to its error output; nothing is the end of that.
    pub fn link_said(&mut self, bytes: &[u8]) {
        if let Some(wire) = self.wire_mut() {
            wire.said(bytes);
        }
    }

    /// How its program has ended, before the end of its output is told if that is known by then;
    /// nothing when the process that would tell it is gone.
    pub fn link_told(&mut self, told: Option<Told>) {
        self.again = true;
        if let Some(wire) = self.wire_mut() {
            wire.told(told);
        }
    }

    /// Its link was given back, or closed.
    pub fn link_left(&mut self) {
        (self.again, self.link) = (true, Link::None);
    }
}
