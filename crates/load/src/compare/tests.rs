use super::*;
use crate::observe::{self, Asked, Report, Tally, Window};

/// The report of a run of ten seconds with 100 replies in each, of so many milliseconds and up.
fn report(first_ms: u64) -> String {
    let mut tally = Tally::new(Window { from_ns: 0, to_ns: 10_000_000_000 }, 0);
    for nth in 0..1_000 {
        tally.latency.record((first_ms + nth % 100) * 1_000_000);
    }
    (tally.replies, tally.replies_total) = (1_000, 1_000);
    (tally.sent, tally.replies_in_window, tally.good_in_window) = (1_000, 1_000, 1_000);
    tally.intervals = (0..10)
        .map(|second| {
            let (replies, good) = (100 + second % 2, 100);
            observe::Interval { second, sent: 100, replies, good, ..observe::Interval::default() }
        })
        .collect();
    let asked =
        Asked { mode: "open".into(), late_after: std::time::Duration::MAX, ..Asked::default() };
    observe::json(&Report { asked, tally, ..Report::default() }).to_string()
}

fn side(name: &str, text: &str) -> Side {
    Side::read(name, text).unwrap()
}

fn row(rows: &[Row], name: &str) -> Row {
    *rows.iter().find(|row| row.name == name).unwrap()
}

#[test]
fn ranks_around_a_quantile_are_those_of_the_binomial_distribution() {
    // 100 requests: 50 give or take 1.96 times 5.
    assert_eq!(side::ranks(100.0, 0.5), Some((40, 60)));
    assert_eq!(side::ranks(10_000.0, 0.99), Some((9_880, 9_920)));
    assert_eq!(side::ranks(100.0, 0.99), None, "one request is beyond it");
    assert_eq!(side::ranks(10_000.0, 0.9999), None);
}

#[test]
fn one_run_tells_intervals_from_within_and_says_so() {
    let (a, b) = (side("a.json", &report(1)), side("b.json", &report(51)));
    let rows = rows(&a, &b);
    let median = row(&rows, "p50");
    let interval = median.a.interval.unwrap();
    assert!((median.a.figure / 50_000.0 - 1.0).abs() < 0.01, "{median:?}");
    // Ranks 469 and 531 of a thousand, ten at each millisecond.
    assert!((interval.low / 47_000.0 - 1.0).abs() < 0.01, "{interval:?}");
    assert!((interval.high / 54_000.0 - 1.0).abs() < 0.01, "{interval:?}");
    assert_eq!(median.is_apart(), Some(true));
    assert!((median.ratio().unwrap().middle - 2.0).abs() < 0.01);
    assert_eq!(row(&rows, "p99.99").is_apart(), None, "a thousand requests do not tell");
    let rate = row(&rows, "replies/s");
    assert!(rate.a.interval.is_some_and(|found| found.low <= 100.0 && found.high >= 100.5));
    assert_eq!(rate.is_apart(), Some(false));
    let told = text(&a, &b);
    assert!(told.contains("A: a.json, one run\n   intervals: 95 % within one run"), "{told}");
    assert!(
        told.contains(") apart in these runs\n") && told.contains("too little to tell"),
        "{told}"
    );
    assert_eq!(json(&a, &b)["figures"].as_array().unwrap().len(), FIGURES.len());
    assert!(unlike(&a, &b).is_empty() && void(&a, &b).is_empty());
}

#[test]
fn of_several_runs_the_interval_is_that_of_their_mean() {
    let many = |ms: [u64; 4]| ms.map(report).join("\n");
    let (a, b) = (side("a", &many([1, 2, 3, 2])), side("b", &many([1, 2, 2, 3])));
    let rows = rows(&a, &b);
    let median = row(&rows, "p50");
    assert_eq!((a.runs(), median.is_apart()), (4, Some(false)));
    let interval = median.a.interval.unwrap();
    assert!(interval.low < 51_000.0 && interval.high > 51_000.0, "{interval:?}");
    assert!(text(&a, &b).contains("4 runs\n   intervals: 95 % of the mean of the runs"));
}

#[test]
fn too_few_runs_are_no_difference_and_how_many_may_tell_is_said() {
    let many = |ms: &[u64]| ms.iter().map(|ms| report(*ms)).collect::<Vec<_>>().join("\n");
    let (a, b) = (side("a", &many(&[1, 2, 3])), side("b", &many(&[201, 202, 203])));
    let few = row(&rows(&a, &b), "p50");
    assert_eq!((few.is_apart(), runs_needed(&few, &a, &b)), (Some(true), Some(5)));
    let told = text(&a, &b);
    assert!(told.contains("too little to tell: take about 5 runs of each\n"), "{told}");
    assert!(!told.contains(" differs\n"), "{told}");
    let near = side("b", &many(&[2, 3, 4]));
    let needed = runs_needed(&row(&rows(&a, &near), "p50"), &a, &near);
    assert!(needed.is_some_and(|runs| runs > 5), "{needed:?}");
    let (a, b) = (side("a", &many(&[1, 2, 3, 1, 2])), side("b", &many(&[201, 202, 203, 201, 202])));
    assert_eq!(runs_needed(&row(&rows(&a, &b), "p50"), &a, &b), None);
    assert!(text(&a, &b).contains(" differs\n"));
    let wide =
        |low, high| Found { figure: 1.0, interval: Some(Interval { low, middle: 1.0, high }) };
    let wide = Row { name: "p50", is_time: true, a: wide(0.01, 2.0), b: wide(0.5, 2.0) };
    assert!(runs_needed(&wide, &a, &b).is_some());
}

#[test]
fn http_beside_https_is_told() {
    let of = |url: &str| {
        let mut report: serde_json::Value = serde_json::from_str(&report(1)).unwrap();
        report["url"] = url.into();
        side("x", &report.to_string())
    };
    let (a, b) = (of("http://h:80/"), of("https://h:443/"));
    assert_eq!(unlike(&a, &b), ["scheme: http and https"]);
    assert!(unlike(&a, &of("http://other/")).is_empty());
}

#[test]
fn what_is_no_report_and_what_does_not_count_is_told() {
    for (text, why) in
        [("", "no report"), ("{}", "no report of `flyball load"), ("{", "EOF while parsing")]
    {
        assert!(Side::read("x", text).unwrap_err().contains(why), "{text}");
    }
    let mut late: serde_json::Value = serde_json::from_str(&report(1)).unwrap();
    late["client_limited_because"] = serde_json::json!(["it was late"]);
    late["version"] = "0.0.0".into();
    let (a, b) = (side("a", &report(1)), side("b", &late.to_string()));
    assert_eq!(void(&a, &b), ["b, run 1: it was late"]);
    assert!(unlike(&a, &b)[0].starts_with("version: "), "{:?}", unlike(&a, &b));
    assert!(text(&a, &b).contains("VOID: b, run 1: it was late"));
}
