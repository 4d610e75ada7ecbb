//! A module in Rust: it counts visits, adds up a body while it comes, streams, and sleeps.
//!
//! `cargo build --release -p flyball-example-module` makes `libflyball_example_module.so`.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use flyball_module::{Exchange, Module, Open, Pending, Refused, Setup, Turn, Wake};

flyball_module::export!(Visits);

/// Bytes of a streamed answer, and of each piece of it.
const STREAM_BYTES: usize = 1 << 20;
const PIECE_BYTES: usize = 32 * 1024;

/// Counts visits.
#[derive(Debug)]
pub struct Visits {
    counters: &'static [AtomicU64],
}

impl Open for Visits {
    fn open(setup: &mut dyn Setup) -> Result<Visits, String> {
        if let Some((key, _)) = setup.options().first() {
            return Err(format!("it has no option {key}"));
        }
        Ok(Visits { counters: setup.counters(1)? })
    }
}

impl Module for Visits {
    fn answer(&self, exchange: &mut dyn Exchange) -> Turn {
        match exchange.below() {
            b"/sum" => Box::new(Sum { bytes: 0, sum: 0 }).go_on(exchange),
            b"/stream" => Box::new(Stream { left: STREAM_BYTES }).go_on(exchange),
            // Only where the setting `blocking` is on: an event loop would sleep as well.
            b"/sleep" => {
                std::thread::park_timeout(Duration::from_secs(1));
                ended(text(exchange, "slept\n"))
            }
            b"/panic" => panic!("as it was asked to"),
            _ => {
                let visit = self.counters[0].fetch_add(1, Relaxed) + 1;
                ended(text(exchange, &format!("visit {visit}\n")))
            }
        }
    }
}

/// Adds the bytes of a body up.
struct Sum {
    bytes: u64,
    sum: u64,
}

impl Pending for Sum {
    fn go_on(mut self: Box<Self>, exchange: &mut dyn Exchange) -> Turn {
        let body = exchange.body();
        let len = body.len();
        self.bytes += len as u64;
        self.sum += body.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        exchange.take(len);
        if !exchange.body_ended() {
            return Turn::Wait(Wake::Body, self);
        }
        ended(text(exchange, &format!("{} bytes, sum {}\n", self.bytes, self.sum)))
    }
}

/// Writes as fast as the client reads.
struct Stream {
    left: usize,
}

impl Pending for Stream {
    fn go_on(mut self: Box<Self>, exchange: &mut dyn Exchange) -> Turn {
        let len = self.left.min(PIECE_BYTES);
        self.left -= len;
        match exchange.write(&vec![b's'; len]) {
            Err(_) => Turn::Failed,
            Ok(()) if self.left == 0 => Turn::Done,
            Ok(()) => Turn::Wait(Wake::Room, self),
        }
    }
}

fn text(exchange: &mut dyn Exchange, text: &str) -> Result<(), Refused> {
    exchange.add_field(b"Content-Type", b"text/plain; charset=utf-8")?;
    exchange.write(text.as_bytes())
}

fn ended(written: Result<(), Refused>) -> Turn {
    match written {
        Ok(()) => Turn::Done,
        Err(_) => Turn::Failed,
    }
}
