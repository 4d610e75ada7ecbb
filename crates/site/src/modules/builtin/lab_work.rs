//! A request that takes a known time, for experiments about overload: it burns processor time of
//! the thread that calls it, or sleeps in it. How much the options `burn-us` and `sleep-us` say, or
//! the query by the same names. Every client that may ask for it may take a server's time, so it is
//! built with the lab alone.

use std::time::Duration;

use flyball_module::{Exchange, Module, Open, Setup, Turn};
use flyball_sys::clock::thread_cpu_ns;

/// Longest work of one request of either kind, in milliseconds.
const WORK_MS_MAX: u64 = 10_000;

/// What a request costs if its query does not say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LabWork {
    /// Processor time, in microseconds.
    burn_us: u64,
    /// Time in which its thread does nothing.
    sleep_us: u64,
}

impl LabWork {
    /// The same with what a setting, or a part of a query, says.
    fn with(self, key: &str, value: &str) -> Result<LabWork, String> {
        let most = WORK_MS_MAX * 1_000;
        let us = value.parse().ok().filter(|us| *us <= most);
        let us = us.ok_or_else(|| format!("{key} is at most {most}, in microseconds"));
        match key {
            "burn-us" => Ok(LabWork { burn_us: us?, ..self }),
            "sleep-us" => Ok(LabWork { sleep_us: us?, ..self }),
            _ => Err(format!("there is no option {key}: there are burn-us and sleep-us")),
        }
    }

    fn asked_by(self, query: &[u8]) -> Result<LabWork, String> {
        let query = str::from_utf8(query).map_err(|error| error.to_string())?;
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .try_fold(self, |work, (key, value)| work.with(key, value))
    }

    /// Blocks for as long as it takes.
    fn work(self) {
        let until_ns = thread_cpu_ns() + self.burn_us * 1_000;
        while thread_cpu_ns() < until_ns {
            std::hint::spin_loop();
        }
        if self.sleep_us > 0 {
            std::thread::sleep(Duration::from_micros(self.sleep_us));
        }
    }
}

impl Open for LabWork {
    fn open(setup: &mut dyn Setup) -> Result<LabWork, String> {
        let options = setup.options().iter();
        options
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .try_fold(LabWork::default(), |work, (key, value)| work.with(key, value))
    }
}

impl Module for LabWork {
    fn answer(&self, exchange: &mut dyn Exchange) -> Turn {
        let (status, text) = match self.asked_by(exchange.query()) {
            Ok(work) => {
                work.work();
                (200, "worked\n".to_owned())
            }
            Err(why) => (400, why + "\n"),
        };
        let answered = exchange
            .set_status(status)
            .and_then(|()| exchange.add_field(b"Content-Type", b"text/plain"))
            .and_then(|()| exchange.write(text.as_bytes()));
        match answered {
            Ok(()) => Turn::Done,
            Err(_) => Turn::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_takes_the_place_of_options_and_a_bound_of_both() {
        let set = LabWork::default().with("burn-us", "5000").unwrap();
        assert_eq!(set.asked_by(b""), Ok(set));
        let both = LabWork { burn_us: 7, sleep_us: WORK_MS_MAX * 1_000 };
        assert_eq!(set.asked_by(b"sleep-us=10000000&burn-us=7"), Ok(both));
        for wrong in ["burn-us=10000001", "burn-us=-1", "burn-us", "sleep-us=x", "sleep=1"] {
            assert!(set.asked_by(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(set.asked_by(b"burn-us=\xff").is_err());
    }

    #[test]
    fn work_takes_processor_time_and_sleep_takes_none() {
        let cpu_ns = thread_cpu_ns();
        LabWork { burn_us: 3_000, sleep_us: 0 }.work();
        assert!(thread_cpu_ns() - cpu_ns >= 3_000_000);
        let (cpu_ns, begun) = (thread_cpu_ns(), std::time::Instant::now());
        LabWork { burn_us: 0, sleep_us: 20_000 }.work();
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert!(thread_cpu_ns() - cpu_ns < 20_000_000);
    }
}
