//! The side that generates load.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use flyball_sys::clock::monotonic_ns;
use serde_json::{Value, json};

use super::{ALIVE_EVERY, LOST_AFTER, Line, Lines, ORDER_BYTES_MAX, VERSION};
use crate::engine::Share;
use crate::job::{Job, Options};
use crate::observe::{Live, tally_to_json};

/// Longest wait between two orders of a coordinator.
const ORDER_WAIT: Duration = Duration::from_secs(60);

/// Serves coordinators on `listener`, one after the other, for ever; `parse` makes options of the
/// arguments that they send, `told` hears what happens. Blocks.
///
/// # Errors
/// When the listening socket fails.
pub fn serve(
    listener: &TcpListener,
    parse: &dyn Fn(&[String]) -> Result<Options, String>,
    told: &mut dyn FnMut(&str),
) -> io::Result<()> {
    loop {
        let (stream, peer) = listener.accept()?;
        told(&format!("{peer} coordinates"));
        match attend(stream, parse) {
            Ok(()) => told(&format!("{peer} is done")),
            Err(error) => told(&format!("{peer}: {error}")),
        }
    }
}

/// One coordinator, from its order to the result.
fn attend(
    stream: TcpStream,
    parse: &dyn Fn(&[String]) -> Result<Options, String>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(LOST_AFTER))?;
    let mut lines = Lines::new(stream, ORDER_BYTES_MAX);
    let order = said(&mut lines)?;
    let job = match prepare(&order, parse) {
        Ok(job) => job,
        Err(why) => return lines.say(&json!({ "error": why })),
    };
    let asked = job.asked();
    lines.say(&json!({
        "ready": true,
        "workload": asked.workload,
        "skipped_lines": asked.skipped_lines,
        "requests_per_session": asked.requests_per_session,
        "duration_s": asked.duration.as_secs_f64(),
        "classes": job.plan.catalog.classes,
        "notes": job.notes(),
    }))?;
    loop {
        let order = said(&mut lines)?;
        if let Some(number) = order.get("ping") {
            lines.say(&json!({ "pong": number }))?;
        } else if let Some(start_in_ns) = order.get("start_in_ns").and_then(Value::as_u64) {
            return generate(&job, monotonic_ns() + start_in_ns, &mut lines);
        } else {
            return Err(io::Error::other("an order that is not understood"));
        }
    }
}

fn said(lines: &mut Lines) -> io::Result<Value> {
    match lines.next(ORDER_WAIT)? {
        Line::Said(value) => Ok(value),
        Line::Silence => Err(io::ErrorKind::TimedOut.into()),
        Line::End => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn prepare(
    order: &Value,
    parse: &dyn Fn(&[String]) -> Result<Options, String>,
) -> Result<Job, String> {
    if order.get("flyball-load").and_then(Value::as_u64) != Some(VERSION) {
        return Err(format!(
            "this agent speaks version {VERSION}: use the same flyball everywhere"
        ));
    }
    let number = |key: &str| order.get(key)?.as_u64().and_then(|n| u32::try_from(n).ok());
    let arguments = order.get("arguments").and_then(Value::as_array);
    let (Some(arguments), Some(index), Some(of)) = (arguments, number("index"), number("of"))
    else {
        return Err("an order without arguments, index and number".into());
    };
    if index >= of {
        return Err(format!("agent {index} of {of}"));
    }
    let arguments: Vec<String> =
        arguments.iter().filter_map(|text| text.as_str().map(String::from)).collect();
    Job::prepare_share(&parse(&arguments)?, Share { index, of })
}

/// Generates from `start_ns` on, giving signs of life, until it is over or the coordinator has
/// enough of it; one that goes ends it.
fn generate(job: &Job, start_ns: u64, lines: &mut Lines) -> io::Result<()> {
    let live = Arc::new(Live::default());
    let (stop, mut has_gone) = (AtomicBool::new(false), false);
    let report = thread::scope(|scope| {
        let running = scope.spawn(|| job.run_from(start_ns, &live, &stop));
        while !running.is_finished() {
            let glance = live.glance();
            let alive =
                json!({ "alive": [glance.sent, glance.replies, glance.errors, glance.open] });
            match lines.say(&alive).and_then(|()| lines.next(ALIVE_EVERY)) {
                Ok(Line::Silence) => continue,
                Ok(Line::Said(order)) if order.get("stop").is_some() => {}
                _ => has_gone = true,
            }
            stop.store(true, Relaxed);
            break;
        }
        match running.join() {
            Ok(report) => report,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    if has_gone {
        return Err(io::Error::other("the coordinator has gone; the run was broken off"));
    }
    lines.say(&json!({
        "result": tally_to_json(&report.tally),
        "listen_drops": report.listen_drops,
        "limits": report.client_limits(),
    }))?;
    // An order that nobody has read would make the end a reset, which takes the result with it.
    while matches!(lines.next(LOST_AFTER), Ok(Line::Said(_))) {}
    Ok(())
}
