//! A browser without a screen, whose page tells what it saw by a last request.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flyball_testkit::wait;

use super::{program, run};

/// The first start of a browser on a busy machine takes tens of seconds, and a page that makes its
/// caches when it is first asked for adds to it.
const TOLD_WITHIN: Duration = Duration::from_secs(280);

/// A browser that looks at a page until the page has told something.
pub struct Chromium(Child);

impl Chromium {
    /// Opens this page with a profile in `home`; what the browser says is kept in `console`.
    pub fn open(url: &str, home: &Path, console: &Path) -> Chromium {
        Chromium::open_with(&[], url, home, console)
    }

    /// The same with flags of its own.
    pub fn open_with(flags: &[&str], url: &str, home: &Path, console: &Path) -> Chromium {
        let said = fs::File::create(console).expect("a file can be made");
        let mut chromium = headless(home);
        chromium.args(flags).arg("--remote-debugging-port=0").arg(url);
        chromium.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        Chromium(chromium.spawn().expect("timeout starts"))
    }

    /// Waits until an access log has a request for `path?seen=…`, ends the browser, and gives what
    /// stands after the sign.
    pub fn told(mut self, log: &Path, path: &str) -> Option<String> {
        let told = wait::until(TOLD_WITHIN, || seen_in(log, path));
        // Ended by a signal that `timeout` passes on.
        run(Command::new("kill").arg(self.0.id().to_string()));
        let _ = self.0.wait();
        told
    }
}

/// A browser without a screen, with a profile of its own.
pub fn headless(home: &Path) -> Command {
    let mut chromium = program("chromium");
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    chromium.args(["--no-first-run", "--disable-background-networking", "--no-proxy-server"]);
    chromium.args(["--disable-component-update", "--enable-logging=stderr", "--mute-audio"]);
    chromium.arg(format!("--user-data-dir={}", home.join("profile").display()));
    chromium.env("HOME", home);
    chromium
}

fn seen_in(log: &Path, path: &str) -> Option<String> {
    let log = fs::read_to_string(log).ok()?;
    let asked = format!("GET {path}?seen=");
    let line = log.lines().find_map(|line| line.split_once(&asked))?;
    let told = line.1.split(' ').next()?;
    Some(told.replace("%3A", ":").replace("%7C", "|").replace("%20", " "))
}
