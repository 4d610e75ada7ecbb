//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

use flyball_observe::histogram::Distribution;

/// The media type of the format.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4";

/// Nanoseconds in a second.
pub(super) const NS_PER_S: f64 = 1e9;

/// A text that grows by families of samples.
#[derive(Debug, Default)]
pub(super) struct Text(String);

/// The samples of one family; they stay together.
#[derive(Debug)]
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'a str,
}

/// Labels and their values. Both are few and known: nothing that a client wrote is among them.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Text {
    pub(super) fn finish(self) -> String {
        self.0
    }

    /// A value that only grows; the name ends in `_total`.
    pub(super) fn counter<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, "counter", help)
    }

    /// A value that grows and shrinks.
    pub(super) fn gauge<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, "gauge", help)
    }

    /// Observations by size.
    pub(super) fn histogram<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, "histogram", help)
    }

    fn family<'a>(&'a mut self, name: &'a str, kind: &str, help: &str) -> Family<'a> {
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { text: &mut self.0, name }
    }
}

impl Family<'_> {
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl Display) -> &mut Self {
        self.line("", labels, value)
    }

    /// Times, in seconds.
    pub(super) fn times(&mut self, labels: Labels<'_>, times: &Distribution<'_>) {
        let mut counts: Vec<(String, u64)> = times
            .below_powers()
            .map(|(bound_ns, count)| ((bound_ns as f64 / NS_PER_S).to_string(), count))
            .collect();
        // The last bucket holds whatever took longer as well.
        counts.pop();
        self.distribution(labels, &counts, times.count(), times.sum_ns() as f64 / NS_PER_S);
    }

    /// What was at most each bound, of all, and the sum.
    pub(super) fn distribution(
        &mut self,
        labels: Labels<'_>,
        counts: &[(String, u64)],
        count: u64,
        sum: impl Display,
    ) {
        let infinity = ("+Inf".to_string(), count);
        for (bound, count) in counts.iter().chain([&infinity]) {
            let mut bounded = labels.to_vec();
            bounded.push(("le", bound));
            self.line("_bucket", &bounded, count);
        }
        self.line("_sum", labels, sum);
        self.line("_count", labels, count);
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, value: impl Display) -> &mut Self {
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (at, (label, of)) in labels.iter().enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{open}{label}=\"{}\"", escaped(of));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
        self
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_help_are_escaped() {
        let mut text = Text::default();
        text.counter("a_total", "One\\\ntwo.").sample(&[("l", "\"\\\n")], 1).sample(&[], 2.5);
        let expected = "# HELP a_total One\\\\\\ntwo.\n# TYPE a_total counter\n\
                        a_total{l=\"\\\"\\\\\\n\"} 1\na_total 2.5\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn a_histogram_ends_with_its_sum_and_its_count() {
        let mut text = Text::default();
        let counts = [("1".to_string(), 2), ("2".to_string(), 3)];
        text.histogram("h", "H.").distribution(&[("a", "b")], &counts, 4, 9);
        let expected = "# HELP h H.\n# TYPE h histogram\nh_bucket{a=\"b\",le=\"1\"} 2\n\
                        h_bucket{a=\"b\",le=\"2\"} 3\nh_bucket{a=\"b\",le=\"+Inf\"} 4\n\
                        h_sum{a=\"b\"} 9\nh_count{a=\"b\"} 4\n";
        assert_eq!(text.finish(), expected);
    }
}
