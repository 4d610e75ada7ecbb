//! `/status`: the snapshot as JSON.

use flyball_http::CloseReason;
use flyball_observe::counters::{Counter, Totals};
use flyball_observe::histogram::{Timing, lower_bound_ns};
use flyball_observe::hosts::{CLASS_NAMES, CLASSES};
use flyball_observe::standing::Standing;
use flyball_sys::clock;
use serde_json::{Map, Value, json};

use super::snapshot::{Process, Snapshot};

/// All of it.
pub(super) fn write(snapshot: &Snapshot<'_>) -> String {
    let Snapshot { totals, drops, .. } = snapshot;
    let accepted = totals.counter(Counter::Accepted);
    let listens = snapshot.admin.listens.iter();
    let length = snapshot.queues.iter().map(|queue| u64::from(queue.length));
    let limit = snapshot.queues.iter().map(|queue| u64::from(queue.limit));
    let dropped = snapshot.queues.iter().map(|queue| queue.drops.map(u64::from));
    let head_age_ms = snapshot.queues.iter().filter_map(|queue| queue.head_age_ms).max();
    let status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "arch": snapshot.architecture,
        // Its name in the version before.
        "architecture": snapshot.architecture,
        "master": snapshot.admin.master,
        "configuration": snapshot.admin.configuration.as_ref().map(|file| file.to_string_lossy()),
        "generation": snapshot.generation,
        "workers": snapshot.workers,
        "listen": listens.clone().map(|one| one.address.to_string()).collect::<Vec<_>>(),
        "listeners": listens.map(|one| json!({
            "address": one.address.to_string(),
            "tls": one.tls,
            "hosts": one.hosts,
        })).collect::<Value>(),
        "uptime_ms": snapshot.uptime_ms,
        "started_unix_ms": snapshot.started_unix_ms,
        "accept_limit": snapshot.admin.shared.live().accept_limit().to_string(),
        "counters": object(Counter::ALL, |c| (c.label(), totals.counter(*c).into())),
        "connections": object(Standing::open(), |s| (s.label(), totals.connections(s).into())),
        "closed": object(CloseReason::ALL, |r| (r.label(), totals.closed(*r).into())),
        "hosts": by_class(&snapshot.hosts),
        "modules": by_class(&snapshot.modules),
        "module_times_ns": object(&snapshot.module_times_ns, |(name, ns)| {
            (name.as_str(), (*ns).into())
        }),
        "kernel_drops": {
            "listen_drops": drops.listen_drops,
            "listen_overflows": drops.listen_overflows,
            "request_queue_drops": drops.request_queue_drops,
            "request_queue_cookies": drops.request_queue_cookies,
        },
        "certificates": snapshot.admin.certificates.iter().map(|one| {
            one.to_json(clock::unix_ms() / 1_000)
        }).collect::<Value>(),
        "accept_queue": {
            "length": length.sum::<u64>(),
            "limit": limit.sum::<u64>(),
            "drops": dropped.sum::<Option<u64>>(),
            "head_age_ms": head_age_ms,
        },
        "accept_queues": snapshot.queues.iter().map(|queue| json!({
            "listen": queue.listen.map(|address| address.to_string()),
            "socket": queue.socket,
            "length": queue.length,
            "limit": queue.limit,
            "drops": queue.drops,
            "head_age_ms": queue.head_age_ms,
        })).collect::<Value>(),
        "timings": object(Timing::ALL, |timing| (timing.label(), times(timing, totals))),
        "processes": snapshot.processes.iter().map(process).collect::<Value>(),
        "worker_imbalance": snapshot.imbalance(),
        "equation_1": {
            "accept_phases": totals.counter(Counter::AcceptPhases),
            "accepted_per_phase": totals.accepted_per_phase(),
            "accepts_per_second": accepted as f64 * 1000.0 / snapshot.uptime_ms as f64,
        },
        "worked_on_per_phase": totals.worked_on_per_phase(),
    });
    format!("{status:#}\n")
}

/// Answers by name and class.
fn by_class(counts: &[(String, [u64; CLASSES])]) -> Value {
    object(counts, |(name, counts)| {
        (name, object(CLASS_NAMES.iter().zip(counts), |(class, n)| (*class, (*n).into())))
    })
}

fn object<T, N: ToString>(
    of: impl IntoIterator<Item = T>,
    pair: impl Fn(T) -> (N, Value),
) -> Value {
    let pair = |item| {
        let (name, value) = pair(item);
        (name.to_string(), value)
    };
    Value::Object(of.into_iter().map(pair).collect::<Map<_, _>>())
}

/// Each bucket that is not empty, by its upper bound in nanoseconds, and what they come to.
fn times(timing: Timing, totals: &Totals) -> Value {
    let times = totals.timing(timing);
    let filled = times.buckets().iter().enumerate().filter(|(_, count)| **count > 0);
    json!({
        "count": times.count(),
        "sum_ns": times.sum_ns(),
        "p50_ns": times.percentile_ns(50.0),
        "p90_ns": times.percentile_ns(90.0),
        "p99_ns": times.percentile_ns(99.0),
        "p999_ns": times.percentile_ns(99.9),
        "buckets": object(filled, |(at, count)| (lower_bound_ns(at + 1), (*count).into())),
    })
}

fn process(process: &Process) -> Value {
    let mut value = json!({
        "role": process.role,
        "process": process.id,
        "cpu_ms": process.usage.cpu_ms,
        "resident_bytes": process.usage.resident_bytes,
        "descriptors": process.usage.descriptors,
    });
    if let (Some(worker), Some(fields)) = (&process.worker, value.as_object_mut()) {
        for (name, number) in [
            ("worker", worker.index as u64),
            ("generation", worker.generation),
            ("requests", worker.requests),
            ("accepted", worker.accepted),
            ("connections", worker.connections),
            ("bytes_sent", worker.bytes_sent),
        ] {
            fields.insert(name.into(), number.into());
        }
    }
    value
}
