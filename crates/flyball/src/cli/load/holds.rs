//! Under which loads, and for which requests, each option of `flyball load` has an effect.
//!
//! An option that is written and has none is an error: it asks for something that is not done.
//! [`HOLDS`] has a row for each option, and [`RULES`] what depends on other options too.

use std::fmt::Write as _;

use clap::ArgMatches;
use clap::parser::ValueSource;

/// What the load is given by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Coordinators.
    Agent,
    /// A search by new connections or sessions.
    FindPeak,
    /// A search by requests on connections that are kept.
    PeakKept,
    /// New connections per second.
    Rate,
    /// New sessions per second.
    Sessions,
    /// The times of a log.
    Replay,
    /// Requests per second on connections that are kept.
    Requests,
    /// The number of connections that are kept busy.
    Connections,
}

/// Where requests come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The URL alone.
    Url,
    /// A list of paths.
    List,
    /// A mix of files, of a set or by their paths.
    Set,
    /// A log of sessions.
    SessionLog,
    /// An access log.
    AccessLog,
}

use Mode::{Agent, Connections, FindPeak, PeakKept, Rate, Replay, Requests, Sessions};
use Source::{AccessLog, List, SessionLog, Set, Url};

impl Mode {
    const ALL: [Mode; 8] =
        [Agent, FindPeak, PeakKept, Rate, Sessions, Replay, Requests, Connections];

    /// What the command line has it by.
    fn option(self) -> &'static str {
        match self {
            Agent => "--agent",
            FindPeak => "--find-peak",
            PeakKept => "--find-peak on --connections",
            Rate => "--rate",
            Sessions => "--sessions",
            Replay => "--replay-times",
            Requests => "--requests-per-s",
            Connections => "--connections",
        }
    }

    fn of(given: Given<'_>) -> Mode {
        if given.has("find-peak") && ["connections", "requests-per-s"].iter().any(|o| given.has(o))
        {
            return PeakKept;
        }
        let is_written = |mode: &Mode| given.has(&mode.option()[2..]);
        let mut by_one_option = Mode::ALL.into_iter().filter(|mode| *mode != PeakKept);
        by_one_option.find(is_written).unwrap_or(Connections)
    }
}

impl Source {
    const ALL: [Source; 5] = [SessionLog, AccessLog, List, Set, Url];

    /// What the command line has it by.
    fn options(self) -> &'static [&'static str] {
        match self {
            Url => &[],
            List => &["list"],
            Set => &["fileset", "mix"],
            SessionLog => &["wsesslog"],
            AccessLog => &["log"],
        }
    }

    /// A set beside a list or a log says what replies must be, and not what is asked for.
    fn of(given: Given<'_>) -> Source {
        let is_written = |source: &Source| source.options().iter().any(|option| given.has(option));
        Source::ALL.into_iter().find(is_written).unwrap_or(Url)
    }

    fn words(self) -> &'static str {
        match self {
            Url => "the URL alone",
            List => "--list",
            Set => "--fileset or --mix",
            SessionLog => "--wsesslog",
            AccessLog => "--log",
        }
    }
}

/// Where an option has an effect.
struct Row {
    option: &'static str,
    modes: &'static [Mode],
    sources: &'static [Source],
}

impl Row {
    /// The loads that it has an effect with, as what to use in the place of another.
    fn other_modes(&self) -> impl Iterator<Item = Mode> {
        let is_itself = |mode: &Mode| mode.option()[2..] == *self.option;
        self.modes.iter().copied().filter(move |mode| *mode != PeakKept && !is_itself(mode))
    }
}

const LOADS: &[Mode] = &[FindPeak, PeakKept, Rate, Sessions, Replay, Requests, Connections];
const AT_A_RATE: &[Mode] = &[FindPeak, PeakKept, Rate, Sessions, Requests];
const NOT_REPLAYED: &[Mode] = &[FindPeak, PeakKept, Rate, Sessions, Requests, Connections];
const ONE_RUN: &[Mode] = &[Rate, Sessions, Replay, Requests, Connections];
/// Loads of sessions, in which a request follows others.
const IN_SESSIONS: &[Mode] = &[FindPeak, Rate, Sessions, Connections];

const ANY: &[Source] = &Source::ALL;
const NO_SET: &[Source] = &[Url, List, SessionLog, AccessLog];
const NO_ACCESS_LOG: &[Source] = &[Url, List, Set, SessionLog];
const NO_LOG: &[Source] = &[Url, List, Set];

const fn row(option: &'static str, modes: &'static [Mode], sources: &'static [Source]) -> Row {
    Row { option, modes, sources }
}

const HOLDS: &[Row] = &[
    row("agent", &[Agent], ANY),
    row("url", LOADS, ANY),
    // How much.
    row("rate", &[FindPeak, Rate], ANY),
    row("requests-per-s", &[PeakKept, Requests], ANY),
    row("connections", &[PeakKept, Requests, Connections], ANY),
    row("sessions", &[FindPeak, Sessions], ANY),
    row("replay-times", &[Replay], &[AccessLog]),
    row("arrivals", AT_A_RATE, ANY),
    row("seed", LOADS, ANY),
    row("threads", LOADS, ANY),
    // How long.
    row("duration", LOADS, ANY),
    row("warmup", LOADS, ANY),
    row("late-after", LOADS, ANY),
    row("timeout", LOADS, ANY),
    row("connect-timeout", LOADS, ANY),
    row("first-byte-timeout", LOADS, ANY),
    row("deadline", LOADS, ANY),
    row("retries", LOADS, ANY),
    row("backoff", LOADS, ANY),
    row("think", IN_SESSIONS, ANY),
    // What is asked for.
    row("requests-per-connection", NOT_REPLAYED, ANY),
    row("requests", LOADS, ANY),
    row("pipeline", IN_SESSIONS, NO_ACCESS_LOG),
    row("verify", LOADS, ANY),
    row("verify-with", LOADS, ANY),
    row("method", LOADS, NO_ACCESS_LOG),
    row("header", LOADS, ANY),
    row("body", LOADS, NO_ACCESS_LOG),
    row("accept-encoding", LOADS, ANY),
    row("conditional", LOADS, ANY),
    row("http1.0", LOADS, ANY),
    row("list", LOADS, &[List]),
    row("fileset", LOADS, ANY),
    row("mix", LOADS, &[Set]),
    row("directories", LOADS, &[Set]),
    row("dynamic", LOADS, &[Set]),
    row("dynamic-script", LOADS, &[Set]),
    row("cgi-script", LOADS, &[Set]),
    row("surge", IN_SESSIONS, NO_LOG),
    row("wsesslog", IN_SESSIONS, &[SessionLog]),
    row("log", LOADS, &[AccessLog]),
    row("client-gap", &[FindPeak, Rate, Sessions, Replay, Connections], &[AccessLog]),
    row("data-set", LOADS, &[AccessLog]),
    row("safe", LOADS, &[AccessLog]),
    row("sizes-of", LOADS, NO_SET),
    row("strict", LOADS, ANY),
    // How clients behave.
    row("source", LOADS, ANY),
    row("receive-buffer", LOADS, ANY),
    row("read-rate", LOADS, ANY),
    row("write-rate", LOADS, ANY),
    row("line-rate", &[FindPeak, Rate, Sessions, Replay, Connections], ANY),
    row("close", LOADS, ANY),
    row("insecure", LOADS, ANY),
    row("ca", LOADS, ANY),
    row("tls-resume", LOADS, ANY),
    row("tls-group", LOADS, ANY),
    // What is reported.
    row("json", LOADS, ANY),
    row("csv", ONE_RUN, ANY),
    row("hdr", ONE_RUN, ANY),
    row("fail-if", ONE_RUN, ANY),
    row("find-peak", &[FindPeak, PeakKept], ANY),
    row("plot", &[FindPeak, PeakKept], ANY),
    row("agents", LOADS, ANY),
    row("quiet", LOADS, ANY),
    row("tui", ONE_RUN, ANY),
    row("series", LOADS, ANY),
];

/// What was written.
#[derive(Clone, Copy)]
struct Given<'a>(&'a ArgMatches);

impl Given<'_> {
    fn has(self, option: &str) -> bool {
        self.0.value_source(option) == Some(ValueSource::CommandLine)
    }

    fn count(self, option: &str) -> Option<u32> {
        self.0.get_one::<u32>(option).copied()
    }
}

/// What else an option depends on.
struct Rule {
    option: &'static str,
    /// Whether the option has no effect.
    when: fn(Given<'_>, Mode, Source) -> bool,
    why: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        option: "think",
        when: |_, mode, source| source == AccessLog && mode != Connections,
        why: "on the sessions of a --log, which have the pauses of the log or none",
    },
    Rule {
        option: "think",
        when: |given, _, _| given.has("client-gap"),
        why: "with --client-gap: sessions have the pauses of the log",
    },
    Rule {
        option: "think",
        when: |given, _, _| given.has("surge"),
        why: "with --surge, whose off periods take its place",
    },
    Rule {
        option: "think",
        when: |given, mode, source| {
            let is_of_a_loop = mode == Connections && source != Set;
            given.has("pipeline") && source != SessionLog && !is_of_a_loop
        },
        why: "with --pipeline, by which a session does not wait for replies",
    },
    Rule { option: "think", when: are_single, why: ARE_SINGLE },
    Rule { option: "pipeline", when: are_single, why: ARE_SINGLE },
    Rule { option: "line-rate", when: are_single, why: ARE_SINGLE },
    Rule { option: "surge", when: are_single, why: ARE_SINGLE },
    Rule {
        option: "surge",
        when: |_, mode, source| mode == Connections && matches!(source, Url | List),
        why: "with --connections, where a session of these is one request: use --think",
    },
    Rule {
        option: "pipeline",
        when: |given, _, _| given.has("surge"),
        why: "with --surge, where each request follows the reply before it",
    },
    Rule {
        option: "requests-per-connection",
        when: |given, mode, source| {
            let have_lengths = source == SessionLog || given.has("client-gap");
            mode != Connections && have_lengths
        },
        why: "on sessions of a log, which have lengths of their own: leave it out, or use \
              --connections",
    },
    Rule {
        option: "http1.0",
        when: |given, mode, source| {
            let is_of_singles =
                given.0.get_one::<String>("http1.0").is_some_and(|which| which == "singles");
            let are_singles = matches!(mode, Requests | PeakKept);
            is_of_singles && (are_singles || !matches!(source, Set | SessionLog))
        },
        why: "as =singles, which is of sessions that have lengths and connections of their own: \
              use it with --mix, --fileset or --wsesslog, and without --requests-per-s",
    },
];

const ARE_SINGLE: &str = "on sessions of one request: add --requests-per-connection";

/// Whether sessions that arrive have one request each, so that no request follows another.
fn are_single(given: Given<'_>, mode: Mode, source: Source) -> bool {
    let is_one = given.count("requests-per-connection").unwrap_or(1) == 1;
    let have_lengths = matches!(source, Set | SessionLog) || given.has("client-gap");
    mode != Connections && is_one && !have_lengths
}

/// Refuses an option that is written and has no effect.
///
/// # Errors
/// Which one, why, and where it has an effect.
pub(super) fn check(given: &ArgMatches) -> Result<(), String> {
    let given = Given(given);
    let (mode, source) = (Mode::of(given), Source::of(given));
    for row in HOLDS.iter().filter(|row| given.has(row.option)) {
        let name = row.option;
        if !row.modes.contains(&mode) {
            let instead = match mode {
                Agent => "its coordinators say what is done".into(),
                PeakKept if row.modes.contains(&FindPeak) => "leave out --connections".into(),
                FindPeak | PeakKept => "leave out --find-peak".into(),
                _ => format!("use {}", either(row.other_modes().map(Mode::option))),
            };
            return Err(format!("--{name} has no effect with {}: {instead}", mode.option()));
        }
        if !row.sources.contains(&source) {
            let where_it_does = either(row.sources.iter().map(|source| source.words()));
            return Err(format!(
                "--{name} has no effect where requests come from {}: it is for {where_it_does}",
                source.words()
            ));
        }
    }
    let mut broken = RULES.iter().filter(|rule| given.has(rule.option));
    match broken.find(|rule| (rule.when)(given, mode, source)) {
        Some(rule) => Err(format!("--{} has no effect {}", rule.option, rule.why)),
        None => Ok(()),
    }
}

/// `a`, `a or b`, `a, b or c`.
fn either<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    let mut out = String::new();
    for (at, word) in words.iter().enumerate() {
        let before = match words.len() - at {
            _ if at == 0 => "",
            1 => " or ",
            _ => ", ",
        };
        // Writing to a string cannot fail.
        let _ = write!(out, "{before}{word}");
    }
    out
}

#[cfg(test)]
mod tests;
