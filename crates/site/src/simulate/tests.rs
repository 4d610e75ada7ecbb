use std::io::Cursor;

use flyball_http::random::Stream;

use super::*;

const KIB: u64 = 1024;

/// From 0 to 1.
fn share(random: &mut Stream) -> f64 {
    (random.number() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Ranks whose frequencies follow Zipf's law.
struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    fn new(ranks: usize) -> Zipf {
        let mut sum = 0.0;
        let weigh = |rank| {
            sum += 1.0 / rank as f64;
            sum
        };
        Zipf { sums: (1..=ranks).map(weigh).collect() }
    }

    fn draw(&self, random: &mut Stream) -> usize {
        let at = share(random) * self.sums.last().unwrap();
        self.sums.partition_point(|sum| *sum < at)
    }
}

fn line(path: &str, bytes: u64, referer: &str) -> String {
    format!("- - - [-] \"GET {path} HTTP/1.1\" 200 {bytes} \"{referer}\" \"-\"\n")
}

fn options(sizes: &[u64]) -> Options {
    Options {
        policies: CachePolicy::ALL.to_vec(),
        sizes: sizes.to_vec(),
        small_bytes_max: 64 * KIB,
        root: None,
        hints: Hints::default(),
    }
}

fn replay(options: Options, log: &str) -> Report {
    let mut simulation = Simulation::new(options).unwrap();
    simulation.replay(Cursor::new(log), |_| {}).unwrap();
    simulation.report()
}

/// The hit ratio of requests.
fn ratio(report: &Report, policy: CachePolicy, size: u64) -> f64 {
    report.hit_ratio(report.outcome(policy, size).unwrap())
}

/// Popular files, and now and then somebody who asks for all others once.
fn with_scans() -> String {
    let (mut random, zipf) = (Stream::of(1), Zipf::new(300));
    let mut log = String::new();
    for round in 0..40 {
        for _ in 0..500 {
            log += &line(&format!("/popular/{}", zipf.draw(&mut random)), 3_000, "-");
        }
        for n in 0..400 {
            log += &line(&format!("/scanned/{round}/{n}"), 3_000, "-");
        }
    }
    log
}

/// What is popular changes all the time, and comes never back.
fn with_drift() -> String {
    let (mut random, zipf) = (Stream::of(2), Zipf::new(300));
    let mut log = String::new();
    for step in 0..20_000 {
        let file = zipf.draw(&mut random) + step / 8;
        log += &line(&format!("/news/{file}"), 3_000, "-");
    }
    log
}

/// Pages with objects of their own and shared ones, as a browser asks for them.
fn with_pages() -> String {
    let (mut random, zipf) = (Stream::of(3), Zipf::new(200));
    let mut log = String::new();
    for _ in 0..4_000 {
        let page = zipf.draw(&mut random);
        let path = format!("/pages/{page}.html");
        log += &line(&path, 4_000, "-");
        for n in 0..6 {
            let referer = format!("http://localhost{path}");
            log += &line(&format!("/pages/{page}-{n}.png"), 2_000, &referer);
        }
        log += &line("/site.css", 1_000, &format!("http://localhost{path}"));
    }
    log
}

#[test]
fn lfu_beats_lru_under_scans_and_lru_beats_lfu_under_drift() {
    let size = 512 * KIB;
    let scans = replay(options(&[size]), &with_scans());
    let [lru, lfu] = [CachePolicy::Lru, CachePolicy::Lfu].map(|p| ratio(&scans, p, size));
    assert!(lfu > lru + 0.02, "scans: lfu {lfu}, lru {lru}");
    let drift = replay(options(&[size]), &with_drift());
    let [lru, lfu] = [CachePolicy::Lru, CachePolicy::Lfu].map(|p| ratio(&drift, p, size));
    assert!(lru > lfu + 0.02, "drift: lru {lru}, lfu {lfu}");
}

#[test]
fn structured_beats_lru_on_pages_with_objects() {
    let size = 512 * KIB;
    let pages = replay(options(&[size]), &with_pages());
    let of = |policy| ratio(&pages, policy, size);
    let (lru, structured) = (of(CachePolicy::Lru), of(CachePolicy::Structured));
    assert!(structured > lru + 0.1, "structured {structured}, lru {lru}");
    let outcome = pages.outcome(CachePolicy::Structured, size).unwrap();
    assert!(outcome.ahead > 0 && pages.has_objects);
    // Without referers nothing is known of pages, and what is left is an order of use; it holds a
    // little less, because it has more to remember of each file.
    let report = replay(options(&[size]), &with_pages().replace("http://localhost", "-"));
    let of = |policy| ratio(&report, policy, size);
    assert!((of(CachePolicy::Structured) - of(CachePolicy::Lru)).abs() < 0.02);
    assert!(!report.has_objects);
    assert!(report.to_string().contains("no page is known to refer to anything"), "{report}");
}

#[test]
fn a_larger_cache_answers_more_and_one_that_holds_all_misses_each_file_once() {
    let sizes = [64 * KIB, 256 * KIB, 1024 * KIB, 64 * 1024 * KIB];
    let report = replay(options(&sizes), &with_scans());
    for policy in CachePolicy::ALL {
        let ratios = sizes.map(|size| ratio(&report, policy, size));
        assert!(ratios.is_sorted(), "{policy:?}: {ratios:?}");
        let all = report.outcome(policy, sizes[3]).unwrap();
        assert_eq!((all.hits, all.evictions), (report.requests - report.files, 0), "{policy:?}");
    }
    let [lru, hinted] = [CachePolicy::Lru, CachePolicy::Hinted];
    assert_eq!(ratio(&report, lru, sizes[0]), ratio(&report, hinted, sizes[0]));
}

#[test]
fn hints_keep_what_they_name() {
    let hints = Hints {
        pin: vec!["/popular/1".into()],
        keep: vec!["/popular/*".into()],
        never: vec!["/scanned/**".into()],
    };
    let size = 256 * KIB;
    let report = replay(Options { hints, ..options(&[size]) }, &with_scans());
    let [lru, hinted] = [CachePolicy::Lru, CachePolicy::Hinted].map(|p| ratio(&report, p, size));
    assert!(hinted > lru + 0.01, "hinted {hinted}, lru {lru}");
}

#[test]
fn sizes_and_references_are_read_from_the_files_when_they_are_there() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(root.path().join(name), text).unwrap();
    write("index.html", "<link rel=stylesheet href=a.css><img src=b.png><img src=index.html>");
    write("a.css", "@import 'c.css'; b { background: url(b.png) }");
    write("c.css", "@import 'a.css';");
    write("b.png", "image");
    let log = ["/", "/a.css", "/b.png", "/c.css", "/"].map(|path| line(path, 999_999, "-"));
    let log = log.concat() + &line("/gone.txt", 7, "-");
    let root = Some(root.path().to_owned());
    let report = replay(Options { root, ..options(&[100 * KIB]) }, &log);
    assert_eq!((report.requests, report.files, report.large), (6, 5, 0));
    let structured = report.outcome(CachePolicy::Structured, 100 * KIB).unwrap();
    assert_eq!((structured.hits, structured.ahead), (4, 3));
    assert_eq!(report.outcome(CachePolicy::Lru, 100 * KIB).unwrap().hits, 1);
    let missing = Options { root: Some("/nowhere/at/all".into()), ..options(&[1]) };
    assert!(Simulation::new(missing).is_err());
}

#[test]
fn what_is_left_out_is_counted_and_malformed_lines_are_numbered() {
    let long = "x".repeat(LINE_BYTES_MAX + 10);
    let log = [
        &line("/a.txt", 10, "-"),
        "nonsense\n",
        &line("/a.txt", 10, "-").replace("GET", "POST"),
        &line("/a.txt", 10, "-").replace(" 200 ", " 404 "),
        &line("/large.bin", 1 << 30, "-"),
        &line("/unknown.txt", 10, "-").replace(" 200 ", " 304 "),
        &line("/a.txt", 0, "-").replace(" 200 0", " 304 -"),
        &line(&format!("/{long}"), 10, "-"),
        "\n",
        "{\"method\":\"GET\",\"path\":\"/a.txt\",\"status\":200,\"bytes_sent\":10}",
    ]
    .concat();
    let mut simulation = Simulation::new(options(&[KIB])).unwrap();
    let mut told = Vec::new();
    simulation.replay(Cursor::new(&log), |progress| told.push(progress)).unwrap();
    let report = simulation.report();
    assert_eq!((report.lines, report.requests, report.files), (10, 3, 1));
    assert_eq!((report.large, report.unknown, report.others), (1, 1, 2));
    assert_eq!((report.malformed, report.malformed_lines.as_slice()), (3, &[2, 8, 9][..]));
    assert_eq!(report.bytes, 20);
    assert!(told.is_empty());
    let text = report.to_string();
    assert!(text.contains("malformed: 3 (lines 2, 8, 9)"), "{text}");
    assert_eq!(report.to_json()["outcomes"].as_array().unwrap().len(), 4);
}

#[test]
fn a_file_that_grew_is_brought_in_again_and_one_that_was_broken_off_is_not() {
    let log = [10, 10, 5, 20, 20].map(|bytes| line("/a.txt", bytes, "-")).concat();
    let report = replay(options(&[10 * KIB]), &log);
    assert_eq!(report.outcome(CachePolicy::Lru, 10 * KIB).unwrap().hits, 3);
}

#[test]
fn an_answer_that_the_log_says_was_cut_is_passed_over() {
    let whole = line("/a.txt", 10, "-");
    let json = |end: &str| {
        let object = "{\"method\":\"GET\",\"path\":\"/a.txt\",\"status\":200,\"bytes_sent\":";
        format!("{object}10,\"end\":\"{end}\"}}\n")
    };
    let with = |line: &str, end: &str| line.replace('\n', &format!(" {end}\n"));
    let common = "- - - [-] \"GET /a.txt HTTP/1.1\" 200 10\n";
    let log = [
        with(&whole, "whole"),
        with(&whole, "left"),
        with(common, "timeout"),
        with(common, "whole"),
        json("whole"),
        json("changed"),
    ]
    .concat();
    let report = replay(options(&[KIB]), &log);
    assert_eq!((report.lines, report.requests, report.others), (6, 3, 3));
}

#[test]
fn a_long_log_tells_how_far_it_has_come() {
    let log = line("/a.txt", 1, "-").repeat(3 * PROGRESS_LINES as usize);
    let mut simulation = Simulation::new(options(&[KIB])).unwrap();
    let mut told = Vec::new();
    simulation.replay(Cursor::new(&log), |progress| told.push(progress)).unwrap();
    let lines: Vec<u64> = told.iter().map(|progress| progress.lines).collect();
    assert_eq!(lines, [1, 2, 3].map(|n| n * PROGRESS_LINES));
    assert_eq!(told[2].bytes, log.len() as u64);
}

#[test]
fn a_log_that_cannot_be_read_is_told() {
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    let mut simulation = Simulation::new(options(&[KIB])).unwrap();
    assert!(simulation.replay(io::BufReader::new(Broken), |_| {}).is_err());
}

#[test]
fn hosts_have_files_of_their_own() {
    let line = |host: &str, path: &str| {
        format!(
            "{{\"method\":\"GET\",\"host\":\"{host}\",\"path\":\"{path}\",\"status\":200,\
             \"bytes_sent\":1000}}\n"
        )
    };
    let hosts = ["a.test", "A.TEST:80", "b.test", "c.test"];
    let log: String = hosts.map(|host| line(host, "/x.css")).concat();
    let report = replay(options(&[KIB * KIB]), &log);
    assert_eq!((report.files, report.outcomes[0].hits), (3, 1));
    // With a root, those are apart that have a directory there.
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("b.test")).unwrap();
    std::fs::write(root.path().join("x.css"), [b'x'; 100]).unwrap();
    std::fs::write(root.path().join("b.test/x.css"), [b'y'; 300]).unwrap();
    let options = Options { root: Some(root.path().into()), ..options(&[KIB * KIB]) };
    let report = replay(options, &log);
    assert_eq!((report.files, report.file_bytes, report.outcomes[0].hits), (2, 400, 2));
}

#[test]
fn what_to_set_is_the_smallest_that_comes_near_the_best_and_its_policy() {
    let told = |options: Options, log: &str| replay(options, log).to_string();
    let sizes = [KIB, 512 * KIB, 4 * KIB * KIB, 16 * KIB * KIB];
    let drift = told(options(&sizes), &with_drift());
    let last = drift.lines().last().unwrap();
    assert!(last.starts_with("Set cache.policy = \"lru\" and cache.content = \""), "{drift}");
    assert!(!last.contains("16MiB"), "a smaller one does as well: {drift}");
    let scans = told(options(&[512 * KIB]), &with_scans());
    let last = scans.lines().last().unwrap();
    assert!(
        last.starts_with("Set cache.policy = \"lfu\" and cache.content = \"512KiB\""),
        "{scans}"
    );
    let nothing = told(options(&sizes), &line("/a", 9, "-"));
    assert!(nothing.trim_end().ends_with("none of these would have answered a request."));
}
