//! Records that one process takes of many, each of which sends by an end of its own.
//!
//! The process that forks all of them keeps the receiving ends ([`Intake`]). It hands a copy of
//! each to the process that takes ([`Inbox`]) over a way that no sender has. What one sender does
//! to its end, closes it, shuts it down, or fills it, the ends of the others do not notice. Where
//! the process that takes dies, the next is handed all ends that are kept: what waits in them is
//! not lost.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::channel::Channel;
use crate::error_log::Level;
use crate::readiness::{Interest, Readiness};
use crate::say;

/// Most ends that are kept, and that one process takes from. Those of senders that have died count
/// while records wait in them.
pub const ENDS_MAX: usize = 8_192;

/// Room asked for ends on their way, in bytes.
const WAY_BYTES: usize = 256 * 1024;

/// Ends that are kept before they are looked at the first time.
const LOOKED_AT_MIN: usize = 16;

/// Ends that are taken from the way before others have their turn.
const ENDS_PER_TURN: usize = 64;

/// What comes with each end.
const END: &[u8] = b"E";

/// The receiving ends of all senders, where these are forked.
#[derive(Debug, Default)]
pub struct Intake(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// To the process that takes, while there is one.
    way: Option<Channel>,
    ends: Vec<End>,
    /// As many ends as there must be for a look at which of them are over.
    look_at: usize,
}

#[derive(Debug)]
struct End {
    channel: Channel,
    /// The process that takes has a copy.
    is_handed: bool,
}

impl Intake {
    /// A sender's end, with room for so many bytes of records. Its calls do not wait. Where
    /// [`ENDS_MAX`] are kept already, its other end is closed.
    ///
    /// # Errors
    /// When descriptors are out.
    pub fn admit(&self, room_bytes: usize) -> io::Result<Channel> {
        let (sender, channel) = Channel::pair()?;
        sender.set_nonblocking()?;
        sender.set_room(room_bytes)?;
        channel.set_nonblocking()?;
        let mut kept = self.kept();
        kept.forget_over();
        if kept.ends.len() < ENDS_MAX {
            kept.ends.push(End { channel, is_handed: false });
            kept.hand_over();
        } else {
            say!(Level::Error, "there are too many channels: what one process sends is lost");
        }
        Ok(sender)
    }

    /// The way of a process that is about to begin to take: all ends come over it. One that took
    /// before is handed no more.
    ///
    /// # Errors
    /// When descriptors are out.
    pub fn renew(&self) -> io::Result<Channel> {
        let (ours, theirs) = Channel::pair()?;
        ours.set_nonblocking()?;
        ours.set_room(WAY_BYTES)?;
        theirs.set_nonblocking()?;
        let mut kept = self.kept();
        kept.way = Some(ours);
        kept.ends.iter_mut().for_each(|end| end.is_handed = false);
        kept.hand_over();
        Ok(theirs)
    }

    /// Hands over what found no room on the way before; whether some is left that may find room
    /// later. Never blocks.
    pub fn hand_over(&self) -> bool {
        self.kept().hand_over()
    }

    /// What the process that takes says over its way: the bytes of it. Blocks, at most for so many
    /// milliseconds.
    ///
    /// # Errors
    /// `TimedOut`; `NotConnected` when no process takes.
    pub fn hear(&self, record: &mut [u8], timeout_ms: u64) -> io::Result<usize> {
        let kept = self.kept();
        let way = kept.way.as_ref().ok_or(ErrorKind::NotConnected)?;
        match crate::net::wait_readable(way.as_fd(), timeout_ms)? {
            true => way.receive_now(record),
            false => Err(ErrorKind::TimedOut.into()),
        }
    }

    /// Closes all of it here: to be called in every process that was forked with it.
    pub fn leave(&self) {
        *self.kept() = Kept::default();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn hand_over(&mut self) -> bool {
        let Some(way) = &self.way else { return false };
        for end in self.ends.iter_mut().filter(|end| !end.is_handed) {
            match way.send(END, Some(end.channel.as_fd())) {
                Ok(()) => end.is_handed = true,
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    // The next process is handed all of them.
                    self.way = None;
                    return false;
                }
                // There is no room, or too many descriptors are on their way.
                Err(_) => return true,
            }
        }
        false
    }

    /// Closes the ends whose senders are gone. They are looked at when there are twice as many as
    /// were left the last time.
    fn forget_over(&mut self) {
        if self.ends.len() < self.look_at.max(LOOKED_AT_MIN) {
            return;
        }
        // One that cannot be looked at is kept.
        self.ends.retain(|end| !end.channel.is_over().unwrap_or(false));
        self.look_at = self.ends.len() * 2;
    }
}

/// The ends of all senders, in the process that takes.
#[derive(Debug)]
pub struct Inbox<'a> {
    /// Where ends come from, until none can come any more.
    way: Option<&'a Channel>,
    /// By the number of their tokens; empty places are taken again.
    ends: Vec<Option<Channel>>,
    token: u64,
}

impl<'a> Inbox<'a> {
    /// Waits at this mechanism for the ends that come over this way. Tokens are its own from
    /// `token` to [`ENDS_MAX`] beyond it.
    ///
    /// # Errors
    /// When the mechanism cannot take the way.
    pub fn open(
        way: &'a Channel,
        token: u64,
        mechanism: &mut dyn Readiness,
    ) -> io::Result<Inbox<'a>> {
        mechanism.add(way.as_fd(), token, Interest::READ)?;
        Ok(Inbox { way: Some(way), ends: Vec::new(), token })
    }

    /// Whether a token is one of its own.
    pub fn has(&self, token: u64) -> bool {
        (self.token..=self.token + ENDS_MAX as u64).contains(&token)
    }

    /// Takes the records of what is ready under this token: of one sender, as many as `most`. Each
    /// is received by `take`, from the channel that it is given: true when that is over. Ends that
    /// have come are waited for from now on.
    pub fn heed(
        &mut self,
        token: u64,
        mechanism: &mut dyn Readiness,
        most: usize,
        mut take: impl FnMut(&Channel) -> io::Result<bool>,
    ) {
        let Some(at) = (token - self.token).checked_sub(1) else {
            return self.welcome(mechanism);
        };
        let Some(place) = self.ends.get_mut(at as usize) else { return };
        let Some(end) = &*place else { return };
        for _ in 0..most {
            match take(end) {
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Ok(true) | Err(_) => {
                    // Closing is not enough, since the keeper has a copy.
                    mechanism.remove(end.as_fd());
                    *place = None;
                    return;
                }
            }
        }
    }

    /// Whether nothing can come any more.
    pub fn is_over(&self) -> bool {
        self.way.is_none() && self.ends.iter().all(Option::is_none)
    }

    /// Takes the ends that have come.
    fn welcome(&mut self, mechanism: &mut dyn Readiness) {
        let Some(way) = self.way else { return };
        for _ in 0..ENDS_PER_TURN {
            match way.receive_now_with(&mut [0; END.len()]) {
                Ok((1.., ends)) => {
                    let end = ends.into_iter().next().map(Channel::from_fd);
                    if end.is_none_or(|end| self.add(end, mechanism).is_err()) {
                        say!(Level::Error, "no room for a channel: what one process sends is lost");
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                _ => {
                    mechanism.remove(way.as_fd());
                    self.way = None;
                    return;
                }
            }
        }
    }

    fn add(&mut self, end: Channel, mechanism: &mut dyn Readiness) -> io::Result<()> {
        let free = self.ends.iter().position(Option::is_none).unwrap_or(self.ends.len());
        if free == ENDS_MAX {
            return Err(ErrorKind::OutOfMemory.into());
        }
        mechanism.add(end.as_fd(), self.token + 1 + free as u64, Interest::READ)?;
        match self.ends.get_mut(free) {
            Some(place) => *place = Some(end),
            None => self.ends.push(Some(end)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apart::apart;
    use crate::readiness;
    use rustix::net::{Shutdown, shutdown};

    const TOKEN: u64 = 100;
    const ROOM: usize = 1 << 16;

    /// What a process that takes would get now, of each sender at most `most` at a time.
    fn take(inbox: &mut Inbox<'_>, mechanism: &mut dyn Readiness, most: usize) -> Vec<Vec<u8>> {
        let (mut events, mut all) = (Vec::new(), Vec::new());
        mechanism.wait(&mut events, 0).unwrap();
        for event in events {
            assert!(inbox.has(event.token));
            inbox.heed(event.token, mechanism, most, |end| {
                let mut record = [0; 8];
                let len = end.receive_now(&mut record)?;
                all.extend((len > 0).then(|| record[..len].to_vec()));
                Ok(len == 0)
            });
        }
        all
    }

    #[test]
    fn what_one_sender_does_to_its_end_no_other_notices() {
        apart(|| {
            let intake = Intake::default();
            let way = intake.renew().unwrap();
            let mut poll = readiness::open("epoll").unwrap();
            let mut inbox = Inbox::open(&way, TOKEN, &mut *poll).unwrap();
            let [good, closed, shut, deaf, odd] = [(); 5].map(|()| intake.admit(ROOM).unwrap());
            let mut take = |most| take(&mut inbox, &mut *poll, most);
            assert!(take(9).is_empty());
            closed.send(b"last", None).unwrap();
            drop(closed);
            shut.send(b"last", None).unwrap();
            shutdown(&shut, Shutdown::Both).unwrap();
            shutdown(&deaf, Shutdown::Read).unwrap();
            (0..40).for_each(|_| odd.send(b"", Some(odd.as_fd())).unwrap());
            good.send(b"good", None).unwrap();
            let mut first = take(9);
            first.sort();
            assert_eq!(first, [&b"good"[..], b"last", b"last"]);
            // It is full, and others have their turns.
            while odd.send(b"flood", None).is_ok() {}
            good.send(b"again", None).unwrap();
            let mut all = take(9);
            all.extend(take(9));
            assert!(all.iter().any(|record| record == b"again"), "{all:?}");
            deaf.send(b"deaf", None).unwrap();
            assert!(take(9).iter().any(|record| record == b"deaf"));
            assert!(shut.send(b"x", None).is_err());
        });
    }

    #[test]
    fn it_is_over_when_no_end_can_come_and_all_are_gone() {
        apart(|| {
            let intake = Intake::default();
            let way = intake.renew().unwrap();
            let mut poll = readiness::open("epoll").unwrap();
            let mut inbox = Inbox::open(&way, TOKEN, &mut *poll).unwrap();
            let [first, second] = [(); 2].map(|()| intake.admit(ROOM).unwrap());
            second.send(b"x", None).unwrap();
            drop(first);
            // Ends that were on their way count.
            intake.leave();
            assert_eq!(intake.hear(&mut [0], 0).unwrap_err().kind(), ErrorKind::NotConnected);
            take(&mut inbox, &mut *poll, 9);
            assert!(!inbox.is_over());
            drop(second);
            assert_eq!(take(&mut inbox, &mut *poll, 9), [b"x"]);
            assert!(inbox.is_over());
        });
    }

    #[test]
    fn the_next_process_is_handed_all_ends_with_what_waits_in_them() {
        apart(|| {
            let intake = Intake::default();
            let sender = intake.admit(ROOM).unwrap();
            drop(intake.renew().unwrap());
            let other = intake.admit(ROOM).unwrap();
            assert!(!intake.hand_over(), "no process takes");
            for record in [&b"a"[..], b"b"] {
                sender.send(record, None).unwrap();
            }
            other.send(b"c", None).unwrap();
            let way = intake.renew().unwrap();
            way.send(b"why", None).unwrap();
            assert_eq!(intake.hear(&mut [0; 8], 1_000).unwrap(), 3);
            assert_eq!(intake.hear(&mut [0; 8], 0).unwrap_err().kind(), ErrorKind::TimedOut);
            let mut poll = readiness::open("poll").unwrap();
            let mut inbox = Inbox::open(&way, TOKEN, &mut *poll).unwrap();
            assert!(take(&mut inbox, &mut *poll, 1).is_empty());
            let mut all = take(&mut inbox, &mut *poll, 1);
            all.extend(take(&mut inbox, &mut *poll, 1));
            all.sort();
            assert_eq!(all, [b"a", b"b", b"c"]);
        });
    }

    #[test]
    fn ends_that_find_no_room_are_handed_over_later() {
        apart(|| {
            let intake = Intake::default();
            let way = intake.renew().unwrap();
            let mut senders = Vec::new();
            while !intake.hand_over() {
                senders.push(intake.admit(0).unwrap());
                assert!(senders.len() < ENDS_MAX, "there is no bound");
            }
            let mut poll = readiness::open("epoll").unwrap();
            let mut inbox = Inbox::open(&way, TOKEN, &mut *poll).unwrap();
            while intake.hand_over() {
                take(&mut inbox, &mut *poll, 1);
            }
            take(&mut inbox, &mut *poll, 1);
            senders.last().unwrap().send(b"x", None).unwrap();
            let mut came = Vec::new();
            for _ in 0..senders.len() {
                came.extend(take(&mut inbox, &mut *poll, 1));
            }
            assert_eq!(came, [b"x"]);
        });
    }

    #[test]
    fn ends_of_senders_that_are_gone_are_kept_only_while_records_wait_in_them() {
        apart(|| {
            let intake = Intake::default();
            let sender = intake.admit(ROOM).unwrap();
            sender.send(b"x", None).unwrap();
            drop(sender);
            (0..10 * LOOKED_AT_MIN).for_each(|_| drop(intake.admit(ROOM).unwrap()));
            let kept = intake.kept();
            assert!(kept.ends.len() <= LOOKED_AT_MIN, "{}", kept.ends.len());
            assert!(!kept.ends[0].channel.is_over().unwrap());
        });
    }
}
