//! The life of a pipeline: its threads start, the worker's main thread waits for orders, and when
//! all is closed or time is up the threads end.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;

use flyball_conn::RequestLog;
use flyball_http::Now;
use flyball_sys::error_log::Level;
use flyball_sys::readiness::{self, Interest};
use flyball_sys::{clock, process, say};

use super::pipeline::Pipeline;
use crate::end::End;
use crate::worker::{BLOCKING_TICK_MS, Report, Worker};

/// How long threads have to end at the drain deadline: a blocking send may last a tick.
const ENDING_MS_MAX: u64 = 2 * BLOCKING_TICK_MS;

/// Starts a thread, bound to a CPU or floating. Without any of them the pipeline would stand still,
/// so that the worker ends with an error when one does, and the master starts it anew.
pub(crate) fn spawn(
    name: &str,
    pin: Option<usize>,
    body: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let said = name.to_owned();
    std::thread::Builder::new().name(name.into()).spawn(move || {
        let _whole = Whole;
        if let Err(error) = pin.map_or(Ok(()), process::pin).and_then(|()| body()) {
            say!(Level::Error, "{said}: {error}");
            process::exit_now(1);
        }
    })
}

/// Ends the worker when the thread that has it panics.
struct Whole;

impl Drop for Whole {
    fn drop(&mut self) {
        if std::thread::panicking() {
            process::exit_now(1);
        }
    }
}

/// Serves until the worker is told to end, and until every thread has ended. `start` starts them
/// and gives those of the acceptors. Blocks.
///
/// # Errors
/// When a thread cannot be started, or the kernel refuses a wait.
pub(crate) fn conduct(
    worker: &Worker,
    pipeline: &Pipeline,
    start: impl FnOnce() -> io::Result<Vec<JoinHandle<()>>>,
) -> io::Result<Report> {
    let served = start().and_then(|acceptors| {
        worker.enter_loop();
        serve(worker, pipeline, acceptors)
    });
    let unfinished = pipeline.open();
    pipeline.end();
    // A thread that the disk does not let go of ends with the process.
    let end = End::in_ms(ENDING_MS_MAX);
    wait_until(end, worker, pipeline, |_| pipeline.running.load(SeqCst) == 0)?;
    let mut log = RequestLog::new(&worker.log);
    let now = Now::new(clock::monotonic_ms(), clock::unix_ms());
    pipeline.cut_off(&mut log, &now);
    served.map(|()| Report { unfinished })
}

/// Waits for orders, and then until all is closed or time is up.
fn serve(worker: &Worker, pipeline: &Pipeline, acceptors: Vec<JoinHandle<()>>) -> io::Result<()> {
    let mut order = None;
    wait_until(End::in_ms(u64::MAX), worker, pipeline, |_| {
        order = worker.order();
        order.is_some()
    })?;
    let Some(order) = order else { return Ok(()) };
    let end = End::in_ms(worker.settings.drain_ms);
    pipeline.drain_until_ms.store(end.at_ms(), SeqCst);
    pipeline.give(order);
    for acceptor in acceptors {
        let _ = acceptor.join();
    }
    worker.leave_listeners(order);
    wait_until(end, worker, pipeline, |end| {
        pipeline.drain_until_ms.store(end.at_ms(), SeqCst);
        while let Some(order) = worker.order() {
            pipeline.give(order);
        }
        pipeline.open() == 0
    })
}

/// Waits for signals and for what changes in the pipeline until `is_done`, or until the end.
fn wait_until(
    mut end: End,
    worker: &Worker,
    pipeline: &Pipeline,
    mut is_done: impl FnMut(End) -> bool,
) -> io::Result<()> {
    let mut mechanism = readiness::open("poll")?;
    mechanism.add(worker.signals.as_fd(), 0, Interest::READ)?;
    mechanism.add(pipeline.changed.as_fd(), 1, Interest::READ)?;
    while !is_done(end) {
        let now_ms = clock::monotonic_ms();
        if end.look(now_ms) {
            break;
        }
        let left_ms = end.at_ms() - now_ms;
        mechanism.wait(&mut Vec::new(), i32::try_from(left_ms).unwrap_or(-1))?;
        pipeline.changed.clear();
    }
    Ok(())
}
