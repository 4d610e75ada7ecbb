//! A terminal that `script` makes, with a command of the program in it.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use flyball_testkit::{binary, wait};

use super::wait_for;

/// The terminal, and everything that was written to it.
pub struct Terminal {
    child: Child,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Runs `flyball` with these arguments, which a shell reads, on 24 lines of 80 columns.
    pub fn run(arguments: &str) -> Terminal {
        let command = format!("stty rows 24 cols 80; exec {} {arguments}", binary().display());
        let mut script = Command::new("script");
        script.args(["-qefc", &command, "/dev/null"]).env("TERM", "xterm");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().expect("script runs");
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut from, to) = (child.stdout.take().expect("it is piped"), Arc::clone(&written));
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut piece) {
                to.lock().expect("no thread panics with it").extend_from_slice(&piece[..read]);
            }
        });
        Terminal { child, written }
    }

    /// The process of `script`.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn press(&mut self, keys: &str) {
        let to = self.child.stdin.as_mut().expect("it is piped");
        to.write_all(keys.as_bytes()).and_then(|()| to.flush()).expect("keys are pressed");
    }

    /// What was written so far.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("no thread panics with it")).into()
    }

    /// Waits until the text was written.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait_for_in(text, str::to_owned);
    }

    /// Waits until the text stands on the screen.
    #[track_caller]
    pub fn wait_for_on_screen(&self, text: &str) {
        self.wait_for_in(text, on_screen);
    }

    #[track_caller]
    fn wait_for_in(&self, text: &str, seen: impl Fn(&str) -> String) {
        let mut last = String::new();
        let found = wait::until(wait::DEADLINE, || {
            last = seen(&self.written());
            last.contains(text).then_some(())
        });
        assert!(found.is_some(), "{text:?} never came:\n{last}");
    }

    /// Ends `script`, so that the program in it has no terminal any more.
    pub fn take_away(&mut self) {
        self.child.kill().expect("it runs");
        self.ended();
    }

    pub fn ended(&mut self) -> ExitStatus {
        wait_for("the end of it", || self.child.try_wait().expect("a child of ours"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The screen after this was written to it: text, and where the cursor was put (ECMA-48: CUP).
fn on_screen(text: &str) -> String {
    let mut lines = vec![vec![' '; 200]; 100];
    let (mut line, mut column) = (0, 0);
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\x1b' if chars.clone().next() == Some('[') => {
                chars.next();
                let is_end = |char: &char| char.is_ascii_alphabetic();
                let mut sequence = String::new();
                let end = chars.by_ref().inspect(|char| sequence.push(*char)).find(is_end);
                if end == Some('H') {
                    let place = sequence.trim_end_matches('H');
                    let (l, c) = place.split_once(';').unwrap_or(("1", "1"));
                    line = l.parse::<usize>().map_or(0, |l| l.saturating_sub(1)).min(99);
                    column = c.parse::<usize>().map_or(0, |c| c.saturating_sub(1));
                }
            }
            '\r' => column = 0,
            '\n' => line = (line + 1).min(99),
            char if !char.is_control() && column < 200 => {
                lines[line][column] = char;
                column += 1;
            }
            _ => {}
        }
    }
    let line = |line: &Vec<char>| line.iter().collect::<String>().trim_end().to_string();
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}
