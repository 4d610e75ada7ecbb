//! What is shown and how: news of the server, and the keys of the user.

use std::cmp::Reverse;
use std::collections::VecDeque;

use flyball_sys::net::Endpoint;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};

use super::sample::{Look, Rates, Worker, between};

/// Intervals whose rates are drawn.
pub(super) const HISTORY_MAX: usize = 240;

/// By what workers are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Their numbers.
    #[default]
    Number,
    /// The most requests first.
    Requests,
    /// The most connections first.
    Connections,
    /// The busiest first.
    Processor,
    /// The largest first.
    Memory,
}

impl Sort {
    fn next(self) -> Sort {
        match self {
            Sort::Number => Sort::Requests,
            Sort::Requests => Sort::Connections,
            Sort::Connections => Sort::Processor,
            Sort::Processor => Sort::Memory,
            Sort::Memory => Sort::Number,
        }
    }

    /// What stands behind `sort:`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Number => "number",
            Sort::Requests => "requests",
            Sort::Connections => "connections",
            Sort::Processor => "processor",
            Sort::Memory => "memory",
        }
    }
}

/// Everything that the screen depends on.
pub struct Screen {
    pub(super) admin: String,
    pub(super) look: Option<Look>,
    pub(super) rates: Option<Rates>,
    /// Requests per second, the latest last.
    pub(super) history: VecDeque<u64>,
    /// Why there is nothing new to see.
    pub(super) lost: Option<String>,
    pub(super) sort: Sort,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// Whether certificates are shown.
    pub(super) certificates: bool,
    /// Workers that are scrolled away.
    pub(super) scrolled: usize,
    over: bool,
}

impl Screen {
    /// A screen that has seen nothing yet.
    pub fn new(admin: &Endpoint) -> Screen {
        let admin = match admin {
            Endpoint::Tcp(address) => address.to_string(),
            Endpoint::Unix(path) => format!("unix:{}", path.display()),
        };
        Screen {
            admin,
            look: None,
            rates: None,
            history: VecDeque::new(),
            lost: None,
            sort: Sort::default(),
            paused: false,
            help: false,
            certificates: false,
            scrolled: 0,
            over: false,
        }
    }

    /// Whether the user has seen enough.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// A look, or why there was nothing to see: what was seen last stays.
    pub fn take(&mut self, news: Result<Look, String>) {
        let look = match news {
            Ok(look) => look,
            Err(why) => {
                // Whoever comes back is not compared with who went.
                self.lost = Some(why);
                return;
            }
        };
        if self.paused {
            return;
        }
        let found_again = self.lost.take().is_some();
        if let Some(before) = self.look.as_ref().filter(|_| !found_again) {
            let rates = between(before, &look);
            self.history.push_back(rates.requests.round() as u64);
            if self.history.len() > HISTORY_MAX {
                self.history.pop_front();
            }
            self.rates = Some(rates);
        }
        self.look = Some(look);
    }

    /// A key was pressed, or the terminal changed.
    pub fn event(&mut self, event: &Event) {
        let Event::Key(key) = event else { return };
        if key.kind == KeyEventKind::Release {
            return;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => self.over = true,
            KeyCode::Char('q') => self.over = true,
            KeyCode::Esc if !(self.help || self.certificates) => self.over = true,
            KeyCode::Esc => (self.help, self.certificates) = (false, false),
            KeyCode::Char('c') => self.certificates = !self.certificates,
            KeyCode::Char('h' | '?') => self.help = !self.help,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Down | KeyCode::Char('j') => self.scrolled += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::Home => self.scrolled = 0,
            _ => {}
        }
        let last = self.rates.as_ref().map_or(0, |rates| rates.workers.len().saturating_sub(1));
        self.scrolled = self.scrolled.min(last);
    }

    /// The workers in the order that the user wants.
    pub(super) fn workers(&self) -> Vec<&Worker> {
        let mut workers: Vec<&Worker> =
            self.rates.iter().flat_map(|rates| &rates.workers).collect();
        let by = |value: fn(&Worker) -> f64| {
            move |a: &&Worker, b: &&Worker| value(b).total_cmp(&value(a))
        };
        match self.sort {
            Sort::Number => workers.sort_by_key(|w| (Reverse(w.generation), w.index)),
            Sort::Requests => workers.sort_by(by(|worker| worker.requests)),
            Sort::Connections => workers.sort_by(by(|worker| worker.connections as f64)),
            Sort::Processor => workers.sort_by(by(|worker| worker.cpu)),
            Sort::Memory => workers.sort_by(by(|worker| worker.resident_bytes as f64)),
        }
        workers
    }
}
