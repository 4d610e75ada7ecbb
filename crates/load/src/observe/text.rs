//! A report as text for people.

use std::fmt::Write as _;

use super::histogram::Times;
use super::kind::KINDS;
use super::qos::Qos;
use super::report::Report;
use crate::workload::RULES;

/// The report as lines of text.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, report);
    out
}

fn write(out: &mut String, report: &Report) -> std::fmt::Result {
    let (asked, tally) = (&report.asked, &report.tally);
    let window = tally.window.seconds();
    writeln!(out, "{} of {} for {window:.1} s, seed {}", load(report), asked.url, asked.seed)?;
    writeln!(out)?;
    let is_closed = asked.mode == "closed";
    let asked_for = if is_closed { "sent" } else { "intended" };
    writeln!(out, "  {asked_for:<8}  {:>12.1}/s", report.intended_per_s())?;
    writeln!(out, "  replies   {:>12.1}/s  {} in all", report.replies_per_s(), tally.replies)?;
    let deadline = seconds(asked.deadline.as_secs_f64());
    writeln!(out, "  goodput   {:>12.1}/s  good within {deadline}", report.goodput_per_s())?;
    let connections = report.per_s(tally.connections);
    let open = tally.open_max;
    write!(out, "  connected {connections:>12.1}/s  {open} open at most")?;
    match tally.backlog_max {
        0 => writeln!(out)?,
        most => writeln!(out, ", {most} requests waited for one at most")?,
    }
    let bits = report.per_s(tally.bytes_in) * 8.0 / 1e6;
    writeln!(out, "  received  {bits:>12.1} Mbit/s, {} bytes of bodies", tally.body_bytes)?;
    handshakes(out, report)?;
    writeln!(out)?;
    times(out, report)?;
    for (status, count) in tally.status.iter().enumerate().filter(|(_, count)| **count > 0) {
        writeln!(out, "  status {status}  {count:>12}")?;
    }
    for kind in KINDS.into_iter().filter(|kind| tally.errors_of(*kind) > 0) {
        writeln!(out, "  {:<20}{:>12}", kind.name(), tally.errors_of(kind))?;
    }
    for (kind, count) in KINDS.iter().zip(tally.warmup_errors).filter(|(_, count)| *count > 0) {
        writeln!(out, "  {:<20}{count:>12}  within the warm-up", kind.name())?;
    }
    for (rule, count) in RULES.iter().zip(tally.broken_rules).filter(|(_, count)| *count > 0) {
        writeln!(out, "    rule {:<13}{count:>12}", rule.name())?;
    }
    if let Some(log) = &report.post_log {
        let posts = tally.posts;
        writeln!(out, "  posts     {posts:>12}    {} in the server's log", log.records)?;
        log.wrong.iter().try_for_each(|why| writeln!(out, "  WRONG: {why}"))?;
    }
    if tally.unanswered > 0 {
        writeln!(out, "  {:<20}{:>12}", "without a reply", tally.unanswered)?;
    }
    tries(out, report)?;
    if let Some(drops) = report.listen_drops.filter(|drops| *drops > 0) {
        writeln!(out, "  {:<20}{drops:>12}  connections dropped by listening sockets", "drops")?;
    }
    match Qos::of(report) {
        Some(Qos::Fail { because, .. }) => {
            writeln!(out, "  quality of service: FAIL: {}", because.join("; "))?;
        }
        Some(Qos::Pass) => writeln!(out, "  quality of service: pass")?,
        None => {}
    }
    let busy = tally.busy_max * 100.0;
    writeln!(
        out,
        "  client: {:.2} s of CPU, busiest thread {busy:.0} %",
        tally.cpu_ns as f64 / 1e9
    )?;
    report.told().iter().try_for_each(|note| writeln!(out, "  note: {note}"))?;
    let void = report.void_because();
    let void = void.iter().map(|why| ("VOID", why));
    let limits = report.client_limits();
    let limited = limits.iter().map(|why| ("CLIENT-LIMITED", why));
    void.chain(limited).try_for_each(|(what, why)| writeln!(out, "  {what}: {why}"))
}

/// How tries ended, where they did not all end alike.
fn tries(out: &mut String, report: &Report) -> std::fmt::Result {
    let (tries, good) = (&report.tally.tries, report.tally.good);
    if !tries.are_told() {
        return Ok(());
    }
    let (all, again, given_up) = (tries.all(), tries.again, tries.given_up);
    let first = all - again;
    writeln!(out, "  {:<20}{first:>12}  first, {again} again, {given_up} given up", "tries")?;
    let (at_once, later) = (good.saturating_sub(tries.good_again), tries.good_again);
    writeln!(out, "  {:<20}{good:>12}  {at_once} at once, {later} after a retry", "good replies")?;
    let (refused, late) = (tries.refused_share() * 100.0, tries.timeout_share() * 100.0);
    writeln!(out, "  {:<20}{refused:>11.1}%  {late:.1}% timed out", "tries refused")?;
    if tries.syn_retries > 0 {
        writeln!(
            out,
            "  {:<20}{:>12}  connections of 0.9 s or more",
            "SYN lost", tries.syn_retries
        )?;
    }
    Ok(())
}

/// A line for each time that was taken.
fn times(out: &mut String, report: &Report) -> std::fmt::Result {
    let names = ["min", "p50", "p75", "p90", "p95", "p99", "p99.9", "p99.99", "max"];
    let names: String = names.map(|name| format!(" {name:>8}")).concat();
    writeln!(out, "  {:<20}{names}", "")?;
    let (tally, shaken) = (&report.tally, &report.tally.handshakes);
    // Where the server sets the pace nothing is due before it is begun.
    let is_closed = report.asked.mode == "closed";
    let rows = [
        ("latency", is_closed, &tally.latency),
        ("latency, as intended", !is_closed, &tally.latency),
        ("latency, as begun", !is_closed, &tally.latency_actual),
        ("admitted", tally.tries.are_told(), &tally.tries.admitted),
        ("admitted, no SYN lost", tally.tries.syn_retries > 0, &tally.tries.admitted_at_once),
        ("connect", true, &tally.connect),
        ("handshake, full", shaken.is_any(), &shaken.full),
        ("handshake, resumed", shaken.is_any(), &shaken.resumed),
        ("first byte", true, &tally.first_byte),
        ("own lateness", true, &tally.lateness),
    ];
    for (name, _, times) in rows.into_iter().filter(|(_, is_shown, _)| *is_shown) {
        writeln!(out, "  {name:<20}{}", row(times))?;
    }
    writeln!(out)
}

fn handshakes(out: &mut String, report: &Report) -> std::fmt::Result {
    let shaken = &report.tally.handshakes;
    if !shaken.is_any() {
        return Ok(());
    }
    let (full, resumed) = (shaken.full.count(), shaken.resumed.count());
    let per_s = report.per_s(full + resumed);
    let failed = shaken.failed;
    writeln!(out, "  handshakes{per_s:>12.1}/s  {full} full, {resumed} resumed, {failed} failed")?;
    shaken.agreed.iter().try_for_each(|agreed| writeln!(out, "  agreed on {agreed}"))?;
    let failures = &mut shaken.failure.iter();
    failures.try_for_each(|why| writeln!(out, "  the first failed handshake: {why}"))
}

fn load(report: &Report) -> String {
    let asked = &report.asked;
    match asked.mode.as_str() {
        "closed" => format!("{} connections", asked.load),
        "sessions" => format!("{} sessions/s ({})", asked.load, asked.arrivals),
        "kept" => {
            let kept = asked.kept_connections.unwrap_or(0);
            format!("{} requests/s ({}) on {kept} connections", asked.load, asked.arrivals)
        }
        "replay" => format!("{} the times of a log", asked.load),
        _ => format!("{} connections/s ({})", asked.load, asked.arrivals),
    }
}

fn row(times: &Times) -> String {
    if times.count() == 0 {
        return format!(" {:>8}", "-");
    }
    let between = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];
    let between = between.map(|percentile| times.percentile_us(percentile));
    let all = [times.min_us()].into_iter().chain(between).chain([times.max_us()]);
    all.map(|us| format!(" {:>8}", short(us))).collect()
}

/// A time in the unit that suits it.
pub fn short(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.1}us"),
        us if us < 1e6 => format!("{:.2}ms", us / 1e3),
        us => format!("{:.2}s", us / 1e6),
    }
}

fn seconds(s: f64) -> String {
    if s < 1.0 { format!("{:.0} ms", s * 1000.0) } else { format!("{s} s") }
}
