//! A browser without a screen whose page is looked at from outside, by two pipes (Chrome DevTools
//! Protocol). The page needs nothing for it, and its policy forbids nothing of it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::chromium::headless;
use super::run;

/// Stands behind each message.
const END: u8 = 0;

/// A page that is open.
pub struct Page {
    browser: Child,
    to: File,
    from: File,
    input: Vec<u8>,
    /// Number of the last command.
    last: u32,
    /// What follows the parameters of commands for the page.
    session: String,
    /// Errors and messages of the page.
    complaints: Vec<String>,
}

impl Page {
    /// Opens this page with a profile in `home`.
    pub fn open(url: &str, home: &Path) -> Page {
        let [to, from] = ["to", "from"].map(|name| home.join(name));
        run(Command::new("mkfifo").args([&to, &from]));
        let chromium = headless(home);
        let mut browser = Command::new("sh");
        browser.args(["-c", "exec \"$@\" 3<\"$0/to\" 4>\"$0/from\""]).arg(home);
        browser.arg(chromium.get_program()).args(chromium.get_args());
        browser.arg("--remote-debugging-pipe").env("HOME", home).env("LC_ALL", "C");
        browser.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let browser = browser.spawn().expect("a shell starts");
        let to = OpenOptions::new().write(true).open(to).expect("the browser reads");
        let from = File::open(from).expect("the browser writes");
        let (input, session, complaints) = (Vec::new(), String::new(), Vec::new());
        let mut page = Page { browser, to, from, input, last: 0, session, complaints };
        let made = page.command("Target.createTarget", r#"{"url":"about:blank"}"#);
        let target = text_of(&made, "targetId").expect("a page");
        let parameters = format!(r#"{{"targetId":"{target}","flatten":true}}"#);
        let attached = page.command("Target.attachToTarget", &parameters);
        let session = text_of(&attached, "sessionId").expect("a session");
        page.session = format!(r#","sessionId":"{session}""#);
        for domain in ["Log", "Runtime", "Page"] {
            page.command(&format!("{domain}.enable"), "{}");
        }
        page.command("Page.navigate", &format!(r#"{{"url":"{url}"}}"#));
        page
    }

    /// Shows it so many pixels wide, to a user who prefers the dark or does not.
    pub fn show(&mut self, width: u32, is_dark: bool) {
        let size =
            format!(r#"{{"width":{width},"height":844,"deviceScaleFactor":1,"mobile":false}}"#);
        self.command("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features =
            format!(r#"{{"features":[{{"name":"prefers-color-scheme","value":"{scheme}"}}]}}"#);
        self.command("Emulation.setEmulatedMedia", &features);
    }

    /// The text that an expression has, which is without quotes and backslashes; so is the text.
    pub fn seen(&mut self, expression: &str) -> String {
        assert!(!expression.contains(['"', '\\', '\n']), "it stands within quotes");
        let parameters = format!(r#"{{"expression":"{expression}","returnByValue":true}}"#);
        let seen = self.command("Runtime.evaluate", &parameters);
        text_of(&seen, "value").unwrap_or_else(|| panic!("{seen}"))
    }

    /// What the page has complained of.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// What the browser answers. Blocks until it does; it is ended when it takes minutes.
    fn command(&mut self, method: &str, parameters: &str) -> String {
        self.last += 1;
        let (number, session) = (self.last, &self.session);
        let text =
            format!(r#"{{"id":{number},"method":"{method}","params":{parameters}{session}}}"#);
        self.to.write_all(text.as_bytes()).expect("the browser runs");
        self.to.write_all(&[END]).expect("the browser runs");
        let answer = format!(r#"{{"id":{number},"#);
        loop {
            let message = self.message();
            if message.starts_with(&answer) {
                return message;
            }
            let told = ["Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"];
            if told.iter().any(|told| message.contains(&format!(r#""method":"{told}""#))) {
                self.complaints.push(message);
            }
        }
    }

    fn message(&mut self) -> String {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == END) {
                let message = self.input.drain(..=end).collect::<Vec<u8>>();
                return String::from_utf8_lossy(&message[..end]).into_owned();
            }
            let mut piece = [0; 1 << 14];
            let read = self.from.read(&mut piece).expect("the browser runs");
            assert_ne!(read, 0, "the browser has ended");
            self.input.extend_from_slice(&piece[..read]);
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // `timeout` passes it on.
        let _ = Command::new("kill").arg(self.browser.id().to_string()).status();
        let _ = self.browser.wait();
    }
}

/// The text of this key, which no escape is in.
fn text_of(message: &str, key: &str) -> Option<String> {
    let (_, rest) = message.split_once(&format!(r#""{key}":""#))?;
    Some(rest.split_once('"')?.0.to_owned())
}
