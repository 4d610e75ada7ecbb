//! `/metrics`: the snapshot in the text format of Prometheus. Labels are enumerators, names of the
//! configuration, or numbers of workers and sockets: their number is bounded.

use flyball_http::CloseReason;
use flyball_observe::counters::{ACCEPT_BATCHES, Counter, STATUS_CLASSES, Totals};
use flyball_observe::histogram::Timing;
use flyball_observe::hosts::CLASS_NAMES;
use flyball_observe::standing::Standing;
use flyball_sys::clock;
use flyball_sys::process;

use super::prometheus::{Family, NS_PER_S, Text};
use super::snapshot::{Process, Queue, Snapshot, Worker};
use crate::tls::Told;

/// All of it.
pub(super) fn write(snapshot: &Snapshot<'_>) -> String {
    let mut text = Text::default();
    write_server(&mut text, snapshot);
    write_counters(&mut text, snapshot);
    write_connections(&mut text, &snapshot.totals);
    write_queues(&mut text, snapshot);
    write_certificates(&mut text, snapshot);
    write_times(&mut text, snapshot);
    write_processes(&mut text, snapshot);
    write_workers(&mut text, snapshot);
    text.finish()
}

fn write_server(text: &mut Text, snapshot: &Snapshot<'_>) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    text.gauge("flyball_build_info", "1; the label says what runs.").sample(&version, 1);
    let arch = [("arch", snapshot.architecture)];
    text.gauge("flyball_arch_info", "1; the label says how it waits.").sample(&arch, 1);
    // Their names in the version before.
    let architecture = [("architecture", snapshot.architecture)];
    text.gauge("flyball_architecture_info", "The same, by the name before.")
        .sample(&architecture, 1);
    let started_s = snapshot.started_unix_ms as f64 / 1_000.0;
    text.gauge("process_start_time_seconds", "Start of the server, in seconds since 1970.")
        .sample(&[], started_s);
    text.gauge("flyball_generation", "Number of the generation of workers, from 1.")
        .sample(&[], snapshot.generation);
    text.gauge("flyball_workers", "Workers that there shall be.").sample(&[], snapshot.workers);
    let limit = snapshot.admin.shared.live().accept_limit().as_f64();
    let limit = if limit.is_finite() { limit.to_string() } else { "+Inf".to_string() };
    text.gauge("flyball_accept_limit", "Connections that an accept phase may accept.")
        .sample(&[], limit);
    text.gauge("flyball_descriptor_limit", "Descriptors that each process may open.")
        .sample(&[], process::descriptor_limit());
}

fn write_counters(text: &mut Text, snapshot: &Snapshot<'_>) {
    let totals = &snapshot.totals;
    let is_in_a_family = |counter: &Counter| {
        STATUS_CLASSES.contains(counter) || ACCEPT_BATCHES.iter().any(|(batch, _)| batch == counter)
    };
    for counter in Counter::ALL.iter().filter(|counter| !is_in_a_family(counter)) {
        let (label, value) = (counter.label(), totals.counter(*counter));
        // Seconds are the unit of every time here, and nanoseconds that of `/status`.
        if let Some(timed) = label.strip_suffix("_ns") {
            let (name, help) = (format!("flyball_{timed}_seconds_total"), counter.help());
            let help = help.replace("Nanoseconds", "Seconds");
            text.counter(&name, &help).sample(&[], value as f64 / NS_PER_S);
        } else {
            text.counter(&format!("flyball_{label}_total"), counter.help()).sample(&[], value);
        }
    }
    let mut family = text.counter("flyball_responses_total", "Answers by class of status.");
    for (class, counter) in CLASS_NAMES.iter().zip(STATUS_CLASSES) {
        family.sample(&[("class", class)], totals.counter(counter));
    }
    let help = "Answers by the site's first host and class of status; of no site: other.";
    let mut family = text.counter("flyball_host_responses_total", help);
    for (host, counts) in &snapshot.hosts {
        for (class, count) in CLASS_NAMES.iter().zip(counts) {
            family.sample(&[("host", host.as_str()), ("class", class)], count);
        }
    }
    let help = "Answers of modules, by their names and class of status.";
    let mut family = text.counter("flyball_module_responses_total", help);
    for (module, counts) in &snapshot.modules {
        for (class, count) in CLASS_NAMES.iter().zip(counts) {
            family.sample(&[("module", module.as_str()), ("class", class)], count);
        }
    }
    let help = "Time of all calls of a module, waits within them included.";
    let mut family = text.counter("flyball_module_seconds_total", help);
    for (module, ns) in &snapshot.module_times_ns {
        family.sample(&[("module", module.as_str())], *ns as f64 / NS_PER_S);
    }
}

fn write_connections(text: &mut Text, totals: &Totals) {
    let mut family = text.gauge("flyball_connections", "Open connections by state.");
    for standing in Standing::open() {
        family.sample(&[("state", standing.label())], totals.connections(standing));
    }
    let mut family = text.counter("flyball_closed_total", "Connections closed, by reason.");
    for reason in CloseReason::ALL {
        family.sample(&[("reason", reason.label())], totals.closed(*reason));
    }
}

/// Begins a family.
type Begin = for<'a> fn(&'a mut Text, &'a str, &str) -> Family<'a>;

/// What the kernel drops is told of the whole network namespace, by reasons, and of each socket.
fn write_queues(text: &mut Text, snapshot: &Snapshot<'_>) {
    let drops = &snapshot.drops;
    for (name, value, help) in [
        ("listen_drops", drops.listen_drops, "Connections that listening sockets dropped."),
        ("listen_overflows", drops.listen_overflows, "Those dropped by a full accept queue."),
        ("request_queue_drops", drops.request_queue_drops, "First packets dropped."),
        ("request_queue_cookies", drops.request_queue_cookies, "First packets given a cookie."),
    ] {
        text.counter(&format!("flyball_kernel_{name}_total"), help).sample(&[], value);
    }
    let mut each = |family: Begin, name: &str, help: &str, value: fn(&Queue) -> Option<f64>| {
        let queues = snapshot.queues.iter();
        let told: Vec<_> = queues.filter_map(|queue| Some((queue, value(queue)?))).collect();
        // A family without samples is none.
        if told.is_empty() {
            return;
        }
        let mut family = family(text, name, help);
        for (queue, value) in told {
            let listen = queue.listen.map(|address| address.to_string()).unwrap_or_default();
            let labels = [("listen", listen.as_str()), ("socket", &queue.socket.to_string())];
            family.sample(&labels, value);
        }
    };
    let help = "Connections not yet accepted.";
    each(Text::gauge, "flyball_accept_queue_length", help, |queue| Some(queue.length.into()));
    let help = "Room in the accept queue.";
    each(Text::gauge, "flyball_accept_queue_limit", help, |queue| Some(queue.limit.into()));
    let help = "Wait of the head of the accept queue.";
    each(Text::gauge, "flyball_head_age_seconds", help, |queue| {
        Some(queue.head_age_ms? as f64 / 1e3)
    });
    let help = "Packets of clients that the socket dropped.";
    each(Text::counter, "flyball_listener_drops_total", help, |queue| Some(queue.drops?.into()));
}

/// What tells a certificate from all others: one name may have several, and two authorities may
/// count alike.
fn labels(one: &Told) -> [(&'static str, &str); 4] {
    let Told { issuer, key, serial, .. } = one;
    [("name", one.name()), ("issuer", issuer), ("key", key), ("serial", serial)]
}

fn write_certificates(text: &mut Text, snapshot: &Snapshot<'_>) {
    if snapshot.admin.certificates.is_empty() {
        return;
    }
    let now_s = clock::unix_ms() / 1_000;
    let help = "Seconds for which a certificate holds; below zero since it has expired.";
    let mut family = text.gauge("flyball_certificate_holds_seconds", help);
    for one in &snapshot.admin.certificates {
        if let Some(holds_s) = one.holds_s(now_s) {
            family.sample(&labels(one), holds_s);
        }
    }
    let help = "1 where a certificate is there that holds.";
    let mut family = text.gauge("flyball_certificate_ready", help);
    for one in &snapshot.admin.certificates {
        let is_ready = one.holds_s(now_s).is_some_and(|holds_s| holds_s >= 0);
        family.sample(&labels(one), u64::from(is_ready));
    }
}

fn write_times(text: &mut Text, snapshot: &Snapshot<'_>) {
    let totals = &snapshot.totals;
    for (name, help, timing) in [
        ("flyball_loop_seconds", "Turns of event loops, without the wait.", Timing::Loop),
        ("flyball_disk_wait_seconds", "Work that may wait on the disk.", Timing::DiskWait),
        (
            "flyball_handshake_seconds",
            "Handshakes of TLS, from their first bytes.",
            Timing::Handshake,
        ),
        (
            "flyball_first_byte_seconds",
            "From a head to the answer's first bytes.",
            Timing::FirstByte,
        ),
        ("flyball_request_seconds", "From a head to the answer's last bytes.", Timing::Request),
    ] {
        text.histogram(name, help).times(&[], &totals.timing(timing));
    }
    let help = "The same by the site's first host; of no site: other.";
    let mut family = text.histogram("flyball_host_request_seconds", help);
    for (host, times) in &snapshot.host_times {
        family.times(&[("host", host)], &times.distribution());
    }
    let mut family = text.histogram("flyball_phase_seconds", "Phases of loops, and stages.");
    for timing in Timing::ALL.into_iter().filter(|timing| timing.is_phase()) {
        family.times(&[("phase", timing.label())], &totals.timing(timing));
    }
    let mut below = 0;
    let mut counts = Vec::new();
    for (counter, most) in ACCEPT_BATCHES {
        below += totals.counter(counter);
        counts.extend(most.map(|most| (most.to_string(), below)));
    }
    text.histogram(
        "flyball_accept_batch_connections",
        "Connections that an accept phase accepted.",
    )
    .distribution(&[], &counts, below, totals.counter(Counter::Accepted));
}

fn write_processes(text: &mut Text, snapshot: &Snapshot<'_>) {
    let each = |mut family: Family<'_>, value: fn(&Process) -> Option<String>| {
        for process in &snapshot.processes {
            let (worker, generation) = match &process.worker {
                Some(worker) => (worker.index.to_string(), worker.generation.to_string()),
                None => Default::default(),
            };
            let all = [("role", process.role), ("worker", &worker), ("generation", &generation)];
            let labels = if process.worker.is_some() { &all[..] } else { &all[..1] };
            if let Some(value) = value(process) {
                family.sample(labels, value);
            }
        }
    };
    let help = "Time on processors, of all threads of the process.";
    each(text.counter("flyball_process_cpu_seconds_total", help), |process| {
        Some((process.usage.cpu_ms as f64 / 1_000.0).to_string())
    });
    let help = "Memory that is present, what is shared with other processes included.";
    each(text.gauge("flyball_process_resident_memory_bytes", help), |process| {
        Some(process.usage.resident_bytes.to_string())
    });
    each(text.gauge("flyball_process_open_descriptors", "Open descriptors."), |process| {
        process.usage.descriptors.map(|count| count.to_string())
    });
}

fn write_workers(text: &mut Text, snapshot: &Snapshot<'_>) {
    let each = |mut family: Family<'_>, value: fn(&Worker) -> u64| {
        for worker in snapshot.processes.iter().filter_map(|process| process.worker.as_ref()) {
            let labels = [worker.index, worker.generation as usize].map(|n| n.to_string());
            let labels = [("worker", labels[0].as_str()), ("generation", &labels[1])];
            family.sample(&labels, value(worker));
        }
    };
    let help = "Requests that a worker answered since it started.";
    each(text.counter("flyball_worker_requests_total", help), |worker| worker.requests);
    let help = "Connections that a worker accepted since it started.";
    each(text.counter("flyball_worker_accepted_total", help), |worker| worker.accepted);
    let help = "Bytes that a worker handed to sockets since it started.";
    each(text.counter("flyball_worker_sent_bytes_total", help), |worker| worker.bytes_sent);
    let help = "Connections that a worker has open.";
    each(text.gauge("flyball_worker_connections", help), |worker| worker.connections);
    let help = "Requests of the busiest worker as a multiple of the mean; 1 is even.";
    text.gauge("flyball_worker_imbalance_ratio", help).sample(&[], snapshot.imbalance());
}
