//! A report as JSON. Keys are only ever added.

use std::thread;

use flyball_sys::machine;
use serde_json::{Map, Value, json};

use super::histogram::Times;
use super::kind::{KINDS, Kind};
use super::qos::Qos;
use super::report::Report;
use super::series::{Interval, merged};
use crate::workload::RULES;

/// Stands for the histogram where all else is laid out in lines.
const HISTOGRAM: &str = "latency_histogram_us";

/// The report as lines of JSON; the histogram is one line, and not pages of numbers.
pub fn pretty(report: &Report) -> String {
    let mut value = json(report);
    let histogram = value[HISTOGRAM].take().to_string();
    value[HISTOGRAM] = HISTOGRAM.into();
    let place = format!("{HISTOGRAM:?}: {HISTOGRAM:?}");
    format!("{value:#}\n").replacen(&place, &format!("{HISTOGRAM:?}: {histogram}"), 1)
}

/// The report as one JSON object.
pub fn json(report: &Report) -> Value {
    let tally = &report.tally;
    let asked = &report.asked;
    let mut value = json!({
        "url": asked.url,
        "mode": asked.mode,
        "load": asked.load,
        "kept_connections": asked.kept_connections,
        "arrivals": asked.arrivals,
        "workload": asked.workload,
        "skipped_lines": asked.skipped_lines,
        "seed": asked.seed,
        "started_unix_ms": report.started_unix_ms,
        "duration_s": asked.duration.as_secs_f64(),
        "warmup_s": asked.warmup.as_secs_f64(),
        "window_s": tally.window.seconds(),
        "timeout_s": asked.timeout.as_secs_f64(),
        "deadline_s": asked.deadline.as_secs_f64(),
        "threads": asked.threads,
        "requests_per_session": asked.requests_per_session,
        "verify": asked.verify,
        "intended_per_s": rounded(report.intended_per_s()),
        "sent_per_s": rounded(report.per_s(tally.sent)),
        "replies_per_s": rounded(report.replies_per_s()),
        "goodput_per_s": rounded(report.goodput_per_s()),
        "connections_per_s": rounded(report.per_s(tally.connections)),
        "bytes_in_per_s": rounded(report.per_s(tally.bytes_in)),
    });
    let counts = counts(report);
    if let (Value::Object(all), Value::Object(more)) = (&mut value, counts) {
        all.extend(more);
    }
    value["client_limited_causes"] = report.client_limit_causes().into();
    let tries = &tally.tries;
    value["tries"] = tries.json(tally.good);
    value["admitted_us"] = times(&tries.admitted);
    value["admitted_at_once_us"] = times(&tries.admitted_at_once);
    value["interrupted"] = report.interrupted.into();
    value["version"] = env!("CARGO_PKG_VERSION").into();
    value["machine"] = machine_here();
    value[HISTOGRAM] = histogram(&tally.latency);
    value
}

/// The machine that the report is written on.
fn machine_here() -> Value {
    json!({
        "cores": thread::available_parallelism().map_or(0, usize::from),
        "kernel": machine::sysctl("kernel/osrelease"),
    })
}

/// The latencies that were met, in microseconds to three digits, with how often each was.
fn histogram(times: &Times) -> Value {
    let pairs = times.pairs().into_iter();
    pairs.map(|(ns, count)| json!([rounded(ns as f64 / 1e3), count])).collect()
}

fn counts(report: &Report) -> Value {
    let (tally, limits) = (&report.tally, report.client_limits());
    json!({
        "intended": tally.intended,
        "sent": tally.sent,
        "replies": tally.replies,
        "replies_total": tally.replies_total,
        "good": tally.good,
        "bad_share": rounded(report.bad_share()),
        "unanswered": tally.unanswered,
        "sessions": tally.sessions,
        "sessions_complete": tally.sessions_complete,
        "connections": tally.connections,
        "connections_open_max": tally.open_max,
        "backlog_max": tally.backlog_max,
        "reconnects": tally.reconnects,
        "body_bytes": tally.body_bytes,
        "bytes_in": tally.bytes_in,
        "bytes_out": tally.bytes_out,
        "error_count": tally.error_count(),
        "errors": errors(&tally.errors),
        "warmup_errors": errors(&tally.warmup_errors),
        "status": statuses(report),
        "classes": classes(report),
        "qos": Qos::of(report).map(|qos| qos.json()),
        "dynamic": dynamic(report),
        "latency_us": times(&tally.latency),
        "latency_actual_us": times(&tally.latency_actual),
        "connect_us": times(&tally.connect),
        "handshakes": tally.handshakes.json(),
        "first_byte_us": times(&tally.first_byte),
        "lateness_us": times(&tally.lateness),
        "late_share": report.late_share(),
        "replies_by_second": by_second(report, |interval| interval.replies),
        "good_by_second": by_second(report, |interval| interval.good),
        "listen_drops": report.listen_drops,
        "client_limited": !limits.is_empty(),
        "client_limited_because": limits,
        "client_cpu_s": tally.cpu_ns as f64 / 1e9,
        "client_busy_share": (tally.busy_max * 1000.0).round() / 1000.0,
        "valid": report.is_valid(),
        "void_because": report.invalid_because(),
        "notes": report.told(),
    })
}

/// Percentiles of a distribution, in microseconds.
pub fn times(times: &Times) -> Value {
    json!({
        "count": times.count(),
        "min": rounded(times.min_us()),
        "mean": rounded(times.mean_us()),
        "p50": rounded(times.percentile_us(50.0)),
        "p75": rounded(times.percentile_us(75.0)),
        "p90": rounded(times.percentile_us(90.0)),
        "p95": rounded(times.percentile_us(95.0)),
        "p99": rounded(times.percentile_us(99.0)),
        "p999": rounded(times.percentile_us(99.9)),
        "p9999": rounded(times.percentile_us(99.99)),
        "max": rounded(times.max_us()),
    })
}

/// What was counted in each second since the start, warm-up and what came afterwards included.
fn by_second(report: &Report, count: fn(&Interval) -> u64) -> Vec<u64> {
    let intervals = merged(&report.tally.intervals);
    let seconds = intervals.last().map_or(0, |last| last.second + 1);
    let mut counts = vec![0; usize::try_from(seconds).unwrap_or(0)];
    for interval in intervals {
        counts[interval.second as usize] = count(&interval);
    }
    counts
}

fn errors(counts: &[u64; KINDS.len()]) -> Value {
    let each = KINDS.iter().zip(counts).map(|(kind, count)| (kind.name().into(), (*count).into()));
    Value::Object(each.collect::<Map<_, _>>())
}

fn statuses(report: &Report) -> Value {
    let found = report.tally.status.iter().enumerate().filter(|(_, n)| **n > 0);
    Value::Object(found.map(|(status, n)| (status.to_string(), (*n).into())).collect())
}

fn classes(report: &Report) -> Value {
    let each = report.classes.iter().zip(&report.tally.classes).map(|(name, class)| {
        json!({
            "class": name,
            "replies": class.replies,
            "timeouts": class.timeouts,
            "bytes": class.bytes,
        })
    });
    Value::Array(each.collect())
}

/// Dynamic replies that broke a rule, and the server's log of posts; null without such requests.
fn dynamic(report: &Report) -> Value {
    let (tally, log) = (&report.tally, &report.post_log);
    if log.is_none() && tally.posts + tally.errors_of(Kind::WrongDynamic) == 0 {
        return Value::Null;
    }
    let broken = RULES.iter().zip(tally.broken_rules);
    let broken: Map<_, _> =
        broken.map(|(rule, count)| (rule.name().into(), count.into())).collect();
    json!({
        "broken_rules": broken,
        "posts": tally.posts,
        "logged_posts": log.as_ref().map(|log| log.records),
        "log_wrong": log.as_ref().map_or(&[][..], |log| &log.wrong),
    })
}

/// To three decimals: what lies beyond them is noise.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
