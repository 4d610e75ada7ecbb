//! What a run measured: what the kernel and the server say before it and after it, beside what the
//! generator reports.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::grounds::Grounds;
use super::recovery;
use super::{Record, Server};
use crate::definition::{Measure, Series};
use crate::generator::{Load, Report};
use crate::host::{
    DiskReads, Group, ListenDrops, ProcessorTimes, allowed_cpus, cpu_ns_of, stolen_ns,
};

/// Bytes of a MiB.
const MIB: f64 = (1 << 20) as f64;

/// How the generator says that a server answered nothing.
const NOTHING_ANSWERED: &str = "no request was answered";

/// What the kernel and the server say at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    cpu_ns: Option<u64>,
    anonymous: Option<u64>,
    page_cache: Option<u64>,
    disk_reads: Option<DiskReads>,
    processors: ProcessorTimes,
    drops: Option<ListenDrops>,
    stolen_ns: u64,
    counters: BTreeMap<String, u64>,
    open: Option<u64>,
}

impl Look {
    /// Looks at a server, its group and the processors that it may use. Blocks for an answer of
    /// ours.
    pub(super) fn at(server: &Server, grounds: &Grounds, cpus: &[u32]) -> Look {
        let group = grounds.group.as_ref();
        // The counters of the namespace that the server is in.
        let netstat = fs::read_to_string(format!("/proc/{}/net/netstat", server.running.id()));
        let status = server.admin.as_deref().and_then(status);
        Look {
            cpu_ns: match group {
                Some(group) => group.cpu_ns(),
                None => cpu_ns_of(server.running.id()),
            },
            anonymous: group.and_then(Group::anonymous),
            page_cache: group.and_then(Group::page_cache),
            disk_reads: grounds.disk_reads(),
            processors: ProcessorTimes::look(cpus),
            drops: netstat.ok().and_then(|text| ListenDrops::parse(&text)),
            stolen_ns: stolen_ns(&allowed_cpus()),
            counters: status.as_ref().map(|status| numbers(status, "counters")).unwrap_or_default(),
            open: status.map(|status| sum(&numbers(&status, "connections"))),
        }
    }

    /// Requests that the server has answered since then, of ours; a peer does not tell.
    pub fn requests_since(&self, before: &Look) -> Option<f64> {
        self.counted_since(before, "requests")
    }

    /// What the server's processors and its disk did in these seconds since then.
    pub fn machine_since(&self, before: &Look, seconds: f64) -> BTreeMap<Measure, f64> {
        of_machine((before, self), seconds).into_iter().filter_map(known).collect()
    }

    /// How much more one of our server's own counters has than before.
    fn counted_since(&self, before: &Look, name: &str) -> Option<f64> {
        let count = |look: &Look| look.counters.get(name).copied();
        Some((count(self)? - count(before)?) as f64)
    }
}

/// What our server says of itself.
fn status(admin: &Path) -> Option<Value> {
    let mut socket = UnixStream::connect(admin).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    socket.write_all(b"GET /status HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    socket.read_to_string(&mut text).ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

/// The numbers of one part of it, by their names.
fn numbers(status: &Value, part: &str) -> BTreeMap<String, u64> {
    let part = status.get(part).and_then(Value::as_object);
    let number = |(name, n): (&String, &Value)| Some((name.clone(), n.as_u64()?));
    part.into_iter().flatten().filter_map(number).collect()
}

/// What they are together: a server of an earlier version told huge numbers at times, and one of
/// them must not end a search.
fn sum(numbers: &BTreeMap<String, u64>) -> u64 {
    numbers.values().fold(0, |all, number| all.saturating_add(*number))
}

/// The record of a run of so many seconds, by looks before it, at the end of its load and after it,
/// as far as it is known here: point, block and attempt are its campaign's to say.
pub(super) fn record(
    series: &Series,
    load: &Load,
    report: &Report,
    [before, loaded, after]: [Look; 3],
    seconds: f64,
) -> Record {
    let stolen_s = after.stolen_ns.saturating_sub(before.stolen_ns) as f64 / 1e9;
    let stolen_share = stolen_s / seconds / allowed_cpus().len() as f64;
    let mut void = report.void();
    // It is asked to.
    void.retain(|why| !(series.refuses && why.starts_with(NOTHING_ANSWERED)));
    if report.wrong_bodies() > 0 {
        void.push(format!("{} bodies were not the file", report.wrong_bodies()));
    }
    // Without a group the time of a process may have gone with it: nobody need ask for its end.
    let cpu_ns = after.cpu_ns.zip(before.cpu_ns).and_then(|(now, then)| now.checked_sub(then));
    let drops = after.drops.zip(before.drops).map(|(after, before)| after.since(before));
    let figures = of_clients(report)
        .into_iter()
        .chain(of_server(load, report, (&before, &after), (cpu_ns, drops)))
        .chain(of_load(load, (&before, &loaded)))
        .chain(of_machine((&before, &after), seconds));
    let counted = |(name, now): (&String, &u64)| {
        let more = now.saturating_sub(before.counters.get(name).copied().unwrap_or(0));
        (more > 0).then(|| (name.clone(), more))
    };
    Record {
        counters: after.counters.iter().filter_map(counted).collect(),
        series: series.name.clone(),
        point: 0.0,
        amount: load.amount,
        block: 0,
        attempt: 1,
        unfair: false,
        void,
        figures: figures.filter_map(known).collect(),
        server_cpu_s: cpu_ns.map(|ns| ns as f64 / 1e9),
        drops,
        stolen_share: Some(stolen_share),
        generator: report.0.clone(),
    }
}

/// A measure, and its figure where it is known.
type Figures = Vec<(Measure, Option<f64>)>;

fn known((measure, figure): (Measure, Option<f64>)) -> Option<(Measure, f64)> {
    figure.filter(|figure| figure.is_finite()).map(|figure| (measure, figure))
}

/// What clients saw, and what they took themselves.
fn of_clients(report: &Report) -> Figures {
    // Processor time is of the whole run, and so are the replies that it is divided by.
    let replies = report.figure("replies_total").unwrap_or(0.0).max(1.0);
    let cpu_us = report.figure("client_cpu_s").map(|seconds| seconds * 1e6 / replies);
    // Of none that were admitted there is no time.
    let times_of = |name: &str| {
        report.figure(&format!("{name}.count")).filter(|count| *count > 0.0)?;
        report.figure(&format!("{name}.p99"))
    };
    // What arrived in the window, whenever it was due: past saturation most comes after it.
    let bits = report.figure("bytes_in_per_s").map(|bytes| bytes * 8.0 / 1e6);
    vec![
        (Measure::GoodputPerS, report.figure("goodput_per_s")),
        (Measure::RepliesPerS, report.figure("replies_per_s")),
        (Measure::MbitPerS, bits),
        (Measure::LatencyP50Us, report.figure("latency_us.p50")),
        (Measure::LatencyP99Us, report.figure("latency_us.p99")),
        (Measure::AdmittedP99Us, times_of("admitted_us")),
        (Measure::AdmittedAtOnceP99Us, times_of("admitted_at_once_us")),
        (Measure::ShedShare, report.figure("tries.refused_share")),
        (Measure::TimeoutShare, report.figure("tries.timeout_share")),
        (Measure::ClientCpuUsPerReply, cpu_us),
    ]
}

/// What the server took, and what it counted.
fn of_server(
    load: &Load,
    report: &Report,
    (before, after): (&Look, &Look),
    (cpu_ns, drops): (Option<u64>, Option<ListenDrops>),
) -> Figures {
    // Both of the whole run: what was due in its window is answered before and after it, too. What
    // it costs to say no is borne by those who were served.
    let served = report.figure("replies_total").unwrap_or(0.0) * report.served_share();
    // By the time in which connections were due: clients that wait longer make no fewer drops.
    let per_s = |of: fn(ListenDrops) -> u64| drops.map(|drops| of(drops) as f64 / load.seconds);
    let grown = |name: &str| after.counted_since(before, name);
    let ratio = |part: &str, whole: Option<f64>| Some(grown(part)? / whole.filter(|n| *n > 0.0)?);
    let answered = after.requests_since(before).filter(|count| *count > 0.0);
    let heard = report.figure("replies_total");
    let wasted = answered.zip(heard).map(|(answered, heard)| (1.0 - heard / answered).max(0.0));
    let accepted = grown("accepted").filter(|count| *count > 0.0);
    let per_connection = cpu_ns.zip(accepted).map(|(ns, count)| ns as f64 / 1_000.0 / count);
    let bodies = grown("content_cache_hits").zip(grown("content_cache_misses"));
    vec![
        (Measure::CpuUsPerReply, cpu_ns.map(|ns| ns as f64 / 1_000.0 / served.max(1.0))),
        (Measure::CpuUsPerConnection, per_connection),
        (Measure::WastedShare, wasted),
        (Measure::RecoveryS, recovery::seconds(load, report)),
        (Measure::DropsPerS, per_s(|drops| drops.all)),
        (Measure::OverflowsPerS, per_s(|drops| drops.overflows)),
        (Measure::RequestDropsPerS, per_s(|drops| drops.requests)),
        (Measure::AcceptsPerPhase, ratio("accepted", grown("accept_phases"))),
        (Measure::ConnectionsPerWorkPhase, ratio("worked_on", grown("work_phases"))),
        (Measure::WaitsPerReply, ratio("getevents_calls", after.requests_since(before))),
        (Measure::BodyHitPercent, bodies.map(|(hits, misses)| 100.0 * hits / (hits + misses))),
        (Measure::MemoryMib, after.anonymous.map(|bytes| bytes as f64 / MIB)),
        (Measure::PageCacheMib, after.page_cache.map(|bytes| bytes as f64 / MIB)),
    ]
}

/// What the server did while it was loaded.
fn of_load(load: &Load, (before, loaded): (&Look, &Look)) -> Figures {
    let accepted = loaded.counted_since(before, "accepted");
    vec![
        (Measure::AcceptsPerS, accepted.map(|count| count / load.seconds)),
        (Measure::OpenConnections, loaded.open.map(|count| count as f64)),
    ]
}

/// What the server's processors and its disk did in these seconds (S4, Tables 2 and 3).
fn of_machine((before, after): (&Look, &Look), seconds: f64) -> Figures {
    let shares = after.processors.since(&before.processors);
    let reads = after.disk_reads.zip(before.disk_reads).map(|(after, before)| after.since(before));
    vec![
        (Measure::IdlePercent, shares.map(|shares| 100.0 * shares.idle)),
        (Measure::DiskWaitPercent, shares.map(|shares| 100.0 * shares.iowait)),
        (Measure::SoftirqPercent, shares.map(|shares| 100.0 * shares.softirq)),
        (Measure::DiskMibPerS, reads.map(|reads| reads.bytes as f64 / MIB / seconds)),
        (
            Measure::DiskReadKib,
            reads.map(|reads| reads.bytes as f64 / 1_024.0 / reads.requests as f64),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn huge_counts_of_a_server_are_no_reason_to_end() {
        let status = json!({ "connections": { "idle": 3, "sending": u64::MAX - 1 } });
        assert_eq!(sum(&numbers(&status, "connections")), u64::MAX);
    }

    #[test]
    fn figures_are_of_what_passed_between_two_looks() {
        let look = |nth: u64| Look {
            cpu_ns: Some(1_000_000 * nth),
            page_cache: Some(nth << 20),
            disk_reads: Some(DiskReads { bytes: nth << 20, requests: 4 * nth }),
            counters: [
                ("content_cache_hits", 9 * nth),
                ("content_cache_misses", nth),
                ("accepted", 10 * nth),
            ]
            .map(|(name, n)| (name.to_owned(), n))
            .into(),
            open: Some(5 - nth),
            ..Look::default()
        };
        let text = "name = \"x\"\ncontestant = \"flyball\"";
        let series: Series = toml::from_str(text).unwrap();
        let load = Load {
            varies: crate::definition::Varies::Connections,
            amount: 7.0,
            steps: Vec::new(),
            seconds: 2.0,
            warmup: 0.0,
            seed: 1,
            verify: false,
        };
        let report = Report(json!({ "replies_total": 100, "client_cpu_s": 0.002 }));
        let record = record(&series, &load, &report, [look(1), look(2), look(3)], 2.0);
        let figures = &record.figures;
        assert_eq!(figures[&Measure::CpuUsPerReply], 20.0);
        assert_eq!(figures[&Measure::ClientCpuUsPerReply], 20.0);
        assert_eq!(figures[&Measure::BodyHitPercent], 90.0);
        assert_eq!(figures[&Measure::AcceptsPerS], 5.0, "those after the load are no part of it");
        assert_eq!((figures[&Measure::DiskMibPerS], figures[&Measure::DiskReadKib]), (1.0, 256.0));
        assert_eq!(figures[&Measure::PageCacheMib], 3.0);
        assert_eq!(figures[&Measure::OpenConnections], 3.0, "as many as at the end of the load");
        // What nobody told, and what would be of nothing, is no figure.
        let unknown = [Measure::GoodputPerS, Measure::IdlePercent, Measure::WaitsPerReply];
        assert!(unknown.iter().all(|measure| !figures.contains_key(measure)), "{figures:?}");
        assert_eq!((record.amount, record.counters["content_cache_misses"]), (7.0, 2));
        // Time that has gone with a process is unknown, and no huge figure.
        let gone = [2, 1, 1].map(|ns| Look { cpu_ns: Some(ns), ..Look::default() });
        let record = super::record(&series, &load, &report, gone, 2.0);
        assert_eq!(record.server_cpu_s, None);
    }
}
