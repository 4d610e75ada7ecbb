//! `flyball top`: what a running server does, in a terminal.
//!
//! `/status` is asked for by a thread of its own, so that keys are heard while a server does not
//! answer. Everything shown is the difference of two looks.

mod certificates;
mod draw;
mod feed;
mod figures;
mod keys;
mod sample;

use std::io::IsTerminal;
use std::time::Duration;

use flyball_sys::net::Endpoint;
use ratatui::crossterm::event;

use crate::running::found;

pub use draw::{draw, plain};
pub use feed::{Feed, ask};
pub use keys::{Screen, Sort};
pub use sample::{Look, Rates, Worker, between};

/// How often keys and news are looked for.
const GLANCE: Duration = Duration::from_millis(100);

/// What `flyball top` is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Top {
    /// The server's `--admin`; `None` is that of the server that is found.
    pub admin: Option<Endpoint>,
    /// Time between two looks.
    pub every: Duration,
    /// Whether one interval is enough.
    pub once: bool,
    /// Whether each interval is a line of JSON.
    pub json: bool,
}

/// Shows the server until the user has seen enough. Blocks.
///
/// # Errors
/// With a message for the user: there is no terminal, or, where only one look is asked for, no
/// server.
pub fn run(top: &Top, print: impl Fn(&str)) -> Result<(), String> {
    let admin = match &top.admin {
        Some(admin) => admin.clone(),
        None => Endpoint::Unix(found()?),
    };
    if top.once || top.json {
        return run_plain(top, &admin, print);
    }
    if !std::io::stdout().is_terminal() {
        return Err("standard output is no terminal; --once and --json need none".into());
    }
    let feed = Feed::start(&admin, top.every);
    let mut screen = Screen::new(&admin);
    let mut terminal = ratatui::try_init().map_err(|error| format!("the terminal: {error}"))?;
    let shown = show(&mut terminal, &feed, &mut screen);
    ratatui::restore();
    shown.map_err(|error| format!("the terminal: {error}"))
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    feed: &Feed,
    screen: &mut Screen,
) -> std::io::Result<()> {
    let mut changed = true;
    while !screen.is_over() {
        if changed {
            terminal.draw(|frame| draw(screen, frame))?;
        }
        changed = false;
        if event::poll(GLANCE)? {
            // A change of the terminal's size is an event too.
            screen.event(&event::read()?);
            changed = true;
        }
        while let Some(news) = feed.next() {
            screen.take(news);
            changed = true;
        }
    }
    Ok(())
}

/// One interval, or line after line.
fn run_plain(top: &Top, admin: &Endpoint, print: impl Fn(&str)) -> Result<(), String> {
    let feed = Feed::start(admin, top.every);
    let mut before: Option<Look> = None;
    loop {
        let look = match feed.wait() {
            Ok(look) => look,
            Err(why) if top.once => return Err(why),
            Err(why) => {
                eprintln!("flyball: {why}");
                before = None;
                continue;
            }
        };
        if let Some(before) = &before {
            let rates = between(before, &look);
            if top.json {
                let mut told = rates.to_json();
                told["certificates"] = look.list("certificates").into();
                print(&format!("{told}\n"));
            } else {
                print(&plain(admin, &look, rates));
            }
            if top.once {
                return Ok(());
            }
        }
        before = Some(look);
    }
}
