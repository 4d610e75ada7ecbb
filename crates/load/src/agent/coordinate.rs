//! The side that orders load and puts the counts together.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::Duration;

use flyball_sys::clock::{monotonic_ns, unix_ms};
use serde_json::{Value, json};

use super::{LOST_AFTER, Line, Lines, RESULT_BYTES_MAX, VERSION};
use crate::observe::{Asked, Glance, Live, Report, Tally, Window, tally_from_json};

/// Time from the order to start until the first arrival.
const LEAD_NS: u64 = 250_000_000;

/// Exchanges from which the time to each agent is told.
const PINGS: u64 = 8;

/// What an agent said when it was ready, and what it counted.
struct Outcome {
    ready: Value,
    result: Result<Counted, String>,
}

struct Counted {
    tally: Tally,
    listen_drops: Option<u64>,
    limits: Vec<String>,
}

/// What is shown of a run while it goes on, and what ends it early.
#[derive(Clone, Copy)]
struct Watch<'a> {
    live: &'a Live,
    stop: &'a AtomicBool,
}

/// Runs `arguments` on all `agents`, each its share, and merges what they counted; `live` shows
/// how they do together, and `stop` ends it early. Blocks until all are done or lost.
///
/// # Errors
/// When an agent cannot be reached, or refuses, before the start. One that is lost later makes the
/// report void instead.
pub fn coordinate(
    agents: &[String],
    arguments: &[String],
    mut asked: Asked,
    live: &Live,
    stop: &AtomicBool,
) -> Result<Report, String> {
    let mut ready = Vec::new();
    for (index, agent) in agents.iter().enumerate() {
        let order = json!({
            "flyball-load": VERSION,
            "arguments": arguments,
            "index": index,
            "of": agents.len(),
        });
        ready.push(prepare(agent, &order).map_err(|why| format!("agent {agent}: {why}"))?);
    }
    if let Some((_, _, first)) = ready.first() {
        learn(&mut asked, first);
    }
    let started_unix_ms = unix_ms();
    let begin = Barrier::new(ready.len());
    let start_ns = OnceLock::new();
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let (begin, start_ns, asked) = (&begin, &start_ns, &asked);
        let running: Vec<_> = ready
            .into_iter()
            .map(|(lines, delay_ns, ready)| {
                scope.spawn(move || {
                    begin.wait();
                    let start_ns = *start_ns.get_or_init(|| {
                        let start_ns = monotonic_ns() + LEAD_NS;
                        live.begin(window(start_ns, asked));
                        start_ns
                    });
                    let watch = Watch { live, stop };
                    Outcome { ready, result: attend(lines, start_ns, delay_ns, watch) }
                })
            })
            .collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut report = merge(agents, &outcomes, asked);
    report.started_unix_ms = started_unix_ms;
    Ok(report)
}

/// What only an agent knows, which has read the files that the command line names.
fn learn(asked: &mut Asked, ready: &Value) {
    asked.workload = ready["workload"].as_str().unwrap_or_default().into();
    asked.skipped_lines = ready["skipped_lines"].as_u64().unwrap_or(0);
    // A replay is as long as the log.
    let duration_s = ready["duration_s"].as_f64();
    let duration = duration_s.and_then(|s| Duration::try_from_secs_f64(s).ok());
    asked.duration = duration.unwrap_or(asked.duration);
    asked.requests_per_session = ready["requests_per_session"].as_f64().unwrap_or(1.0);
}

/// What counts of a run that starts then.
fn window(start_ns: u64, asked: &Asked) -> Window {
    let after = |time: Duration| {
        start_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    };
    Window { from_ns: after(asked.warmup), to_ns: after(asked.duration) }
}

/// Connects, orders, and measures the way: half of the shortest exchange.
fn prepare(agent: &str, order: &Value) -> Result<(Lines, u64, Value), String> {
    let told = |error: io::Error| error.to_string();
    let address = agent.to_socket_addrs().map_err(told)?.next().ok_or("it has no address")?;
    let stream = TcpStream::connect_timeout(&address, LOST_AFTER).map_err(told)?;
    stream.set_nodelay(true).map_err(told)?;
    stream.set_write_timeout(Some(LOST_AFTER)).map_err(told)?;
    let mut lines = Lines::new(stream, RESULT_BYTES_MAX);
    let ready = ask(&mut lines, order)?;
    if let Some(why) = ready.get("error").and_then(Value::as_str) {
        return Err(why.into());
    }
    let mut shortest_ns = u64::MAX;
    for number in 0..PINGS {
        let begin_ns = monotonic_ns();
        let answer = ask(&mut lines, &json!({ "ping": number }))?;
        if answer.get("pong").and_then(Value::as_u64) != Some(number) {
            return Err("it does not speak as an agent does".into());
        }
        shortest_ns = shortest_ns.min(monotonic_ns() - begin_ns);
    }
    Ok((lines, shortest_ns / 2, ready))
}

fn ask(lines: &mut Lines, order: &Value) -> Result<Value, String> {
    lines.say(order).map_err(|error| error.to_string())?;
    // Resolving a host and reading a log may take it a while.
    match lines.next(LOST_AFTER * 6) {
        Ok(Line::Said(value)) => Ok(value),
        Ok(Line::Silence) => Err("it does not answer".into()),
        Ok(Line::End) => Err("it closed the connection".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Starts an agent at `start_ns` of our clock and listens to it until its result.
fn attend(
    mut lines: Lines,
    start_ns: u64,
    delay_ns: u64,
    watch: Watch<'_>,
) -> Result<Counted, String> {
    let start_in_ns = start_ns.saturating_sub(monotonic_ns() + delay_ns);
    lines.say(&json!({ "start_in_ns": start_in_ns })).map_err(|error| error.to_string())?;
    let (mut last, mut is_told) = (Glance::default(), false);
    let counted = loop {
        let value = match lines.next(LOST_AFTER) {
            Ok(Line::Said(value)) => value,
            Ok(Line::Silence) => break Err(silent(LOST_AFTER)),
            Ok(Line::End) => break Err("it was lost".into()),
            Err(error) => break Err(error.to_string()),
        };
        if let Some(result) = value.get("result") {
            break counted(result, &value);
        }
        let now = glance(&value);
        watch.live.add(now, last);
        last = now;
        if watch.stop.load(Relaxed) && !is_told {
            is_told = true;
            // One that has gone is seen to be lost.
            let _ = lines.say(&json!({ "stop": true }));
        }
    };
    // Whatever has become of it, it has no connections any more that we know of.
    watch.live.add(Glance { open: 0, ..last }, last);
    counted
}

fn counted(result: &Value, said: &Value) -> Result<Counted, String> {
    let tally = tally_from_json(result).ok_or("its counts are not understood")?;
    let limits = said.get("limits").and_then(Value::as_array);
    let limits = limits.into_iter().flatten().filter_map(|why| why.as_str().map(String::from));
    let listen_drops = said.get("listen_drops").and_then(Value::as_u64);
    Ok(Counted { tally, listen_drops, limits: limits.collect() })
}

/// What an agent has counted so far, out of a sign of life.
fn glance(said: &Value) -> Glance {
    let count = |at: usize| said["alive"][at].as_u64().unwrap_or(0);
    let [sent, replies, errors, open] = [0, 1, 2, 3].map(count);
    Glance { sent, replies, errors, open, ..Glance::default() }
}

fn silent(time: Duration) -> String {
    format!("it was silent for {} s", time.as_secs())
}

fn merge(agents: &[String], outcomes: &[Outcome], asked: Asked) -> Report {
    let mut report = Report { asked, ..Report::default() };
    let mut total: Option<Tally> = None;
    for (agent, outcome) in agents.iter().zip(outcomes) {
        for note in outcome.ready["notes"].as_array().into_iter().flatten() {
            report.notes.push(format!("agent {agent}: {}", note.as_str().unwrap_or_default()));
        }
        match &outcome.result {
            Ok(counted) => {
                match &mut total {
                    Some(total) => total.merge(&counted.tally),
                    None => total = Some(counted.tally.clone()),
                }
                if let Some(drops) = counted.listen_drops {
                    *report.listen_drops.get_or_insert(0) += drops;
                }
                let limits = counted.limits.iter().map(|why| format!("agent {agent}: {why}"));
                report.void.extend(limits);
            }
            Err(why) => report.void.push(format!("agent {agent}: {why}")),
        }
    }
    if let Some(first) = outcomes.first() {
        let classes = first.ready["classes"].as_array().into_iter().flatten();
        report.classes = classes.filter_map(|name| name.as_str().map(String::from)).collect();
    }
    report.tally = total.unwrap_or_default();
    report
}
