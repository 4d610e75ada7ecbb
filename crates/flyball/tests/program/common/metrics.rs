//! The text format of Prometheus, version 0.0.4, read more strictly than it is defined.

use std::collections::{BTreeMap, BTreeSet};

/// A sample: what stands behind its family's name, its labels and its value.
#[derive(Clone, Debug)]
pub struct Sample {
    pub suffix: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// The samples of one name.
#[derive(Clone, Debug)]
pub struct Family {
    pub kind: String,
    pub samples: Vec<Sample>,
}

impl Family {
    /// Its only sample, which has no label.
    #[track_caller]
    pub fn single(&self) -> f64 {
        match &self.samples[..] {
            [sample] if sample.labels.is_empty() => sample.value,
            other => panic!("not a single sample: {other:?}"),
        }
    }

    /// Its values by its only label.
    #[track_caller]
    pub fn by(&self, label: &str) -> BTreeMap<String, f64> {
        let value = |sample: &Sample| match sample.labels.iter().next() {
            Some((name, of)) if name == label && sample.labels.len() == 1 => {
                (of.clone(), sample.value)
            }
            _ => panic!("another label than {label}: {sample:?}"),
        };
        self.samples.iter().map(value).collect()
    }

    /// How many a histogram has counted, in all.
    pub fn count(&self) -> f64 {
        self.samples.iter().filter(|s| s.suffix == "_count").map(|s| s.value).sum()
    }
}

/// Families by name. Each has HELP and then TYPE before its samples, which stay together and
/// differ in their labels; histograms are cumulative and whole.
#[track_caller]
pub fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'), "the last line ends");
    let mut families = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let help = line.strip_prefix("# HELP ").unwrap_or_else(|| panic!("no HELP: {line:?}"));
        let (name, help) = help.split_once(' ').expect("a name and a sentence");
        assert!(is_name(name), "{name:?}");
        assert!(help.ends_with('.') && !help.contains('\\'), "{help:?}");
        let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE "));
        let kind = kind.and_then(|kind| kind.strip_prefix(name)).expect("TYPE of the same name");
        let kind = kind.trim_start().to_string();
        assert!(["counter", "gauge", "histogram"].contains(&kind.as_str()), "{kind:?}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        let mut samples = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            samples.push(parse_sample(line, name));
        }
        let series: BTreeSet<_> = samples.iter().map(|s| (&s.suffix, &s.labels)).collect();
        assert_eq!(series.len(), samples.len(), "{name}: two samples with the same labels");
        assert!(!samples.is_empty(), "{name} has no sample");
        match kind.as_str() {
            "histogram" => check_histogram(name, &samples),
            _ => assert!(samples.iter().all(|s| s.suffix.is_empty()), "{name} has suffixes"),
        }
        let twice = families.insert(name.to_string(), Family { kind, samples });
        assert!(twice.is_none(), "{name} comes twice");
    }
    families
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `name 1` or `name{label="value",...} 1`.
fn parse_sample(line: &str, family: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line:?}"));
    let value = match value {
        "+Inf" => f64::INFINITY,
        value => value.parse().unwrap_or_else(|_| panic!("not a number: {line:?}")),
    };
    let (name, labels) = match series.split_once('{') {
        None => (series, ""),
        Some((name, rest)) => (name, rest.strip_suffix('}').expect("the labels end")),
    };
    let suffix = name.strip_prefix(family);
    let suffix = suffix.unwrap_or_else(|| panic!("apart from its family: {line:?}")).to_string();
    let label = |text: &str| {
        let (label, value) = text.split_once('=').unwrap_or_else(|| panic!("{text:?}"));
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let value = value.filter(|value| !value.contains(['"', '\\'])).expect("a quoted value");
        assert!(is_name(label), "{label:?}");
        (label.to_string(), value.to_string())
    };
    let labels = labels.split(',').filter(|label| !label.is_empty()).map(label).collect();
    Sample { suffix, labels, value }
}

/// Buckets, a sum and a count for each set of labels; buckets grow up to that count.
fn check_histogram(name: &str, samples: &[Sample]) {
    let mut samples = samples.iter().peekable();
    while samples.peek().is_some() {
        let (mut bound, mut below, mut labels) = (f64::NEG_INFINITY, 0.0, BTreeMap::new());
        while let Some(bucket) = samples.next_if(|sample| sample.suffix == "_bucket") {
            labels = bucket.labels.clone();
            let le = labels.remove("le").unwrap_or_else(|| panic!("{name}: a bucket without le"));
            let le = if le == "+Inf" { f64::INFINITY } else { le.parse().expect("a bound") };
            assert!(le > bound && bucket.value >= below, "{name}: {bucket:?} after {below}");
            (bound, below) = (le, bucket.value);
        }
        assert_eq!(bound, f64::INFINITY, "{name}: no bucket for all");
        let [sum, count] = ["_sum", "_count"].map(|suffix| {
            let sample = samples.next().unwrap_or_else(|| panic!("{name} has no {suffix}"));
            assert_eq!((sample.suffix.as_str(), &sample.labels), (suffix, &labels), "{name}");
            sample.value
        });
        assert_eq!(count, below, "{name}");
        assert!(sum >= 0.0 && (count > 0.0 || sum == 0.0), "{name}: {sum}");
    }
}
