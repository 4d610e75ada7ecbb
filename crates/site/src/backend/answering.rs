//! The answer of a backend on its way back: its head, its content, and how it has ended.

use bytes::BytesMut;
use flyball_http::Now;

use super::content::Content;
use super::own_link::OwnLink;
use super::{Failure, Flow};
use crate::backend_settings::BackendLimits;
use crate::plan::Plan;
use crate::reply::{HEAD_BYTES_MAX, Reply, head_len};

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A head, after which the content follows.
    Reply(Box<Reply>),
    /// None.
    Failed(Failure),
}

#[derive(Debug, Default)]
pub(super) enum Phase {
    /// The head is awaited.
    #[default]
    Head,
    /// It is there, or will not be.
    Told(Outcome),
    /// The content follows.
    Body,
    /// All is said.
    Over,
}

/// An answer.
#[derive(Debug, Default)]
pub(super) struct Answering {
    pub(super) phase: Phase,
    /// Bytes of it that are not passed on.
    pub(super) content: Content,
    /// The link has given all.
    pub(super) at_end: bool,
    /// Why that is not all of the answer, if it is not.
    pub(super) broken: Option<Failure>,
    /// Since when all has come but how its program ended, in monotonic milliseconds.
    untold_ms: Option<u64>,
    /// Bytes of content that the head promised and that have not come; `None` when it did not say,
    /// or is not there.
    left: Option<u64>,
    /// Bytes that came.
    output: u64,
}

/// What a link has brought.
pub(super) struct Pulled {
    pub(super) flow: Flow,
    /// More came than the head says, and was dropped.
    pub(super) has_surplus: bool,
}

impl Answering {
    /// Takes of the link what it has.
    ///
    /// # Errors
    /// Why there is no more of the answer.
    pub(super) fn pull(
        &mut self,
        link: &mut OwnLink,
        limits: &BackendLimits,
        now: &Now,
    ) -> Result<Pulled, (Failure, String)> {
        let tail = self.content.tail(limits.buffer_bytes);
        let before = tail.len();
        let flow = link.pull(tail);
        let came = tail.len() - before;
        let has_surplus = cut_surplus(&mut self.left, tail, came);
        self.output += came as u64;
        let flow = match flow {
            // It is whole: what befalls its program or its link afterwards means nothing.
            Err(_) if self.left == Some(0) => {
                link.cut();
                Flow::End
            }
            flow => flow?,
        };
        self.at_end |= flow == Flow::End || has_surplus;
        if flow == Flow::Untold {
            self.untold_ms.get_or_insert(now.ms());
            // As long as its head says, it is whole, however its program ends.
            self.at_end |= self.left == Some(0);
        }
        match limits.output_max {
            Some(most) if self.output > most && !has_surplus => {
                Err((Failure::Malformed, format!("its answer is longer than {most} bytes")))
            }
            _ => Ok(Pulled { flow, has_surplus }),
        }
    }

    /// Looks for the head in what came; false while more of it must come.
    ///
    /// # Errors
    /// Why there will be none.
    pub(super) fn read_head(&mut self) -> Result<bool, (Failure, String)> {
        if !matches!(self.phase, Phase::Head) {
            return Ok(true);
        }
        let came = self.content.memory();
        let Some(len) = head_len(came) else {
            if came.len() > HEAD_BYTES_MAX {
                return Err((Failure::Malformed, "its head is too long".to_owned()));
            }
            if self.at_end {
                return Err((Failure::Gone, "it ended within its head".to_owned()));
            }
            return Ok(false);
        };
        let head = came.split_to(len);
        let reply = Reply::parse(&head)
            .map_err(|why| (Failure::Malformed, format!("its head has {why}")))?;
        self.phase = Phase::Told(Outcome::Reply(Box::new(reply)));
        Ok(true)
    }

    /// Whether the head is there, and what the link brings by now may still be told with it.
    pub(super) fn may_gather(&mut self) -> bool {
        let is_reply = matches!(self.phase, Phase::Told(Outcome::Reply(_)));
        is_reply && self.has_room_for_head() && !self.at_end
    }

    /// Whether fewer bytes wait than a head may have.
    pub(super) fn has_room_for_head(&mut self) -> bool {
        self.content.memory().len() < HEAD_BYTES_MAX
    }

    /// What came of the request, once the head is there or will not be.
    pub(super) fn take_outcome(&mut self) -> Outcome {
        match std::mem::replace(&mut self.phase, Phase::Body) {
            Phase::Told(Outcome::Failed(failure)) => {
                self.phase = Phase::Over;
                Outcome::Failed(failure)
            }
            Phase::Told(outcome) => outcome,
            _ => Outcome::Failed(Failure::Gone),
        }
    }

    /// The content is as long as the head says; true when more than that came, which is dropped.
    pub(super) fn promise(&mut self, len: Option<u64>) -> bool {
        self.left = len;
        let came = self.content.memory();
        let len = came.len();
        let has_surplus = cut_surplus(&mut self.left, came, len);
        self.at_end |= has_surplus;
        has_surplus
    }

    /// Whether the content follows.
    pub(super) fn is_in_content(&self) -> bool {
        matches!(self.phase, Phase::Body)
    }

    /// Whether it has ended before all came that the head says.
    pub(super) fn is_short(&self) -> bool {
        self.at_end && self.broken.is_none() && self.left.is_some_and(|left| left > 0)
    }

    /// Since when it is only not known how its program has ended.
    pub(super) fn untold_ms(&self) -> Option<u64> {
        self.untold_ms.filter(|_| !self.at_end)
    }

    /// The work with the content is done.
    ///
    /// # Errors
    /// When bytes that came are lost.
    pub(super) fn worked(&mut self, plan: Plan) -> Result<(), (Failure, String)> {
        self.content.worked(plan).map_err(|error| {
            self.content.forget();
            self.left = None;
            (Failure::Down, format!("its answer cannot be held: {error}"))
        })
    }

    /// No more of it comes. False when it is whole without, as long as its head says.
    pub(super) fn fail(&mut self, failure: Failure) -> bool {
        if self.is_in_content() && self.left == Some(0) {
            self.at_end = true;
            return false;
        }
        match self.phase {
            Phase::Head | Phase::Told(_) => self.phase = Phase::Told(Outcome::Failed(failure)),
            // What has come is passed on before it is broken off.
            Phase::Body => (self.at_end, self.broken) = (true, Some(failure)),
            Phase::Over => {}
        }
        true
    }
}

/// The last `came` bytes came where so many are `left` to come: cuts off what is too many.
fn cut_surplus(left: &mut Option<u64>, bytes: &mut BytesMut, came: usize) -> bool {
    let Some(left) = left else { return false };
    let surplus = (came as u64).saturating_sub(*left);
    *left = left.saturating_sub(came as u64);
    bytes.truncate(bytes.len() - surplus as usize);
    surplus > 0
}
