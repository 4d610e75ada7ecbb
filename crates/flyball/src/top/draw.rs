//! The screen. It fits into 80 columns and 24 lines; what is larger shows more workers and a
//! longer history.

use flyball_sys::net::Endpoint;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Sparkline, Table, Widget};

use super::certificates::{Certificate, summary};
use super::figures::{bytes, count, duration, share, time};
use super::keys::Screen;
use super::sample::{Look, REFUSED, Rates, Worker};

/// Lines above the rows of workers.
const HEADINGS: u16 = 2;

/// Lines of the history, its frame among them: it takes what workers leave.
const HISTORY_MIN: u16 = 4;
const HISTORY_MAX: u16 = 12;

/// Lines of figures where TLS is spoken, beside the others.
const TLS_LINES: u16 = 2;

/// Columns of what a line of figures is about.
const NAME: usize = 12;

/// Fewest columns of what is drawn above all else, where there is room.
const OVER_COLUMNS_MIN: u16 = 68;

/// Size of what is printed once.
const PLAIN_COLUMNS: u16 = 100;
const PLAIN_LINES_MIN: u16 = 15;

const HELP: [&str; 11] = [
    "q, Esc, Ctrl-C   leave",
    "p, space         hold the screen, and go on",
    "s                order workers by another column",
    "up, down, k, j   scroll the workers",
    "c                certificates",
    "h, ?             this",
    "",
    "Times are known to a quarter; p99 of disk: work that may wait.",
    "loop: turns without their wait. Phases: parts of the loops' time.",
    "Drops: with accept.defer those of the whole network namespace.",
    "idle: between requests; what was answered may still be sent.",
];

/// Draws everything.
pub fn draw(screen: &Screen, frame: &mut Frame<'_>) {
    render(screen, frame.area(), frame.buffer_mut());
}

/// The same as text, without what only a terminal has.
pub fn plain(admin: &Endpoint, look: &Look, rates: Rates) -> String {
    let mut screen = Screen::new(admin);
    let workers = u16::try_from(rates.workers.len()).unwrap_or(u16::MAX / 2);
    screen.look = Some(look.clone());
    screen.rates = Some(rates);
    let lines = PLAIN_LINES_MIN.saturating_add(workers).saturating_add(TLS_LINES);
    let area = Rect::new(0, 0, PLAIN_COLUMNS, lines);
    let mut buffer = Buffer::empty(area);
    render(&screen, area, &mut buffer);
    let cell = |x, y| buffer.cell((x, y)).map_or(" ", |cell| cell.symbol());
    let line = |y| (0..area.width).map(|x| cell(x, y)).collect::<String>();
    // The last line names keys.
    let lines = (0..area.height - 1).map(|y| line(y).trim_end().to_string() + "\n");
    let certificates = Certificate::all(look);
    let certificates = certificates.iter().flat_map(Certificate::lines);
    let certificates: String = certificates.map(|line| line + "\n").collect();
    lines.collect::<String>().trim_end().to_string() + "\n" + &certificates
}

fn render(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    let text = match (&screen.look, &screen.rates) {
        (Some(look), Some(rates)) => lines(look, rates),
        _ if screen.lost.is_some() => Vec::new(),
        _ => vec![Line::raw("looking at the server ...")],
    };
    let height = u16::try_from(text.len()).unwrap_or(u16::MAX);
    let [title, figures, history, workers, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(height),
        Constraint::Length(history_lines(screen, area, height)),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    title_line(screen).render(title, buffer);
    Paragraph::new(text).render(figures, buffer);
    if screen.rates.is_some() {
        draw_history(screen, history, buffer);
        draw_workers(screen, workers, buffer);
    }
    let hint = format!("q quit  p pause  s sort: {}  h help", screen.sort.name());
    Line::styled(hint, Style::new().add_modifier(Modifier::DIM)).render(keys, buffer);
    if screen.help {
        draw_over("help", HELP.iter().map(|line| Line::raw(*line)).collect(), area, buffer);
    } else if let Some(look) = screen.look.as_ref().filter(|_| screen.certificates) {
        let all = Certificate::all(look);
        let text = all.iter().flat_map(Certificate::lines).map(Line::raw).collect();
        draw_over("certificates", text, area, buffer);
    }
}

/// Lines that are left by figures and workers, if they are enough to show anything.
fn history_lines(screen: &Screen, area: Rect, figures: u16) -> u16 {
    let workers = u16::try_from(screen.workers().len()).unwrap_or(u16::MAX);
    let others = (1 + HEADINGS + 1).saturating_add(figures).saturating_add(workers);
    match area.height.saturating_sub(others) {
        ..HISTORY_MIN => 0,
        free => free.min(HISTORY_MAX),
    }
}

/// What runs, and whether it is seen.
fn title_line(screen: &Screen) -> Line<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let state = match (&screen.lost, screen.paused) {
        (Some(why), _) => Span::styled(format!("LOST: {why}"), bold.fg(Color::Red)),
        (None, true) => Span::styled("paused", bold.fg(Color::Yellow)),
        (None, false) => Span::styled("live", bold.fg(Color::Green)),
    };
    let mut spans = vec![Span::styled("flyball top  ", bold), state];
    let what = match &screen.look {
        None => screen.admin.clone(),
        Some(look) => format!(
            "{}, workers {}, generation {}, up {}  {}",
            look.text("arch"),
            look.number(&["workers"]),
            look.number(&["generation"]),
            duration(look.number(&["uptime_ms"])),
            look.listen(),
        ),
    };
    spans.push(Span::raw(format!("  {what}")));
    Line::from(spans)
}

fn lines(look: &Look, rates: &Rates) -> Vec<Line<'static>> {
    let queue = |what: &str| look.number(&["accept_queue", what]);
    let [p50, p90, p99, p999] = rates.request_ns.map(time);
    let times = rates.p99_ns.iter().map(|(name, ns)| format!("{name} {}", time(*ns)));
    let states = look.states();
    let states = states.iter().filter(|(_, open)| *open > 0);
    let states: Vec<String> = states.map(|(name, open)| format!("{name} {open}")).collect();
    let phases = rates.phases.iter().map(|(name, part)| format!("{name} {}", share(Some(*part))));
    let caches = rates.hits.iter().map(|(name, part)| format!("{name} {}", share(*part)));
    let total = |counter: &str| count(look.number(&["counters", counter]) as f64);
    let refused = REFUSED.iter().map(|(counter, name)| format!("{name} {}", total(counter)));
    let mut lines = vec![
        Line::default(),
        line("requests/s", [count(rates.requests), format!("4xx and 5xx {}", count(rates.errors))]),
        line(
            "traffic/s",
            [format!("sent {}", bytes(rates.sent)), format!("received {}", bytes(rates.received))],
        ),
        line(
            "request",
            [
                format!("p50 {p50}"),
                format!("p90 {p90}"),
                format!("p99 {p99}"),
                format!("p99.9 {p999}"),
            ],
        ),
        line("p99 of", times),
        line("phases", phases),
        line("connections", [look.open().to_string()].into_iter().chain(states)),
        line(
            "accepts/s",
            [
                count(rates.accepted),
                format!("queue {} of {}", queue("length"), queue("limit")),
                format!("head {} ms", queue("head_age_ms")),
                format!("drops/s {}", count(rates.drops)),
            ],
        ),
        line("cache hits", caches),
        line("refused", refused),
        line(
            "short of",
            [
                format!("descriptors {} times", total("out_of_descriptors")),
                format!("log lines {}", total("access_log_lost")),
            ],
        ),
    ];
    if look.speaks_tls() {
        lines.extend(tls_lines(look, rates));
    }
    lines
}

/// Handshakes and certificates.
fn tls_lines(look: &Look, rates: &Rates) -> [Line<'static>; TLS_LINES as usize] {
    let handshakes = [
        count(rates.handshakes),
        format!("resumed {}", share(rates.resumed)),
        format!("failed/s {}", count(rates.handshakes_failed)),
    ];
    [line("handshake/s", handshakes), line("certificate", summary(&Certificate::all(look)))]
}

/// A name, and figures behind it.
fn line(name: &str, figures: impl IntoIterator<Item = String>) -> Line<'static> {
    let figures: Vec<String> = figures.into_iter().collect();
    let name = Span::styled(format!("{name:<NAME$}"), Style::new().fg(Color::Cyan));
    Line::from(vec![name, Span::raw(figures.join("  "))])
}

fn draw_history(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let frame = Block::bordered();
    // The newest are at the right end.
    let room = usize::from(frame.inner(area).width);
    let past = screen.history.len().saturating_sub(room);
    let history: Vec<u64> = screen.history.iter().skip(past).copied().collect();
    let most = history.iter().max().map_or(0.0, |most| *most as f64);
    let frame = frame.title(format!("requests/s, at most {}", count(most)));
    Sparkline::default().data(history).block(frame).render(area, buffer);
}

fn draw_workers(screen: &Screen, area: Rect, buffer: &mut Buffer) {
    let heads = ["worker", "gen", "requests/s", "accepts/s", "open", "cpu", "memory", "fds"];
    let right = |text: String, width: usize| format!("{text:>width$}");
    let widths = [6, 4, 11, 10, 7, 8, 10, 6];
    let cells = |texts: [String; 8]| {
        let pairs = texts.into_iter().zip(widths);
        Row::new(pairs.map(|(text, width)| right(text, width)).collect::<Vec<_>>())
    };
    let row = |worker: &&Worker| {
        cells([
            worker.index.to_string(),
            worker.generation.to_string(),
            count(worker.requests),
            count(worker.accepted),
            worker.connections.to_string(),
            share(Some(worker.cpu)),
            bytes(worker.resident_bytes as f64),
            worker.descriptors.map_or("-".into(), |count| count.to_string()),
        ])
    };
    let rows: Vec<Row<'_>> = screen.workers().iter().skip(screen.scrolled).map(row).collect();
    let imbalance = screen.rates.as_ref().and_then(Rates::imbalance);
    let imbalance = imbalance.map_or("-".into(), |imbalance| format!("{imbalance:.2}"));
    let title = format!("workers; busiest to mean {imbalance}");
    let head = cells(heads.map(String::from)).style(Style::new().add_modifier(Modifier::BOLD));
    let columns = widths.map(|width| Constraint::Length(width as u16));
    let [heading, table] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    Line::styled(title, Style::new().fg(Color::Cyan)).render(heading, buffer);
    Widget::render(Table::new(rows, columns).header(head), table, buffer);
}

/// Draws lines in a frame above all else, as far as there is room for them.
fn draw_over(title: &str, text: Vec<Line<'_>>, area: Rect, buffer: &mut Buffer) {
    let most = text.iter().map(Line::width).max().unwrap_or(0) + 2;
    let lines = u16::try_from(text.len()).unwrap_or(u16::MAX).saturating_add(2);
    let columns = u16::try_from(most).unwrap_or(u16::MAX).max(OVER_COLUMNS_MIN);
    let (width, height) = (columns.min(area.width), lines.min(area.height));
    let place = Rect::new(
        area.x + (area.width - width) / 2,
        area.y + (area.height - height) / 2,
        width,
        height,
    );
    Clear.render(place, buffer);
    Paragraph::new(text).block(Block::bordered().title(title)).render(place, buffer);
}
