//! What the process of `--admin` answers to `flyball ctl trace`: the timelines since it last asked.
//!
//! The client asks again and again. That it asked holds for [`LEASE_MS`], so that tracing ends with
//! the client, however that ends, and nobody else is kept waiting meanwhile.

use flyball_http::Status;
use flyball_sys::clock;
use serde_json::json;

use super::ring::{Filter, Ring, host_hash};
use crate::text;

/// How long workers trace after they were asked to, in milliseconds.
const LEASE_MS: u64 = 2_000;

/// Longest name of a host that is asked for, in bytes.
const HOST_BYTES_MAX: usize = 255;

/// Answers `POST /trace?sample=N&slower-us=N&host=NAME&after=N`. Without `after` it begins now.
/// Never waits.
pub fn answer(ring: &Ring, query: &[u8]) -> (Status, &'static str, String) {
    let (filter, after) = match parse(query) {
        Ok(asked) => asked,
        Err(why) => return (Status::BAD_REQUEST, "text/plain", why + "\n"),
    };
    ring.ask(&filter, clock::monotonic_ms() + LEASE_MS);
    let (records, lost, next) = ring.read(after.unwrap_or_else(|| ring.next()));
    let takes = records.iter().filter(|record| filter.takes(record));
    let records: Vec<_> =
        takes.map(|record| json!({ "line": record.line(), "record": record.json() })).collect();
    let answer = json!({ "next": next, "lost": lost, "records": records });
    (Status::OK, "application/json", text::ascii_json(&answer))
}

fn parse(query: &[u8]) -> Result<(Filter, Option<u64>), String> {
    let query = std::str::from_utf8(query).map_err(|_| "expected text".to_owned())?;
    let mut filter = Filter { sample: 1, slower_us: 0, host: 0 };
    let mut after = None;
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let number = || value.parse::<u64>().map_err(|_| format!("{key}: expected a number"));
        match key {
            "sample" => filter.sample = number()?,
            "slower-us" => filter.slower_us = number()?,
            "after" => after = Some(number()?),
            "host" if (1..=HOST_BYTES_MAX).contains(&value.len()) => {
                filter.host = host_hash(value.as_bytes());
            }
            "host" => return Err("host: expected a name".to_owned()),
            _ => return Err(format!("{key:?} is not known: sample, slower-us, host, after are")),
        }
    }
    match filter.sample {
        0 => Err("sample: expected 1 or more".to_owned()),
        _ => Ok((filter, after)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::example;
    use super::*;

    #[test]
    fn timelines_are_told_from_when_they_were_asked_for() {
        let ring = Ring::new().unwrap();
        ring.publish(&example());
        let ask = |query: &str| -> serde_json::Value {
            let (status, _, text) = answer(&ring, query.as_bytes());
            assert_eq!(status, Status::OK, "{text}");
            serde_json::from_str(&text).unwrap()
        };
        let first = ask("sample=1");
        assert_eq!((&first["next"], &first["records"]), (&json!(1), &json!([])));
        ring.publish(&example());
        let next = ask("sample=1&after=1&host=EXAMPLE.org");
        assert_eq!((next["records"].as_array().unwrap().len(), &next["lost"]), (1, &json!(0)));
        assert_eq!(next["records"][0]["record"]["waits_us"]["disk"], 2345);
        for filter in ["host=other.org", "slower-us=3001"] {
            assert_eq!(ask(&format!("after=1&{filter}"))["records"], json!([]), "{filter}");
        }
        assert!(ring.filter(clock::monotonic_ms()).is_some());
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_asks_nobody() {
        let ring = Ring::new().unwrap();
        for query in ["sample=0", "sample=x", "host=", "after=-1", "slow=1", "\u{fffd}"] {
            let (status, ..) = answer(&ring, query.as_bytes());
            assert_eq!(status, Status::BAD_REQUEST, "{query}");
        }
        assert_eq!(answer(&ring, b"\xff").0, Status::BAD_REQUEST);
        assert_eq!(ring.filter(0), None);
    }
}
