//! A figure as SVG: lines with their intervals as bands, or bars. Its colours follow the reader's
//! choice of dark or light, in a page as in a file of its own.

use std::fmt::Write as _;

use super::escaped;
use super::figure::{Figure, Line, Spot};

const WIDTH: f64 = 720.0;
const PLOT_HEIGHT: f64 = 300.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 30.0;
const BELOW: f64 = 52.0;
const LEGEND_ROW: f64 = 20.0;
const LEGEND_COLUMNS: usize = 3;

/// Room between labels of the axis from left to left, at least.
const LABEL_GAP: f64 = 44.0;

/// A bar has its name above it, in as many lines as it takes.
const BAR_HEIGHT: f64 = 18.0;
const BAR_GAP: f64 = 14.0;
const NAME_ROW: f64 = 17.0;
const NAME_CHARS_MAX: usize = 96;

/// Room for the figure behind the longest bar.
const FIGURE_WIDTH: f64 = 110.0;

/// Lines of the grid, about.
const STEPS: f64 = 5.0;

/// Room above the highest value.
const HEADROOM: f64 = 1.06;

/// Colours that people who see few of them tell apart as well; from the ninth on they come again,
/// dashed.
const COLOURS: [(&str, &str); 8] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff8a3d"),
    ("#00805f", "#2fc79c"),
    ("#a3457c", "#e58fc0"),
    ("#8a6d00", "#e8c547"),
    ("#4b4fc4", "#9ea2ff"),
    ("#555555", "#bbbbbb"),
    ("#b00020", "#ff6b7d"),
];

/// The drawing, as a document of its own that a page can hold too.
pub(super) fn draw(figure: &Figure) -> String {
    let legend_rows = figure.lines.len().div_ceil(LEGEND_COLUMNS) as f64;
    let legend = if figure.along.is_some() { legend_rows * LEGEND_ROW } else { 0.0 };
    let height = match figure.along {
        Some(_) => TOP + PLOT_HEIGHT + BELOW + legend,
        None => TOP + figure.lines.iter().map(|line| bar_room(&line.name)).sum::<f64>(),
    };
    let title = escaped(figure.measure);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\"><title>{title}</title>{}\
         <text class=\"ink\" x=\"4\" y=\"16\" font-weight=\"600\">{title}</text>",
        style()
    );
    match &figure.along {
        Some(along) => lines(&mut text, figure, along),
        None => draw_bars(&mut text, figure),
    }
    text + "</svg>\n"
}

fn style() -> String {
    let class = |n: usize, colour: &str| format!(".s{n}{{stroke:{colour};fill:{colour}}}");
    let all = |dark: bool| -> String {
        let pick = |(n, pair): (usize, &(&str, &str))| class(n, if dark { pair.1 } else { pair.0 });
        COLOURS.iter().enumerate().map(pick).collect()
    };
    format!(
        "<style>.ink{{fill:#1c1c1e}}.grid{{stroke:#1c1c1e;stroke-opacity:.16}}\
         .line{{fill:none;stroke-width:2}}.band{{stroke-opacity:0;fill-opacity:.18}}\
         .hollow{{fill-opacity:0;stroke-width:1.5}}.bar{{stroke:none;fill-opacity:.85}}\
         .whisker{{stroke:#1c1c1e;stroke-width:1.5}}{}\
         @media (prefers-color-scheme:dark){{.ink{{fill:#ececee}}.grid{{stroke:#ececee}}\
         .whisker{{stroke:#ececee}}{}}}</style>",
        all(false),
        all(true)
    )
}

fn class(nth: usize) -> String {
    format!("s{}", nth % COLOURS.len())
}

/// The step between lines of the grid: 1, 2 or 5 times a power of ten.
fn step(span: f64) -> f64 {
    let raw = (span / STEPS).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(raw.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    power * steps.into_iter().find(|step| step * power >= raw).unwrap_or(10.0)
}

/// A number as it stands at an axis.
pub(super) fn number(value: f64) -> String {
    let text = match value.abs() {
        0.0 => "0".into(),
        size if size >= 1e6 => format!("{:.2} M", value / 1e6),
        size if size >= 1e4 => format!("{:.1} k", value / 1e3),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    match text.split_once(' ') {
        Some((digits, unit)) => format!("{}\u{a0}{unit}", trimmed(digits)),
        None => trimmed(&text).to_owned(),
    }
}

fn trimmed(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

/// Where a value of either axis is on the drawing.
struct Scale {
    low: f64,
    high: f64,
    most: f64,
}

impl Scale {
    fn of(figure: &Figure) -> Scale {
        let spots = || figure.lines.iter().flat_map(|line| &line.spots);
        let low = spots().map(|spot| spot.at).fold(f64::INFINITY, f64::min);
        let high = spots().map(|spot| spot.at).fold(f64::NEG_INFINITY, f64::max);
        let most = spots().map(|spot| spot.value.high).fold(0.0, f64::max) * HEADROOM;
        Scale { low, high, most: if most > 0.0 { most } else { 1.0 } }
    }

    fn x(&self, at: f64) -> f64 {
        let room = WIDTH - LEFT - RIGHT;
        match self.high > self.low {
            true => LEFT + (at - self.low) / (self.high - self.low) * room,
            false => LEFT + room / 2.0,
        }
    }

    fn y(&self, value: f64) -> f64 {
        TOP + PLOT_HEIGHT * (1.0 - value / self.most)
    }
}

fn lines(text: &mut String, figure: &Figure, along: &str) {
    let scale = Scale::of(figure);
    grid(text, figure, &scale);
    let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
    let _ = write!(
        text,
        "<text class=\"ink\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        TOP + PLOT_HEIGHT + 40.0,
        escaped(along)
    );
    for (nth, line) in figure.lines.iter().enumerate() {
        draw_line(text, &scale, nth, line);
        legend(text, nth, &line.name);
    }
}

fn grid(text: &mut String, figure: &Figure, scale: &Scale) {
    let by = step(scale.most);
    for nth in 0..=(scale.most / by) as usize {
        let value = nth as f64 * by;
        let (y, end) = (scale.y(value), WIDTH - RIGHT);
        let _ = write!(
            text,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{end}\"/><text class=\"ink\" x=\"{}\" \
             y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            number(value)
        );
    }
    let mut points: Vec<f64> =
        figure.lines.iter().flat_map(|line| line.spots.iter().map(|spot| spot.at)).collect();
    points.sort_unstable_by(f64::total_cmp);
    points.dedup();
    let mut free = f64::NEG_INFINITY;
    for point in points {
        let x = scale.x(point);
        // Where points are close together not all have their figures.
        if x < free {
            continue;
        }
        free = x + LABEL_GAP;
        let _ = write!(
            text,
            "<text class=\"ink\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            TOP + PLOT_HEIGHT + 20.0,
            number(point)
        );
    }
}

fn draw_line(text: &mut String, scale: &Scale, nth: usize, line: &Line) {
    let class = class(nth);
    let place = |spot: &Spot, value: f64| format!("{:.1} {:.1}", scale.x(spot.at), scale.y(value));
    let upper = line.spots.iter().map(|spot| place(spot, spot.value.high));
    let lower = line.spots.iter().rev().map(|spot| place(spot, spot.value.low));
    let band: Vec<String> = upper.chain(lower).collect();
    let path: Vec<String> = line.spots.iter().map(|spot| place(spot, spot.value.middle)).collect();
    let dashed = if nth >= COLOURS.len() { " stroke-dasharray=\"6 4\"" } else { "" };
    let _ = write!(
        text,
        "<path class=\"band {class}\" d=\"M{}Z\"/><path class=\"{class} line\" fill=\"none\" \
         style=\"fill:none\"{dashed} d=\"M{}\"/>",
        band.join("L"),
        path.join("L")
    );
    for spot in &line.spots {
        let Spot { at, value, runs, noisy } = spot;
        let hollow = if *noisy { " hollow" } else { "" };
        let void = if *noisy { ", all void" } else { "" };
        let _ = write!(
            text,
            "<circle class=\"{class}{hollow}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{} at {}: \
             {} ({} to {}), {runs} runs{void}</title></circle>",
            scale.x(*at),
            scale.y(value.middle),
            escaped(&line.name),
            number(*at),
            number(value.middle),
            number(value.low),
            number(value.high),
        );
    }
}

fn legend(text: &mut String, nth: usize, name: &str) {
    let column = (WIDTH - LEFT) / LEGEND_COLUMNS as f64;
    let x = LEFT + (nth % LEGEND_COLUMNS) as f64 * column;
    let row = (nth / LEGEND_COLUMNS) as f64;
    let y = TOP + PLOT_HEIGHT + BELOW + row * LEGEND_ROW + 8.0;
    let _ = write!(
        text,
        "<rect class=\"{}\" x=\"{x}\" y=\"{}\" width=\"12\" height=\"4\"/><text class=\"ink\" \
         x=\"{}\" y=\"{y}\">{}</text>",
        class(nth),
        y - 6.0,
        x + 18.0,
        escaped(name)
    );
}

fn draw_bars(text: &mut String, figure: &Figure) {
    let scale = Scale::of(figure);
    let (start, room) = (4.0, WIDTH - 4.0 - FIGURE_WIDTH);
    let mut below = TOP;
    for (nth, line) in figure.lines.iter().enumerate() {
        let top = below;
        below += bar_room(&line.name);
        let Some(spot) = line.spots.first() else { continue };
        for (row, words) in rows(&line.name).iter().enumerate() {
            let y = top + (row as f64 + 1.0) * NAME_ROW - 4.0;
            let words = escaped(words);
            let _ = write!(text, "<text class=\"ink\" x=\"{start}\" y=\"{y}\">{words}</text>");
        }
        let y = below - BAR_GAP - BAR_HEIGHT;
        let to = |value: f64| start + value / scale.most * room;
        let value = spot.value;
        let opacity =
            if spot.noisy { " fill-opacity=\".35\" style=\"fill-opacity:.35\"" } else { "" };
        let void = if spot.noisy { " (void)" } else { "" };
        let _ = write!(
            text,
            "<rect class=\"{} bar\"{opacity} x=\"{start}\" y=\"{y}\" width=\"{:.1}\" \
             height=\"{BAR_HEIGHT}\"/><path class=\"whisker\" d=\"M{:.1} {m}H{:.1}\"/>\
             <text class=\"ink\" x=\"{:.1}\" y=\"{}\">{}{void}</text>",
            class(nth),
            to(value.middle) - start,
            to(value.low),
            to(value.high),
            to(value.high.max(value.middle)) + 8.0,
            y + BAR_HEIGHT - 4.0,
            number(value.middle),
            m = y + BAR_HEIGHT / 2.0,
        );
    }
}

/// The height that a bar and its name take.
fn bar_room(name: &str) -> f64 {
    rows(name).len() as f64 * NAME_ROW + BAR_HEIGHT + BAR_GAP
}

/// A name in lines that fit into the drawing, broken between words.
fn rows(name: &str) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in name.split(' ') {
        let row = rows.last_mut().filter(|row| {
            row.is_empty() || row.chars().count() + word.chars().count() < NAME_CHARS_MAX
        });
        match row {
            Some(row) if row.is_empty() => row.push_str(word),
            Some(row) => *row += &format!(" {word}"),
            None => rows.push(word.to_owned()),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use flyball_stats::Interval;

    use super::*;

    #[test]
    fn grids_have_round_steps() {
        assert_eq!((step(10.0), step(23_000.0), step(0.7)), (2.0, 5_000.0, 0.2));
        assert_eq!((number(12_500.0), number(0.85)), ("12.5\u{a0}k".into(), "0.85".into()));
    }

    #[test]
    fn a_drawing_holds_every_series_escaped_and_marks_what_is_noisy() {
        let value = Interval { low: 1.0, middle: 2.0, high: 3.0 };
        let spot = |at, noisy| Spot { at, value, runs: 3, noisy };
        let line = Line { name: "a<b".into(), spots: vec![spot(1.0, false), spot(2.0, true)] };
        let figure = |along: Option<&str>| Figure {
            name: "x".into(),
            measure: "replies",
            along: along.map(str::to_owned),
            lines: vec![line.clone(); 9],
        };
        let drawn = draw(&figure(Some("rate")));
        assert!(drawn.contains("a&lt;b") && !drawn.contains("a<b"));
        assert_eq!(drawn.matches(" hollow\"").count(), 9);
        assert_eq!(drawn.matches("class=\"band").count(), 9);
        assert_eq!(draw(&figure(None)).matches(" bar\"").count(), 9);
    }

    #[test]
    fn a_long_name_is_broken_between_words_and_close_labels_are_left_out() {
        let name = ["arch=shared-symped", "workers=4"].repeat(6).join(" ");
        let all = rows(&name);
        assert!(all.len() == 2 && all.iter().all(|row| row.len() <= NAME_CHARS_MAX), "{all:?}");
        assert_eq!(all.join(" "), name);
        assert!(bar_room(&name) > bar_room("short"));
        let value = Interval { low: 1.0, middle: 2.0, high: 3.0 };
        let spots = [512.0, 1_024.0, 204_800.0];
        let spots = spots.map(|at| Spot { at, value, runs: 3, noisy: false }).to_vec();
        let lines = vec![Line { name: "a".into(), spots }];
        let along = Some("bytes".to_owned());
        let drawn = draw(&Figure { name: "x".into(), measure: "replies", along, lines });
        assert!(drawn.contains(">512<") && drawn.contains(">204.8\u{a0}k<"));
        assert!(!drawn.contains(">1024<"));
    }
}
