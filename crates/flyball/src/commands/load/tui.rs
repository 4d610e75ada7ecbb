//! `flyball load --tui`: a run as it goes, in a terminal.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use flyball_load::observe::{Glance, Interval, Live, merged, short};
use flyball_sys::clock::monotonic_ns;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// Longest wait for the terminal to be restored: four looks.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// What is shown.
#[derive(Default)]
struct View {
    url: String,
    now: Glance,
    passed_s: f64,
    /// Every second so far, of each thread.
    seconds: Vec<Interval>,
}

/// A run on the terminal, by a thread that nobody has to wait for: when its terminal is taken away
/// while it waits for a key, it never comes back (crossterm reads on at the end of the stream).
pub(super) struct Screen {
    wants_stop: Arc<AtomicBool>,
    /// Silent until the terminal is as it was.
    left: Receiver<Infallible>,
}

impl Screen {
    /// Shows the run until it is `over`.
    pub(super) fn start(url: String, live: Arc<Live>, over: Arc<AtomicBool>) -> Screen {
        let wants_stop = Arc::new(AtomicBool::new(false));
        let (leaving, left) = mpsc::channel();
        let stop = Arc::clone(&wants_stop);
        thread::spawn(move || {
            if let Err(error) = show(url, &live, &stop, &over) {
                eprintln!("flyball: the terminal: {error}");
            }
            drop(leaving);
        });
        Screen { wants_stop, left }
    }

    /// True once somebody has typed q or Ctrl-C.
    pub(super) fn wants_stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.wants_stop)
    }

    /// Waits until the terminal is as it was, if there still is one.
    pub(super) fn leave(self) {
        let _ = self.left.recv_timeout(LEAVE_MAX);
    }
}

/// Shows the run until it is `over`; q and Ctrl-C make `stop` true.
///
/// # Errors
/// When there is no terminal.
fn show(url: String, live: &Live, stop: &AtomicBool, over: &AtomicBool) -> std::io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let mut view = View { url, ..View::default() };
    let mut shown = Ok(());
    while shown.is_ok() && !over.load(Relaxed) {
        view.now = live.glance();
        view.passed_s = monotonic_ns().saturating_sub(view.now.window.from_ns) as f64 / 1e9;
        view.seconds.extend(live.take_intervals());
        shown = terminal.draw(|frame| draw(frame, &view)).and_then(|_| look(stop));
    }
    ratatui::restore();
    shown
}

/// Waits a little for a key.
fn look(stop: &AtomicBool) -> std::io::Result<()> {
    if !event::poll(LOOK)? {
        return Ok(());
    }
    if let Event::Key(key) = event::read()? {
        let is_break =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if key.kind == KeyEventKind::Press && (is_break || key.code == KeyCode::Char('q')) {
            stop.store(true, Relaxed);
        }
    }
    Ok(())
}

fn draw(frame: &mut Frame<'_>, view: &View) {
    let rows = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(6),
        Constraint::Min(6),
        Constraint::Min(6),
        Constraint::Length(1),
    ];
    let [title, bar, counts, rate, latency, help] = Layout::vertical(rows).areas::<6>(frame.area());
    let window = view.now.window;
    let total_s = window.to_ns.saturating_sub(window.from_ns) as f64 / 1e9;
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Line::styled(format!("flyball load {}", view.url), bold), title);
    let share = (view.passed_s / total_s.max(1e-9)).clamp(0.0, 1.0);
    let label = format!("{:.0} of {total_s:.0} s", view.passed_s.min(total_s));
    frame.render_widget(Gauge::default().ratio(share).label(label), bar);
    let seconds = merged(&view.seconds);
    frame.render_widget(Paragraph::new(lines(view, &seconds)), counts);
    let replies: Vec<u64> = seconds.iter().map(|second| second.replies).collect();
    sparkline(frame, "replies in each second", &replies, rate);
    let p99: Vec<u64> =
        seconds.iter().map(|second| second.times().percentile_us(99.0) as u64).collect();
    sparkline(frame, "p99 of each second, in us", &p99, latency);
    frame.render_widget(Line::raw("q ends the run and reports"), help);
}

fn lines(view: &View, seconds: &[Interval]) -> Vec<Line<'static>> {
    let now = &view.now;
    let mut lines = vec![
        Line::raw(format!("  sent    {:>12}   open {:>10}", now.sent, now.open)),
        Line::raw(format!("  replies {:>12}   errors {:>8}", now.replies, now.errors)),
    ];
    if let Some(last) = seconds.last() {
        let times = last.times();
        let each =
            [50.0, 90.0, 99.0, 99.9].map(|p| format!("p{p} {}", short(times.percentile_us(p))));
        lines.push(Line::raw(format!(
            "  last second: {} sent, {} replies, {} good, {} errors",
            last.sent, last.replies, last.good, last.errors
        )));
        lines.push(Line::raw(format!("  {}", each.join("  "))));
    }
    lines
}

/// The last values, as many as fit, under their greatest.
fn sparkline(frame: &mut Frame<'_>, name: &str, values: &[u64], area: Rect) {
    let shown = &values[values.len().saturating_sub(usize::from(area.width))..];
    let most = shown.iter().max().copied().unwrap_or(0);
    let block = Block::bordered().title(format!(" {name}, {most} at most "));
    frame.render_widget(Sparkline::default().block(block).data(shown.iter().copied()), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_load::observe::Window;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    #[test]
    fn a_run_is_shown_with_its_last_second() {
        let mut terminal = Terminal::new(TestBackend::new(60, 24)).unwrap();
        let latencies = vec![(2_000_000, 7)];
        let second = Interval { second: 1, sent: 9, replies: 7, good: 7, errors: 2, latencies };
        let now = Glance {
            window: Window { from_ns: 0, to_ns: 10_000_000_000 },
            sent: 123,
            replies: 120,
            errors: 3,
            ..Glance::default()
        };
        let view = View { url: "http://h/".into(), now, passed_s: 4.0, seconds: vec![second] };
        terminal.draw(|frame| draw(frame, &view)).unwrap();
        let text = format!("{:?}", terminal.backend().buffer());
        for part in [
            "flyball load http://h/",
            "4 of 10 s",
            "replies          120",
            "9 sent, 7 replies, 7 good, 2 errors",
            "p50 2.00ms",
            "replies in each second, 7 at most",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
