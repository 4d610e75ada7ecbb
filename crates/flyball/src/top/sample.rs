//! One look at `/status`, and what happened between two.

use flyball_sys::error_log::shown_in_line;
use serde_json::{Value, json};

/// The caches whose hits are shown.
pub(super) const CACHES: [&str; 4] = ["path", "head", "content", "descriptor"];

/// What is counted of refusals, and how it is called here.
pub(super) const REFUSED: [(&str, &str); 5] = [
    ("connections_turned_away", "turned away"),
    ("requests_throttled", "throttled"),
    ("requests_crowded", "crowded"),
    ("logins_failed", "wrong logins"),
    ("requests_denied", "denied"),
];

/// Handshakes that failed, by reason.
const TLS_FAILED: [&str; 7] = [
    "tls_failed_in_the_clear",
    "tls_failed_malformed",
    "tls_failed_late",
    "tls_failed_in_common",
    "tls_failed_name",
    "tls_failed_client",
    "tls_failed_refused",
];

/// `/status` as it was at one moment.
#[derive(Clone, Debug)]
pub struct Look(Value);

/// What happened between two looks; rates are per second.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    pub(super) requests: f64,
    pub(super) errors: f64,
    pub(super) accepted: f64,
    pub(super) sent: f64,
    pub(super) received: f64,
    pub(super) drops: f64,
    /// Handshakes that were done, and that failed.
    pub(super) handshakes: f64,
    pub(super) handshakes_failed: f64,
    /// The part of those done that resumed a session, if there were any.
    pub(super) resumed: Option<f64>,
    /// The 50th, 90th, 99th and 99.9th percentile of requests, in nanoseconds.
    pub(super) request_ns: [Option<u64>; 4],
    /// The 99th percentile of others, by their names.
    pub(super) p99_ns: Vec<(&'static str, Option<u64>)>,
    /// Parts of the time of event loops, of one.
    pub(super) phases: Vec<(&'static str, f64)>,
    /// Of each cache the part of its lookups that hit, if there were any.
    pub(super) hits: Vec<(&'static str, Option<f64>)>,
    pub(super) workers: Vec<Worker>,
}

/// One worker between two looks.
#[derive(Clone, Debug, Default)]
pub struct Worker {
    /// Its number, and that of its generation.
    pub(super) index: u64,
    pub(super) generation: u64,
    pub(super) requests: f64,
    pub(super) accepted: f64,
    pub(super) connections: u64,
    /// Processors that it keeps busy.
    pub(super) cpu: f64,
    pub(super) resident_bytes: u64,
    pub(super) descriptors: Option<u64>,
}

impl Look {
    /// Reads the text of `/status`. Whatever answers chose the texts and names in it: none is kept
    /// that a terminal would not show as it is.
    ///
    /// # Errors
    /// When it is something else.
    pub fn read(text: &str) -> Result<Look, String> {
        let value: Value = serde_json::from_str(text).map_err(|_| "the answer is no JSON")?;
        match value["counters"].is_object() && value["timings"].is_object() {
            true => Ok(Look(shown(value))),
            false => Err("the answer is of another program, or of an older server".into()),
        }
    }

    pub(super) fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }

    pub(super) fn number(&self, keys: &[&str]) -> u64 {
        keys.iter().fold(&self.0, |value, key| &value[key]).as_u64().unwrap_or(0)
    }

    /// Open connections by state, the most first.
    pub(super) fn states(&self) -> Vec<(&str, u64)> {
        let states = self.0["connections"].as_object();
        let states = states.into_iter().flatten();
        let mut states: Vec<(&str, u64)> =
            states.map(|(name, count)| (name.as_str(), count.as_u64().unwrap_or(0))).collect();
        states.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        states
    }

    pub(super) fn open(&self) -> u64 {
        self.states().iter().map(|(_, count)| count).sum()
    }

    /// The values of a list; none where there is none.
    pub(super) fn list(&self, key: &str) -> &[Value] {
        self.0[key].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn listen(&self) -> String {
        let shown = |one: &Value| {
            let scheme = if one["tls"] == true { "https://" } else { "" };
            Some(format!("{scheme}{}", one["address"].as_str()?))
        };
        self.list("listeners").iter().filter_map(shown).collect::<Vec<_>>().join(" ")
    }

    /// Whether clients speak TLS at any address.
    pub(super) fn speaks_tls(&self) -> bool {
        self.list("listeners").iter().any(|one| one["tls"] == true)
    }

    fn counter(&self, name: &str) -> u64 {
        self.number(&["counters", name])
    }

    fn processes(&self) -> impl Iterator<Item = &Value> {
        self.list("processes").iter().filter(|p| p["role"] == "worker")
    }

    /// How many were recorded of a time since `before`, by upper bound in nanoseconds.
    fn times(&self, name: &str, before: &Look) -> Vec<(u64, u64)> {
        let buckets = self.0["timings"][name]["buckets"].as_object();
        let since = |(bound, count): (&String, &Value)| {
            let old = before.0["timings"][name]["buckets"][bound].as_u64().unwrap_or(0);
            Some((bound.parse().ok()?, count.as_u64()?.saturating_sub(old)))
        };
        let mut times: Vec<(u64, u64)> = buckets.into_iter().flatten().filter_map(since).collect();
        times.sort_unstable();
        times
    }
}

/// A value whose texts and names can be shown. It is no deeper than the parser lets it be.
fn shown(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(shown_in_line(&text)),
        Value::Array(values) => values.into_iter().map(shown).collect(),
        Value::Object(named) => {
            named.into_iter().map(|(name, value)| (shown_in_line(&name), shown(value))).collect()
        }
        value => value,
    }
}

/// The time in nanoseconds that this share of them took at most.
fn percentile(times: &[(u64, u64)], percent: f64) -> Option<u64> {
    let count: u64 = times.iter().map(|(_, count)| count).sum();
    let wanted = ((count as f64 * percent / 100.0).ceil() as u64).max(1);
    let mut seen = 0;
    let reaches = |(_, in_bucket): &&(u64, u64)| {
        seen += in_bucket;
        seen >= wanted
    };
    times.iter().find(reaches).map(|(bound, _)| *bound)
}

/// What happened between two looks. After a restart of the server, nothing did.
pub fn between(before: &Look, now: &Look) -> Rates {
    let uptime = |look: &Look| look.number(&["uptime_ms"]);
    let seconds = uptime(now).saturating_sub(uptime(before)) as f64 / 1_000.0;
    if seconds <= 0.0 {
        return Rates::default();
    }
    let per_second = |n: u64, old: u64| n.saturating_sub(old) as f64 / seconds;
    let rate = |name: &str| per_second(now.counter(name), before.counter(name));
    let p99 = |name| (name, percentile(&now.times(name, before), 99.0));
    let request = now.times("request", before);
    // A reload may have changed whether the sockets tell it.
    let own = [before, now].iter().all(|look| look.0["accept_queue"]["drops"].is_u64());
    let place = if own { ["accept_queue", "drops"] } else { ["kernel_drops", "listen_drops"] };
    let drops = |look: &Look| look.number(&place);
    let (full, resumed) = (rate("tls_full"), rate("tls_resumed"));
    Rates {
        requests: rate("requests"),
        errors: rate("responses_4xx") + rate("responses_5xx"),
        accepted: rate("accepted"),
        sent: rate("bytes_sent"),
        received: rate("bytes_received"),
        drops: per_second(drops(now), drops(before)),
        handshakes: full + resumed,
        handshakes_failed: TLS_FAILED.into_iter().map(rate).sum(),
        resumed: (full + resumed > 0.0).then(|| resumed / (full + resumed)),
        request_ns: [50.0, 90.0, 99.0, 99.9].map(|percent| percentile(&request, percent)),
        p99_ns: ["first-byte", "loop", "disk-wait"].map(p99).to_vec(),
        phases: phases(before, now),
        hits: CACHES.map(|cache| (cache, hits(cache, before, now))).to_vec(),
        workers: now.processes().map(|process| worker(process, before, seconds)).collect(),
    }
}

/// Phases of event loops, or stages, by the time that they take.
fn phases(before: &Look, now: &Look) -> Vec<(&'static str, f64)> {
    let took = |name: &str| {
        let sum = |look: &Look| look.number(&["timings", name, "sum_ns"]);
        sum(now).saturating_sub(sum(before)) as f64
    };
    let names = ["getevents", "accept", "work", "read-stage", "write-stage"];
    let times = names.map(|name| (name, took(name)));
    let all: f64 = times.iter().map(|(_, ns)| ns).sum();
    let shares = times.into_iter().filter(|(_, ns)| *ns > 0.0);
    shares.map(|(name, ns)| (name, ns / all)).collect()
}

fn hits(cache: &str, before: &Look, now: &Look) -> Option<f64> {
    let since = |what: &str| {
        let name = format!("{cache}_cache_{what}");
        now.counter(&name).saturating_sub(before.counter(&name)) as f64
    };
    let (hits, misses) = (since("hits"), since("misses"));
    (hits + misses > 0.0).then(|| hits / (hits + misses))
}

fn worker(process: &Value, before: &Look, seconds: f64) -> Worker {
    let number = |name: &str| process[name].as_u64().unwrap_or(0);
    let old = before.processes().find(|old| old["process"] == process["process"]);
    // One that was not there before is shown by its state alone.
    let since = |name: &str| {
        let old = old.and_then(|old| old[name].as_u64()).unwrap_or(number(name));
        number(name).saturating_sub(old) as f64 / seconds
    };
    Worker {
        index: number("worker"),
        generation: number("generation"),
        requests: since("requests"),
        accepted: since("accepted"),
        connections: number("connections"),
        cpu: since("cpu_ms") / 1_000.0,
        resident_bytes: number("resident_bytes"),
        descriptors: process["descriptors"].as_u64(),
    }
}

impl Rates {
    /// The requests of the busiest worker as a multiple of the mean.
    pub(super) fn imbalance(&self) -> Option<f64> {
        let sum: f64 = self.workers.iter().map(|worker| worker.requests).sum();
        let most = self.workers.iter().map(|worker| worker.requests).fold(0.0, f64::max);
        (sum > 0.0).then(|| most * self.workers.len() as f64 / sum)
    }

    /// The same as one object: rates per second, times in nanoseconds, shares of one.
    pub fn to_json(&self) -> Value {
        let times = |times: &[(&'static str, Option<u64>)]| -> Value {
            times.iter().map(|(name, ns)| (name.to_string(), json!(ns))).collect()
        };
        let workers = self.workers.iter().map(|worker| {
            json!({
                "worker": worker.index, "generation": worker.generation,
                "requests": worker.requests, "accepted": worker.accepted,
                "connections": worker.connections, "cpu": worker.cpu,
                "resident_bytes": worker.resident_bytes, "descriptors": worker.descriptors,
            })
        });
        let phases = self.phases.iter().map(|(name, part)| (name.to_string(), json!(part)));
        let hits = self.hits.iter().map(|(name, part)| (name.to_string(), json!(part)));
        let [p50, p90, p99, p999] = self.request_ns;
        json!({
            "requests": self.requests, "errors": self.errors, "accepted": self.accepted,
            "bytes_sent": self.sent, "bytes_received": self.received,
            "listen_drops": self.drops,
            "handshakes": self.handshakes, "handshakes_failed": self.handshakes_failed,
            "handshakes_resumed": self.resumed,
            "request_ns": { "p50": p50, "p90": p90, "p99": p99, "p999": p999 },
            "p99_ns": times(&self.p99_ns),
            "phases": phases.collect::<Value>(),
            "cache_hits": hits.collect::<Value>(),
            "imbalance": self.imbalance(),
            "workers": workers.collect::<Value>(),
        })
    }
}
