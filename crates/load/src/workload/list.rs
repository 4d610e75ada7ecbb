//! A list of paths with weights: independent draws, as often as each weighs.

use super::{Follow, RequestId, Step, Workload};
use crate::random::{Purpose, Random};

/// Draws each request by its weight.
#[derive(Clone, Debug)]
pub struct WeightedList {
    /// The weights up to and with each request, and the request.
    upto: Vec<(f64, RequestId)>,
    requests: u32,
    pipelined: bool,
    seed: u64,
    random: Random,
}

impl WeightedList {
    /// Sessions of `requests` requests out of `list`, drawn with `seed`.
    ///
    /// # Panics
    /// When the list is empty or all weights are 0, which [`parse`](WeightedList::parse) refuses.
    pub fn new(list: &[(f64, RequestId)], requests: u32, seed: u64) -> WeightedList {
        let mut sum = 0.0;
        let upto: Vec<_> = list
            .iter()
            .map(|&(weight, request)| {
                sum += weight;
                (sum, request)
            })
            .collect();
        assert!(sum > 0.0, "a list has a weight");
        let random = Random::new(seed, Purpose::Requests);
        WeightedList { upto, requests, pipelined: false, seed, random }
    }

    /// The same, with the requests of a session sent together as far as they may be pipelined.
    #[must_use]
    pub fn pipelined(mut self, pipelined: bool) -> WeightedList {
        self.pipelined = pipelined;
        self
    }

    /// Lines of `PATH` or `PATH WEIGHT`; a path may be a URL of `site`, such as `http://h:80`.
    /// Empty lines and those that begin with `#` are passed over.
    ///
    /// # Errors
    /// The number of a line that is none of these, and why.
    pub fn parse(text: &str, site: &str) -> Result<Vec<(String, f64)>, String> {
        let mut list = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            let mut words = line.split_whitespace();
            let Some(path) = words.next().filter(|path| !path.starts_with('#')) else { continue };
            let path = match path.strip_prefix(site) {
                Some("") => "/",
                Some(rest) if rest.starts_with('/') => rest,
                _ if path.contains("://") && !path.starts_with('/') => {
                    return Err(format!("line {number}: {path} is no URL of {site}"));
                }
                _ => path,
            };
            if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!("line {number}: {path:?} is not a path"));
            }
            let weight = words.next().map_or(Ok(1.0), str::parse).unwrap_or(f64::NAN);
            if !(weight.is_finite() && weight >= 0.0) || words.next().is_some() {
                return Err(format!("line {number}: expected PATH and a weight, such as `/a 2.5`"));
            }
            list.push((path.to_owned(), weight));
        }
        if list.iter().any(|(_, weight)| *weight > 0.0) {
            Ok(list)
        } else {
            Err("the list names nothing to ask for".into())
        }
    }

    fn draw(&mut self) -> RequestId {
        let sum = self.upto.last().map_or(0.0, |last| last.0);
        let drawn = self.random.unit() * sum;
        let at = self.upto.partition_point(|(upto, _)| *upto <= drawn);
        self.upto[at.min(self.upto.len() - 1)].1
    }
}

impl Workload for WeightedList {
    fn next_session(&mut self, steps: &mut Vec<Step>) -> bool {
        let follow = if self.pipelined { Follow::Together } else { Follow::Pause };
        for _ in 0..self.requests {
            let request = self.draw();
            steps.push(Step { request, follow });
        }
        true
    }

    fn fork(&self, index: usize, _threads: usize) -> Box<dyn Workload> {
        let seed = self.seed.wrapping_add(index as u64);
        let random = Random::new(seed, Purpose::Requests);
        Box::new(WeightedList { random, ..self.clone() })
    }

    fn requests_per_session(&self) -> f64 {
        f64::from(self.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_drawn_as_often_as_they_weigh() {
        let mut list = WeightedList::new(&[(1.0, 0), (0.0, 1), (3.0, 2)], 1, 5);
        let (mut steps, mut counts) = (Vec::new(), [0f64; 3]);
        for _ in 0..40_000 {
            steps.clear();
            assert!(list.next_session(&mut steps));
            counts[steps[0].request as usize] += 1.0;
        }
        assert!((counts[0] / 10_000.0 - 1.0).abs() < 0.05, "{counts:?}");
        assert!(counts[1] < 0.5, "{counts:?}");
        assert!((counts[2] / 30_000.0 - 1.0).abs() < 0.05, "{counts:?}");
    }

    #[test]
    fn a_list_is_read_line_by_line_and_a_wrong_line_is_named() {
        let parse = |text: &str| WeightedList::parse(text, "http://h:80");
        let text = "# weights\n/a 2\n\n/b\nhttp://h:80/c?d 3\nhttp://h:80\n";
        let list = [("/a", 2.0), ("/b", 1.0), ("/c?d", 3.0), ("/", 1.0)];
        let list: Vec<_> = list.map(|(path, weight)| (path.to_owned(), weight)).into();
        assert_eq!(parse(text), Ok(list));
        for (text, why) in [
            ("/a\nb 2", "line 2"),
            ("http://other/a", "line 1: http://other/a is no URL of http://h:80"),
            ("http://h:8080/a", "is no URL of"),
            ("/a x", "line 1"),
            ("/a 1 2", "line 1"),
            ("/a -1", "line 1"),
            ("/a 0", "nothing"),
            ("", "nothing"),
        ] {
            assert!(parse(text).unwrap_err().contains(why), "{text}");
        }
    }
}
