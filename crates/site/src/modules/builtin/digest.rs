//! A request body that is consumed and answered with its length and CRC-32: the smallest module
//! that takes bodies. `digest-path` is its short form.

use crc32fast::Hasher;
use flyball_module::{Exchange, Module, Open, Pending, Setup, Turn, Wake};

/// Adds bodies up.
#[derive(Debug)]
pub(crate) struct Digest;

/// What was taken of a body.
#[derive(Debug, Default)]
struct Taken {
    bytes: u64,
    sum: Hasher,
}

impl Open for Digest {
    fn open(setup: &mut dyn Setup) -> Result<Digest, String> {
        match setup.options() {
            [] => Ok(Digest),
            [(key, _), ..] => Err(format!("there is no option {key}: it has none")),
        }
    }
}

impl Module for Digest {
    fn answer(&self, exchange: &mut dyn Exchange) -> Turn {
        Box::<Taken>::default().go_on(exchange)
    }
}

impl Pending for Taken {
    fn go_on(mut self: Box<Self>, exchange: &mut dyn Exchange) -> Turn {
        let came = exchange.body();
        let len = came.len();
        self.sum.update(came);
        self.bytes += len as u64;
        exchange.take(len);
        if !exchange.body_ended() {
            return Turn::Wait(Wake::Body, self);
        }
        let text = format!("bytes {} crc32 {:08x}\n", self.bytes, self.sum.finalize());
        let answered = exchange
            .add_field(b"Content-Type", b"text/plain")
            .and_then(|()| exchange.write(text.as_bytes()));
        match answered {
            Ok(()) => Turn::Done,
            Err(_) => Turn::Failed,
        }
    }
}
