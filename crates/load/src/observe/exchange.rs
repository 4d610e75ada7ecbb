//! The counts of a run as JSON that another process reads back: how machines put theirs together.

use serde_json::{Value, json};

use super::histogram::Times;
use super::series::Interval;
use super::tally::{ClassTally, Tally, Window};

/// Everything that [`tally_from_json`] needs.
pub fn tally_to_json(tally: &Tally) -> Value {
    let intervals: Vec<Value> = tally
        .intervals
        .iter()
        .map(|i| json!([i.second, i.sent, i.replies, i.good, i.errors, i.latencies]))
        .collect();
    json!({
        "window_ns": tally.window.to_ns.saturating_sub(tally.window.from_ns),
        // Written from a copy, so that the list of the counts is one.
        "counts": counts(&mut tally.clone()).map(|count| *count),
        "errors": tally.errors,
        "warmup_errors": tally.warmup_errors,
        "broken_rules": tally.broken_rules,
        "ends": tally.tries.ends,
        "status": tally.status,
        "times": [
            tally.latency.pairs(),
            tally.latency_actual.pairs(),
            tally.connect.pairs(),
            tally.first_byte.pairs(),
            tally.lateness.pairs(),
            tally.handshakes.full.pairs(),
            tally.handshakes.resumed.pairs(),
            tally.tries.admitted.pairs(),
            tally.tries.admitted_at_once.pairs(),
        ],
        "handshakes": [tally.handshakes.agreed, tally.handshakes.failure],
        "classes": classes_to_json(&tally.classes),
        "clients": tally.clients.iter().map(|c| classes_to_json(c)).collect::<Vec<_>>(),
        "intervals": intervals,
        "busy_max": tally.busy_max,
    })
}

fn classes_to_json(classes: &[ClassTally]) -> Value {
    classes.iter().map(|class| json!([class.replies, class.timeouts, class.bytes])).collect()
}

fn read_classes(value: &Value) -> Option<Vec<ClassTally>> {
    let each = value.as_array()?.iter().map(|found| {
        let [replies, timeouts, bytes] = numbers(found)?.try_into().ok()?;
        Some(ClassTally { replies, timeouts, bytes })
    });
    each.collect()
}

/// The plain counts, in the order of the wire.
fn counts(tally: &mut Tally) -> [&mut u64; 25] {
    [
        &mut tally.intended,
        &mut tally.sent,
        &mut tally.replies,
        &mut tally.replies_total,
        &mut tally.replies_in_window,
        &mut tally.good_in_window,
        &mut tally.unanswered,
        &mut tally.sessions,
        &mut tally.sessions_complete,
        &mut tally.connections,
        &mut tally.reconnects,
        &mut tally.open_max,
        &mut tally.backlog_max,
        &mut tally.body_bytes,
        &mut tally.bytes_in,
        &mut tally.bytes_out,
        &mut tally.late,
        &mut tally.cpu_ns,
        &mut tally.posts,
        &mut tally.handshakes.failed,
        &mut tally.good,
        &mut tally.tries.again,
        &mut tally.tries.given_up,
        &mut tally.tries.good_again,
        &mut tally.tries.syn_retries,
    ]
}

/// The counts that [`tally_to_json`] wrote; `None` when the value is something else.
pub fn tally_from_json(value: &Value) -> Option<Tally> {
    let window = Window { from_ns: 0, to_ns: value.get("window_ns")?.as_u64()? };
    let classes = read_classes(value.get("classes")?)?;
    let mut tally = Tally::new(window, classes.len());
    tally.classes = classes;
    for client in value.get("clients")?.as_array()? {
        tally.clients.push(read_classes(client)?);
    }
    read_counts(&mut tally, &numbers(value.get("counts")?)?)?;
    let errors = numbers(value.get("errors")?)?;
    tally.errors.iter_mut().zip(errors).for_each(|(to, from)| *to = from);
    let errors = numbers(value.get("warmup_errors")?)?;
    tally.warmup_errors.iter_mut().zip(errors).for_each(|(to, from)| *to = from);
    let broken = numbers(value.get("broken_rules")?)?;
    tally.broken_rules.iter_mut().zip(broken).for_each(|(to, from)| *to = from);
    let ends = numbers(value.get("ends")?)?;
    tally.tries.ends.iter_mut().zip(ends).for_each(|(to, from)| *to = from);
    let status = numbers(value.get("status")?)?;
    tally.status.iter_mut().zip(status).for_each(|(to, from)| *to = from);
    let times = value.get("times")?.as_array()?;
    let mut times = times.iter().map(|pairs| Some(Times::from_pairs(&read_pairs(pairs)?)));
    tally.latency = times.next()??;
    tally.latency_actual = times.next()??;
    tally.connect = times.next()??;
    tally.first_byte = times.next()??;
    tally.lateness = times.next()??;
    tally.handshakes.full = times.next()??;
    tally.handshakes.resumed = times.next()??;
    tally.tries.admitted = times.next()??;
    tally.tries.admitted_at_once = times.next()??;
    let told = |at: usize| value["handshakes"][at].as_str().map(String::from);
    (tally.handshakes.agreed, tally.handshakes.failure) = (told(0), told(1));
    for interval in value.get("intervals")?.as_array()? {
        tally.intervals.push(read_interval(interval)?);
    }
    tally.busy_max = value.get("busy_max")?.as_f64()?;
    Some(tally)
}

fn read_counts(tally: &mut Tally, found: &[u64]) -> Option<()> {
    let counts = counts(tally);
    if counts.len() != found.len() {
        return None;
    }
    counts.into_iter().zip(found).for_each(|(count, found)| *count = *found);
    Some(())
}

fn read_interval(value: &Value) -> Option<Interval> {
    let parts = value.as_array()?;
    let number = |at: usize| parts.get(at)?.as_u64();
    Some(Interval {
        second: number(0)?,
        sent: number(1)?,
        replies: number(2)?,
        good: number(3)?,
        errors: number(4)?,
        latencies: read_pairs(parts.get(5)?)?,
    })
}

fn numbers(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(Value::as_u64).collect()
}

fn read_pairs(value: &Value) -> Option<Vec<(u64, u64)>> {
    let pair = |value: &Value| Some((value.get(0)?.as_u64()?, value.get(1)?.as_u64()?));
    value.as_array()?.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Kind;

    #[test]
    fn counts_come_through_as_they_were() {
        let mut tally = Tally::new(Window { from_ns: 5, to_ns: 1_000_000_005 }, 1);
        let mut sent: [u64; 25] = std::array::from_fn(|n| n as u64 + 1);
        read_counts(&mut tally, &sent).unwrap();
        tally.broken_rules[2] = 7;
        tally.error(Kind::Reset, true);
        tally.error(Kind::WrongBody, false);
        tally.status[404] = 3;
        tally.latency.record(1_234_567);
        tally.lateness.record(99);
        tally.tries.admitted.record(77);
        tally.tries.ends = [1, 2, 3, 4, 5, 6, 7];
        tally.handshakes.done(true, 5_000);
        tally.handshakes.agree(|| "TLSv1.3".into());
        tally.classes[0] = ClassTally { replies: 1, timeouts: 2, bytes: 3 };
        tally.clients = vec![tally.classes.clone(), vec![ClassTally::default()]];
        let latencies = vec![(1000, 2)];
        tally.intervals = vec![Interval { second: 1, sent: 2, latencies, ..Interval::default() }];
        tally.busy_max = 0.5;
        let text = tally_to_json(&tally).to_string();
        let mut again = tally_from_json(&serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(counts(&mut again).map(|count| *count), sent);
        assert_eq!(again.broken_rules, tally.broken_rules);
        assert_eq!(again.tries.ends, tally.tries.ends);
        assert_eq!(again.tries.admitted.count(), 1);
        assert_eq!((again.errors, &again.status), (tally.errors, &tally.status));
        assert_eq!(again.warmup_errors, tally.warmup_errors);
        assert_eq!((&again.classes, &again.intervals), (&tally.classes, &tally.intervals));
        assert_eq!(again.clients, tally.clients);
        assert_eq!(again.latency.count(), 1);
        assert_eq!((again.handshakes.full.count(), again.handshakes.resumed.count()), (0, 1));
        assert_eq!(again.handshakes.agreed.as_deref(), Some("TLSv1.3"));
        assert!((again.latency.max_us() / tally.latency.max_us() - 1.0).abs() < 0.001);
        assert!((again.window.seconds() - 1.0).abs() < 1e-9);
        sent[0] = 0;
        assert!(tally_from_json(&json!({"counts": sent})).is_none());
    }
}
