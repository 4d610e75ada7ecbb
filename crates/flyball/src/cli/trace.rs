//! `flyball ctl trace`: which timelines are asked for.

use clap::builder::ValueParser;
use clap::{Arg, ArgMatches, Command, value_parser};

use super::json;

/// Longest name of a host, in bytes (RFC 1035, section 2.3.4).
const HOST_BYTES_MAX: usize = 255;

/// Which timelines of a running server are asked for, and how they are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// One request in so many.
    pub sample: u64,
    /// End after so many timelines; `None` goes on until it is interrupted.
    pub count: Option<u64>,
    /// Only requests for this host.
    pub host: Option<String>,
    /// Only requests that took at least so long, in microseconds.
    pub slower_us: u64,
    /// An object of JSON in each line.
    pub json: bool,
}

pub(super) fn program() -> Command {
    Command::new("trace")
        .about("Print timelines of requests as they happen")
        .long_about(
            "Print timelines of requests as they happen: when the connection was accepted, the \
             head was whole, the caches had answered, work was asked for and done, and the first \
             and the last byte of the answer were sent, and what the request waited for. Requests \
             are traced only while this command runs. Timelines that are not read in time are \
             lost, and their number is printed at the end.",
        )
        .arg(
            Arg::new("sample")
                .long("sample")
                .value_name("1/N")
                .value_parser(ValueParser::new(sample))
                .default_value("1/1")
                .help("Trace one request in N"),
        )
        .arg(
            Arg::new("count")
                .long("count")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..))
                .help("End after N timelines"),
        )
        .arg(
            Arg::new("host")
                .long("host")
                .value_name("NAME")
                .value_parser(ValueParser::new(host))
                .help("Only requests for this host, whatever the port"),
        )
        .arg(
            Arg::new("slower-than")
                .long("slower-than")
                .value_name("TIME")
                .value_parser(ValueParser::new(microseconds))
                .help("Only requests that took as long, such as 10ms"),
        )
        .arg(json())
}

pub(super) fn parsed(given: &ArgMatches) -> Tracing {
    Tracing {
        sample: given.get_one("sample").copied().unwrap_or(1),
        count: given.get_one("count").copied(),
        host: given.get_one::<String>("host").cloned(),
        slower_us: given.get_one("slower-than").copied().unwrap_or_default(),
        json: given.get_flag("json"),
    }
}

fn sample(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix("1/").unwrap_or(if text == "1" { text } else { "" });
    let sample = number.parse().ok().filter(|sample| *sample > 0);
    sample.ok_or_else(|| "expected 1/N, such as 1/1000".into())
}

fn host(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if (1..=HOST_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err("expected the name or address of a host".into())
}

fn microseconds(text: &str) -> Result<u64, String> {
    let units = [("us", 1), ("ms", 1_000), ("s", 1_000_000)];
    let find = |(unit, us): &(&str, u64)| {
        text.strip_suffix(unit)?.trim().parse::<u64>().ok()?.checked_mul(*us)
    };
    units.iter().find_map(find).ok_or_else(|| "expected a time such as 10ms, 500us or 2s".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_times_and_hosts_are_read() {
        assert_eq!(sample("1/1000"), Ok(1_000));
        assert_eq!(sample("1"), Ok(1));
        for wrong in ["", "0", "2", "1/0", "1/x", "2/3", "1000"] {
            assert!(sample(wrong).is_err(), "{wrong}");
        }
        assert_eq!(microseconds("10ms"), Ok(10_000));
        assert_eq!(microseconds("2s"), Ok(2_000_000));
        assert_eq!(microseconds("500us"), Ok(500));
        for wrong in ["", "10", "ms", "-1s", "1.5s", "99999999999999999s"] {
            assert!(microseconds(wrong).is_err(), "{wrong}");
        }
        assert!(host("example.org").is_ok() && host("[::1]:80").is_ok());
        assert!(host("").is_err() && host("a b").is_err() && host("a&b").is_err());
    }
}
