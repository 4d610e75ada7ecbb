//! The report of a campaign of the lab in a browser as wide as a phone, by day and in the dark.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common_programs::chromium::Chromium;
use crate::common_programs::have;
use crate::common_programs::served::{Served, put};
use flyball_testkit::binary;

/// Two servers at two points, in runs of half a second: little to say, and a figure of lines.
const DEFINITION: &str = r#"
name = "page"
title = "Two servers"
source = "-"
rows = ["M0"]
shows = "Nothing; it is there to be drawn."

[workload]
name = "one-packet"

[axis]
varies = "connections"
points = [1, 8]
quick = [1, 8]

[[series]]
name = "event loop"
contestant = "flyball"
architecture = "sped"

[[series]]
name = "pool of threads"
contestant = "flyball"
architecture = "mt"

[[claims]]
says = "they are alike"
measure = "goodput_per_s"
left = "event loop"
right = "pool of threads"
at = "last"
is = "equal"
"#;

/// Looks at the page in a frame of a phone's width, and tells what it saw by a last request.
const CHECK: &str = r#"<!doctype html>
<meta charset="utf-8">
<title>check</title>
<link rel="icon" href="data:,">
<iframe id="page" src="report.html" width="390" height="800"></iframe>
<script>
const frame = document.getElementById("page");
frame.addEventListener("load", () => {
  const page = frame.contentDocument;
  const figures = [...page.querySelectorAll("svg")];
  const drawn = figure =>
    figure.getBoundingClientRect().height > 100 && figure.querySelector("path,circle,rect");
  const back = getComputedStyle(page.body).backgroundColor.match(/\d+/g).map(Number);
  const seen = [
    "verdict:" + (page.querySelector(".verdict").textContent.length > 3),
    "fits:" + (page.documentElement.scrollWidth <= 390),
    "drawn:" + (figures.length > 0 && figures.every(drawn)),
    "dark:" + (back[0] + back[1] + back[2] < 200),
  ].join("|");
  fetch("robots.txt?seen=" + encodeURIComponent(seen));
});
</script>
"#;

/// How a campaign ends that tells nothing.
const NO_RESULT: i32 = 4;

/// How Chromium is told that its user prefers the dark.
const DARK: &str = "--blink-settings=preferredColorScheme=0";

#[test]
#[ignore = "full tier"]
fn chromium_shows_the_labs_report_on_a_phone_by_day_and_in_the_dark() {
    if !have(&["chromium"]) {
        return;
    }
    let beside = tempfile::tempdir().expect("a temporary directory");
    let report = campaign(beside.path());
    for (flags, is_dark) in [(&[][..], false), (&[DARK], true)] {
        let log = beside.path().join("access.log");
        let served = Served::start("n-copy", "", &[&format!("access-log={}", log.display())]);
        put(&served.root().join("report.html"), &report);
        put(&served.root().join("check.html"), CHECK);
        let (home, console) = (beside.path().join("home"), beside.path().join("console"));
        fs::create_dir_all(&home).expect("it can be made");
        let browser = Chromium::open_with(flags, &served.url("/check.html"), &home, &console);
        let told = browser.told(&log, "/robots.txt");
        let console = fs::read_to_string(console).expect("what it said");
        let seen = format!("verdict:true|fits:true|drawn:true|dark:{is_dark}");
        assert_eq!(told.as_deref(), Some(seen.as_str()), "{console}");
        let complaints: Vec<&str> =
            console.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
        let _directory = served.stop();
        // It needs nothing but itself.
        let log = fs::read_to_string(&log).expect("the log was written");
        let known = ["GET /check.html ", "GET /report.html ", "GET /robots.txt?"];
        let others = log.lines().filter(|line| !known.iter().any(|one| line.contains(one)));
        assert_eq!(others.count(), 0, "{log}");
        fs::remove_file(beside.path().join("access.log")).expect("it was there");
        fs::remove_dir_all(&home).expect("it was there");
    }
}

/// Runs a campaign, and gives its page.
fn campaign(directory: &Path) -> Vec<u8> {
    let (definition, out) = (directory.join("page.toml"), directory.join("out"));
    put(&definition, DEFINITION);
    let mut lab = Command::new(binary());
    lab.args(["lab", "run"]).arg(&definition);
    lab.args(["--quick", "--seconds", "0.5", "--repetitions", "2", "--out"]).arg(&out);
    let ended = lab.output().expect("the program starts");
    // What ran beside it may make every run void: there is a page all the same.
    let is_done = matches!(ended.status.code(), Some(0 | NO_RESULT));
    assert!(is_done, "{ended:?}");
    fs::read(out.join("report.html")).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}
