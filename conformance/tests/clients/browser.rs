//! A browser shows a whole site: headless Chromium loads the demonstration site with its styles,
//! script, drawing and film, and seeks in the film, without an error on its console.

use std::fs;
use std::path::Path;

use crate::common_programs::chromium::{Chromium, headless};
use crate::common_programs::served::{Served, put};
use crate::common_programs::{have, on_architectures, on_every_architecture, run};
use flyball_testkit::Launch;

on_every_architecture! {
    full [chromium_shows_the_demonstration_and_seeks_in_its_film]
}

on_architectures! {
    [
        full n_copy_tls = "n-copy over TLS",
        full mt_tls = "mt over TLS",
        full uring_tls = "uring over TLS",
    ]
    full [chromium_shows_the_demonstration_and_seeks_in_its_film]
}

/// Looks at the page in a frame, seeks in its film, and tells what it saw by a last request.
const CHECK: &str = r#"<!doctype html>
<meta charset="utf-8">
<title>check</title>
<link rel="icon" href="data:,">
<iframe id="page" src="index.html" width="800" height="600"></iframe>
<script>
const frame = document.getElementById("page");
const event = (target, name) => new Promise((done, failed) => {
  target.addEventListener(name, done, { once: true });
  target.addEventListener("error", () => failed(new Error(name)), { once: true });
});
async function look() {
  const blank = frame.contentWindow.location.href === "about:blank";
  if (blank || frame.contentDocument.readyState !== "complete") {
    await event(frame, "load");
  }
  const page = frame.contentDocument;
  const film = page.querySelector("video");
  if (film.readyState < 1) await event(film, "loadedmetadata");
  film.currentTime = film.duration * 0.9;
  await event(film, "seeked");
  return [
    "title:" + page.title.split(":")[0],
    "image:" + (page.querySelector("img").naturalWidth > 0),
    "rules:" + (page.styleSheets[0].cssRules.length > 10),
    "script:" + (page.getElementById("timing").textContent.length > 20),
    "film:" + film.videoWidth + "x" + film.videoHeight,
    "at:" + Math.round(100 * film.currentTime / film.duration),
  ].join("|");
}
look().catch(error => "failed:" + error).then(seen =>
  fetch("robots.txt?seen=" + encodeURIComponent(seen)));
</script>
"#;

const SEEN: &str = "title:Flyball|image:true|rules:true|script:true|film:480x300|at:90";

fn chromium_shows_the_demonstration_and_seeks_in_its_film(arch: &str) {
    if !have(&["chromium"]) {
        return;
    }
    let mut logs = std::iter::repeat_with(|| log_of_a_look(arch)).take(LOOKS_MAX);
    let found = logs.find(|log| parts_of_the_film(log) >= 2);
    assert!(found.is_some(), "{arch}: no parts of the film were asked for");
}

/// The access log of a browser that saw what there is to see, and complained of nothing.
fn log_of_a_look(arch: &str) -> String {
    let beside = tempfile::tempdir().expect("a temporary directory");
    let log = beside.path().join("access.log");
    let logged = format!("access-log={}", log.display());
    // So slow that the browser asks for the part that it needs, and does not wait for it.
    let served = Served::start(arch, "", &[&logged, PACE]);
    copy_demonstration(&served.root());
    put(&served.root().join("check.html"), CHECK);
    let console = beside.path().join("console");
    // The certificate is of no authority that it knows.
    let flags = if served.is_secure() { &["--ignore-certificate-errors"][..] } else { &[] };
    let url = served.url("/check.html");
    let browser = Chromium::open_with(flags, &url, beside.path(), &console);
    let told = browser.told(&log, "/robots.txt");
    let console = fs::read_to_string(console).expect("what it said");
    let complaints: Vec<&str> = console.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{arch}: {complaints:#?}");
    assert_eq!(told.as_deref(), Some(SEEN), "{arch}: {console}");
    let _directory = served.stop();
    let log = fs::read_to_string(log).expect("the log was written");
    check_log(arch, &log);
    log
}

/// Bytes of each connection in a second: the whole film takes twelve, and a browser that is slow to
/// open the page must not have most of it before it seeks.
const PACE: &str = "limit.bandwidth=50KiB";

/// Browsers of which one has to ask for parts. The first ten segments of a connection are not
/// paced, and on the loopback they may hold the whole film.
const LOOKS_MAX: usize = 5;

/// Everything was there.
fn check_log(arch: &str, log: &str) {
    for name in ["index.html", "style.css", "timing.js", "governor.svg"] {
        let line = log.lines().find(|line| line.contains(&format!("GET /{name} ")));
        assert!(line.is_some_and(|line| line.contains("\" 200 ")), "{arch}: {name}: {log}");
    }
    assert!(parts_of_the_film(log) >= 1, "{arch}: {log}");
    let failed = log.lines().filter(|line| line.contains("\" 4") || line.contains("\" 5"));
    assert_eq!(failed.count(), 0, "{arch}: {log}");
}

fn parts_of_the_film(log: &str) -> usize {
    let film = log.lines().filter(|line| line.contains("GET /governor.webm "));
    film.filter(|line| line.contains("\" 206 ")).count()
}

fn copy_demonstration(root: &Path) {
    let demonstration = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demo/site");
    for file in fs::read_dir(demonstration).expect("the demonstration is there").flatten() {
        fs::copy(file.path(), root.join(file.file_name())).expect("it can be copied");
    }
}

/// The page that the admin address serves draws what the server does, within its own policy.
#[test]
#[ignore = "full tier"]
fn chromium_shows_the_status_page_without_a_complaint() {
    if !have(&["chromium"]) {
        return;
    }
    let home = tempfile::tempdir().expect("a temporary directory");
    put(&home.path().join("small.txt"), "small");
    let arguments = [home.path().to_str().expect("a path is text"), "--arch", "n-copy"];
    let launch = Launch::arguments(arguments).and("--workers").and("2");
    let server = launch.and("--admin").and("127.0.0.1:0").start().expect("it starts");
    let mut client = server.connect();
    let mut chromium = headless(home.path());
    // Ten seconds of the page's own clock: it asks about ten times.
    chromium.args(["--virtual-time-budget=10000", "--dump-dom"]);
    chromium.arg(format!("http://{}/", server.admin()));
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let (page, said) = std::thread::scope(|scope| {
        scope.spawn(move || {
            // So that there is something to draw.
            while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                let request = "GET /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
                assert_eq!(client.ask(request).status(), 200);
            }
        });
        let told = run(&mut chromium);
        drop(stop);
        told
    });
    let complaints: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    for shown in [
        "role=\"status\" class=\"\">live</p>",
        "n-copy, 2 workers, generation 1",
        "<dt>requests/s</dt>",
        "<td>streaming</td>",
        "<td>content</td>",
        "<path d=\"M",
    ] {
        assert!(page.contains(shown), "{shown} is not on the page: {page}\n{said}");
    }
}
