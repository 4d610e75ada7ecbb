//! What a connection holds while it has something to do, lent to it by its thread.

use std::sync::{Arc, Mutex, PoisonError};

use flyball_observe::log::OpenLines;
use flyball_site::Out;

use crate::exchange::Exchange;
use crate::input::Input;
use crate::times::RequestTimes;
use crate::transport::SecureBuffers;
use crate::window::SendWindow;

/// Sets of buffers kept for reuse when no connection needs them, by a thread of control.
const SPARE_BUFFERS_MAX: usize = 64;

/// The same by threads that share them. Under load each connection between two of their stages has
/// a set: with 256 connections, a reply of 20 kB cost `watpipe` 34 us of CPU time when 64 were kept
/// and the others made each time, and 23 us with these (one CPU, Linux 6.18).
const COMMON_SPARE_BUFFERS_MAX: usize = 256;

/// The buffers of a connection that is not idle.
#[derive(Debug)]
pub struct Buffers {
    /// Bytes received and not yet consumed.
    pub input: Input,
    /// What is to be sent.
    pub out: Out,
    /// What is known of the file at its front.
    pub window: SendWindow,
    /// Of the requests whose answers go there.
    pub times: RequestTimes,
    /// Of the access log, of answers that have not ended.
    pub lines: OpenLines,
    /// Those of TLS; kept with them for the next connection that needs them.
    pub secure: Option<Box<SecureBuffers>>,
}

impl Buffers {
    /// True when they hold nothing that is still needed.
    pub fn are_empty(&self) -> bool {
        let is_open = self.input.is_empty() && self.out.is_empty();
        is_open && self.secure.as_ref().is_none_or(|secure| secure.is_empty())
    }

    /// Their connection has none from now on: what is known of its request stays with that.
    pub fn leave_to(&mut self, exchange: &mut Exchange) {
        exchange.times = self.times;
        if !self.lines.is_empty() {
            exchange.lines = std::mem::take(&mut self.lines);
        }
    }

    /// Their connection has them again.
    pub fn take_over(&mut self, exchange: &mut Exchange) {
        self.times = std::mem::take(&mut exchange.times);
        if !exchange.lines.is_empty() {
            self.lines = std::mem::take(&mut exchange.lines);
        }
    }

    /// The input with those of TLS.
    pub fn secured(&mut self) -> (&mut Input, &mut SecureBuffers) {
        (&mut self.input, self.secure.get_or_insert_with(SecureBuffers::new))
    }

    /// The output with those of TLS, which a set has not that was lent after the request.
    pub fn sealing(&mut self) -> (&Out, &mut SecureBuffers) {
        (&self.out, self.secure.get_or_insert_with(SecureBuffers::new))
    }
}

/// Spare buffers of threads that hand connections to each other: what one takes out another gives
/// back.
#[expect(clippy::vec_box, reason = "a connection holds one pointer, idle or not")]
#[derive(Debug, Default)]
pub struct SpareBuffers(Mutex<Vec<Box<Buffers>>>);

/// Buffers that a thread of control lends, and those that it keeps to lend them again.
#[derive(Debug, Default)]
pub struct Lender {
    #[expect(clippy::vec_box, reason = "a connection holds one pointer, idle or not")]
    spare: Vec<Box<Buffers>>,
    common: Option<Arc<SpareBuffers>>,
    /// Exchanges, to be used again.
    #[expect(clippy::vec_box, reason = "a connection holds one pointer, idle or not")]
    exchanges: Vec<Box<Exchange>>,
}

impl Lender {
    /// Takes spare buffers from these from now on, and gives them back there.
    pub fn share(&mut self, common: &Arc<SpareBuffers>) {
        self.common = Some(Arc::clone(common));
    }

    /// Buffers that hold a head of so many bytes, and one more.
    pub fn lend(&mut self, head_bytes_max: usize) -> Box<Buffers> {
        let spare = match &self.common {
            Some(common) => common.0.lock().unwrap_or_else(PoisonError::into_inner).pop(),
            None => self.spare.pop(),
        };
        spare.unwrap_or_else(|| {
            let input = Input::new(head_bytes_max + 1);
            let (window, times) = (SendWindow::default(), RequestTimes::default());
            let (out, lines) = (Out::new(), OpenLines::default());
            Box::new(Buffers { input, out, window, times, lines, secure: None })
        })
    }

    /// Takes buffers back from a connection that is idle or over.
    pub fn take_back(&mut self, mut buffers: Box<Buffers>) {
        buffers.input.clear();
        buffers.out.clear();
        (buffers.window, buffers.times) = (SendWindow::default(), RequestTimes::default());
        debug_assert!(buffers.lines.is_empty(), "lines of the log would be lost");
        if let Some(secure) = &mut buffers.secure {
            secure.clear();
        }
        let mut common = self
            .common
            .as_ref()
            .map(|common| common.0.lock().unwrap_or_else(PoisonError::into_inner));
        let (spare, most) = match &mut common {
            Some(common) => (&mut **common, COMMON_SPARE_BUFFERS_MAX),
            None => (&mut self.spare, SPARE_BUFFERS_MAX),
        };
        if spare.len() < most {
            spare.push(buffers);
        }
    }

    /// The exchange of a connection, which has one from now on.
    pub fn exchange<'a>(&mut self, of: &'a mut Option<Box<Exchange>>) -> &'a mut Exchange {
        of.get_or_insert_with(|| self.exchanges.pop().unwrap_or_default())
    }

    /// Takes the exchange of a connection back when nothing is left to be done or told of it.
    pub fn end_exchange(&mut self, of: &mut Option<Box<Exchange>>) {
        if let Some(mut exchange) = of.take_if(|one| one.is_over())
            && self.exchanges.len() < SPARE_BUFFERS_MAX
        {
            *exchange = Exchange::default();
            self.exchanges.push(exchange);
        }
    }

    /// Keeps none.
    pub fn rest(&mut self) {
        (self.spare, self.exchanges) = (Vec::new(), Vec::new());
    }
}
