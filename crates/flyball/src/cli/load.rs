//! The command line of `flyball load`.

mod compare;
mod holds;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, value_parser};
use flyball_load::doubts;
use flyball_load::engine::{Closing, Retries};
use flyball_load::fileset::{Kind, Manifest, Parameters};
use flyball_load::job::{Asking, Http10, Load as Amount, Options, Tls};
use flyball_load::observe::Threshold;
use flyball_load::schedule::{Profile, Spread};
use flyball_load::target::Target;
use flyball_load::think::Think;
use flyball_load::units::{parse_bytes, parse_duration};
use flyball_load::workload::{DynamicOptions, SurgeParameters};

pub use compare::Compare;

/// Most source addresses that a range may hold.
const SOURCES_MAX: u32 = 1 << 16;

/// Where a search begins when no rate is given, in connections or requests per second.
const FIRST_PER_S: f64 = 500.0;

/// A log that is replayed is at its end before: ten years.
const WHOLE_LOG: Duration = Duration::from_secs(3_650 * 86_400);

/// What `flyball load` is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// Generate load for coordinators that connect to this address.
    Agent(SocketAddr),
    /// Load a server.
    Run(Box<Run>),
    /// Compare reports of earlier runs.
    Compare(Compare),
}

/// A run, and what becomes of its report.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The run.
    pub options: Options,
    /// Whether the knee is looked for, by many runs.
    pub find_peak: bool,
    /// Where its curve is drawn.
    pub plot: Option<PathBuf>,
    /// The agents that generate the load; none is this process.
    pub agents: Vec<String>,
    /// What the agents are told: this command line without what is for the coordinator alone.
    pub arguments: Vec<String>,
    /// Whether the report is JSON.
    pub json: bool,
    /// Whether nothing is shown while it runs.
    pub quiet: bool,
    /// Whether it is shown on a screen of its own.
    pub tui: bool,
    /// Where the run goes second by second, as CSV.
    pub csv: Option<PathBuf>,
    /// Where it goes as a log of HdrHistogram.
    pub hdr: Option<PathBuf>,
    /// When it fails.
    pub fail_if: Vec<Threshold>,
}

/// Arguments that agents are not told.
const OF_COORDINATOR: [&str; 10] =
    ["agents", "agent", "json", "quiet", "tui", "csv", "hdr", "fail-if", "find-peak", "plot"];

pub(super) fn program() -> clap::Command {
    clap::Command::new("load")
        .about("Load a server, past its limit if need be, and report what it did")
        .long_about(
            "Load a server, past its limit if need be, and report what it did.\n\nWith --rate, \
             connections are opened by an absolute schedule that does not wait for the server, \
             each with one request unless --requests-per-connection says otherwise. With \
             --connections, so many are kept busy, and the server sets the pace. With \
             --requests-per-s and --connections, requests are due by the schedule and share so \
             many connections, which are kept. Latency is counted from when a request was \
             due.\n\nExit codes: 0 the run is done; 1 it cannot be done here, and why; 2 the \
             command line is wrong; 3 it failed by a --fail-if, or by \
             wrong bodies with --verify; 4 it is void: nothing was sent or answered, an agent \
             was lost or limited, or, with --fail-if, the client was the limit.",
        )
        .subcommand(compare::program())
        .subcommand_negates_reqs(true)
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .arg(
            Arg::new("url")
                .value_name("URL")
                .required_unless_present("agent")
                .help("What to ask for: http://... or https://..."),
        )
        .group(ArgGroup::new("load").args(["rate", "connections", "sessions", "replay-times"]))
        .args(amounts())
        .args(times())
        .args(requests())
        .args(workloads())
        .args(logs())
        .args(clients())
        .args(secure())
        .args(reports())
}

fn text(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn duration(name: &'static str, help: &'static str) -> Arg {
    text(name, "TIME", help).value_parser(ValueParser::new(parse_duration))
}

fn bytes(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    text(name, value, help).value_parser(ValueParser::new(parse_bytes))
}

fn amounts() -> Vec<Arg> {
    let profile = || ValueParser::new(|text: &str| text.parse::<Profile>());
    vec![
        text("rate", "R", "New connections per second, or a profile of them")
            .long_help(
                "New connections per second, or how their rate changes: 1000, \
                 steps:100x5s,200x5s (the last one stays), ramp:100..1000/10s, \
                 sine:500~400/60s (mean, swing, period), spike:100,1000@5s+1s (from 100 to 1000 \
                 after 5 s, for 1 s).",
            )
            .value_parser(profile()),
        text("requests-per-s", "R", "Requests per second on the --connections, or a profile")
            .long_help(
                "Requests per second, or a profile of them as of --rate, on as many connections \
                 as --connections says, which are kept. A request that is due while all of them \
                 are busy waits for one, and its latency counts from when it was due.",
            )
            .short('R')
            .conflicts_with_all(["rate", "sessions", "replay-times"])
            .value_parser(profile()),
        text("connections", "N", "Connections to keep busy [default: 1]")
            .short('c')
            .value_parser(value_parser!(u32).range(1..)),
        text("sessions", "R", "New sessions per second, or a profile of them")
            .value_parser(profile()),
        text("replay-times", "xSPEED", "Sessions when the --log says, or so many times as fast")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("x1")
            .value_parser(ValueParser::new(speed)),
        text("arrivals", "HOW", "deterministic, poisson or uniform [default: deterministic]")
            .value_parser(ValueParser::new(|text: &str| text.parse::<Spread>())),
        text("seed", "N", "What everything random comes from")
            .default_value("1")
            .value_parser(value_parser!(u64)),
        text("threads", "N", "Threads that generate load")
            .short('t')
            .default_value("1")
            .value_parser(value_parser!(u32).range(1..=1024)),
    ]
}

fn times() -> Vec<Arg> {
    vec![
        duration("duration", "How long sessions begin").short('d').default_value("10s"),
        duration("warmup", "The first part of it, which is not counted").default_value("0s"),
        duration("late-after", "With more than 1 % begun later than this, the client is the limit")
            .default_value("1ms"),
        duration("timeout", "Longest wait for a reply, connecting included").default_value("10s"),
        duration("connect-timeout", "Longest wait for a connection [default: --timeout]"),
        duration("first-byte-timeout", "Longest wait for a first byte [default: --timeout]"),
        duration("deadline", "Latency up to which a reply is good [default: --timeout]"),
        text("retries", "N", "How often a client tries again that gets no answer, or a refusal")
            .long_help(
                "How often a client tries again: after a time-out, a connection that is refused or \
                 breaks, and an answer of 503 or 429. Each try has the --timeout, and a reply is \
                 good by the time since its try was due.",
            )
            .default_value("0")
            .value_parser(value_parser!(u32).range(0..=100)),
        duration("backoff", "Mean wait before the first retry; each next one is twice as long")
            .long_help(
                "Mean wait before the first retry; each next one is twice as long, up to a minute. \
                 --seed draws each, of half to one and a half of its mean. Who is asked to wait \
                 longer, by Retry-After, does.",
            )
            .default_value("100ms")
            .requires("retries"),
        text("think", "TIME", "Time between a reply and the next request, or how it is spread")
            .long_help(
                "Time between a reply and the next request: 200ms, exp:200ms (exponential, with \
                 this mean), or uniform:100ms..300ms. Connections that are kept busy begin at \
                 places of one think time that --seed draws, and not all at once.",
            )
            .default_value("0s")
            .value_parser(ValueParser::new(|text: &str| text.parse::<Think>())),
    ]
}

fn requests() -> Vec<Arg> {
    vec![
        text("requests-per-connection", "N", "Requests on each connection")
            .long_help(
                "Requests on each connection; the default is 1 with --rate and --sessions, and no \
                 limit with --connections.",
            )
            .value_parser(value_parser!(u32).range(1..)),
        text("requests", "N", "Requests after which the run is over, if not by its --duration")
            .value_parser(value_parser!(u64).range(1..)),
        text("pipeline", "N", "Most requests that wait for replies on one connection")
            .default_value("1")
            .value_parser(value_parser!(u32).range(1..=4096)),
        switch("verify", "Compare every reply with what it must be; what differs is an error"),
        text(
            "verify-with",
            "DIR",
            "As --verify, with the files of a directory: what is served at /",
        )
        .value_parser(value_parser!(PathBuf))
        .conflicts_with("accept-encoding"),
        text("method", "NAME", "The method").default_value("GET"),
        text("header", "'NAME: VALUE'", "A header field of every request; may be repeated")
            .short('H')
            .action(ArgAction::Append)
            .value_parser(ValueParser::new(field)),
        text("body", "FILE", "The body of every request").value_parser(value_parser!(PathBuf)),
        text("accept-encoding", "CODINGS", "The codings that every request accepts"),
        text("conditional", "SHARE", "Share of requests with If-Modified-Since, such as 0.28")
            .default_value("0")
            .value_parser(ValueParser::new(share)),
        text("http1.0", "WHICH", "Send requests of HTTP/1.0: all, or the singles of their session")
            .long_help(
                "Send requests of HTTP/1.0: all of them, or with --http1.0=singles those that are \
                 alone in their session, as the connections of SPECweb99 are that carry one \
                 request.",
            )
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("all")
            .value_parser(["all", "singles"]),
    ]
}

fn logs() -> Vec<Arg> {
    vec![
        text("wsesslog", "FILE", "A log of sessions as httperf has them: bursts and think times")
            .value_parser(value_parser!(PathBuf))
            .conflicts_with("list"),
        text("log", "FILE", "An access log, common, combined or of the World Cup 1998, in order")
            .value_parser(value_parser!(PathBuf))
            .conflicts_with_all(["list", "wsesslog"]),
        duration("client-gap", "Make requests of one client of --log within this time a session"),
        bytes("data-set", "BYTES", "Cut the --log off where its files have so many bytes together"),
        switch("safe", "Leave out requests of a --log that are not of a safe method: GET, HEAD")
            .long_help(
                "Leave out requests of a --log that may change something: all whose method is not \
                 safe, as GET, HEAD, OPTIONS and TRACE are (RFC 9110, 9.2.1).",
            ),
        text(
            "sizes-of",
            "DIR",
            "Count replies in classes by the sizes of files: what is served at /",
        )
        .value_parser(value_parser!(PathBuf))
        .conflicts_with("fileset"),
        switch("strict", "A wrong line of a log, or what may run out, is an error before the run"),
    ]
}

fn workloads() -> Vec<Arg> {
    vec![
        text("list", "FILE", "Lines of PATH or PATH WEIGHT, to draw requests from")
            .value_parser(value_parser!(PathBuf)),
        text("fileset", "DIR", "A set of `flyball fileset`: its files, as often as its kind asks")
            .long_help(
                "A set of `flyball fileset`: its files, as often as its kind asks for each. With \
                 --list, --wsesslog or --log these say what is asked for, and the set what the \
                 replies must be and which class of sizes each is of.",
            )
            .value_parser(value_parser!(PathBuf)),
        text("mix", "KIND", "Files as often as this kind asks: of --fileset, or by their paths")
            .value_parser(PossibleValuesParser::new(Kind::names())),
        text("directories", "N", "Directories of a --mix without --fileset")
            .value_parser(value_parser!(u64).range(1..))
            .requires("mix")
            .conflicts_with("fileset"),
        text(
            "dynamic",
            "PERCENT",
            "How much of a mix of specweb99 is dynamic requests, such as 30",
        )
        .long_help(
            "How much of a mix of specweb99 is dynamic requests: 30, or 30:42/0/42/16 with \
                 the shares of standard GET, CGI, GET with ad rotation and POST among them (as \
                 here by default), or full for all that SPECweb99 has. Their replies are checked \
                 by its rules, with --verify byte by byte.",
        )
        .value_parser(ValueParser::new(|text: &str| text.parse::<DynamicOptions>())),
        text("dynamic-script", "PATH", "The path of --dynamic [default: /specweb99-dynamic]")
            .requires("dynamic")
            .value_parser(ValueParser::new(script)),
        text("cgi-script", "PATH", "The path of its CGI [default: /cgi-bin/specweb99-cgi]")
            .requires("dynamic")
            .value_parser(ValueParser::new(script)),
        text("surge", "NAME=NUMBER,...", "Off periods of SURGE within sessions, as it has them")
            .long_help(
                "Off periods of SURGE within sessions. Alone, as SURGE has them; or with \
                 inactive-k=1, inactive-alpha=1.5 and inactive-cap=100 for those between pages \
                 (Pareto, s), active-scale=1.46, active-shape=0.382 and active-cap=100 for those \
                 within a page (Weibull, s), embedded-k=1, embedded-alpha=2.43 and \
                 embedded-cap=100 for the references of a page (Pareto).",
            )
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("")
            .value_parser(ValueParser::new(|text: &str| text.parse::<SurgeParameters>())),
    ]
}

fn clients() -> Vec<Arg> {
    vec![
        text("source", "ADDRESSES", "Addresses to connect from, such as 127.0.0.2-127.0.0.50")
            .action(ArgAction::Append)
            .value_delimiter(',')
            .value_parser(ValueParser::new(sources)),
        bytes("receive-buffer", "BYTES", "Receive buffer of each connection"),
        bytes("read-rate", "BYTES", "Bytes per second that each connection reads"),
        bytes("write-rate", "BYTES", "Bytes per second that each connection writes"),
        bytes("line-rate", "BYTES", "Bytes per second that each client's line carries").long_help(
            "Bytes of bodies per second that each client's line carries: replies are taken as they \
             come, and the next burst or session waits until they would have come by then. Of the \
             clients of SPECweb99 that is 50000. Who waits when the time is over asks for nothing \
             more.",
        ),
        text("close", "HOW", "How connections end: orderly, or reset (leaves no TIME_WAIT)")
            .default_value("orderly")
            .value_parser(["orderly", "reset"]),
    ]
}

fn secure() -> Vec<Arg> {
    vec![
        switch("insecure", "Accept every certificate"),
        text("ca", "FILE", "Authorities to trust in the place of the system's, in PEM")
            .value_parser(value_parser!(PathBuf))
            .conflicts_with("insecure"),
        text("tls-resume", "SHARE", "Connections that resume a session: on, off, or such as 0.7")
            .long_help(
                "The share of connections that resume an earlier session of TLS, if one has left a \
                 ticket: on, off, or a share such as 0.7. The others do a full handshake, as \
                 people do who come for the first time.",
            )
            .default_value("off")
            .value_parser(ValueParser::new(resume)),
        text("tls-group", "NAME", "The only group to offer for the exchange of keys: X25519, ...")
            .long_help(
                "The only group to offer for the exchange of keys: X25519MLKEM768, X25519, \
                 secp256r1 or secp384r1. Without it they are offered in this order, and the server \
                 chooses.",
            ),
    ]
}

fn reports() -> Vec<Arg> {
    let file = |name, value, help| text(name, value, help).value_parser(value_parser!(PathBuf));
    vec![
        switch("json", "Print the report as JSON"),
        file("csv", "FILE", "Write the run second by second"),
        file("hdr", "FILE", "Write the latencies second by second as an HdrHistogram log"),
        text("fail-if", "CONDITION", "Exit with 3 if it holds, such as 'p99 > 50ms'")
            .long_help(
                "Exit with 3 if it holds; may be repeated. p50, p75, p90, p95, p99, p99.9, p99.99, \
                 mean and max are compared with a time and its unit; errors with a number; \
                 error-share, the share of requests without a reply, and bad-share, that of \
                 requests without a good one, with a percentage; replies and goodput with a rate.",
            )
            .action(ArgAction::Append)
            .value_parser(ValueParser::new(|text: &str| text.parse::<Threshold>())),
        switch("find-peak", "Raise the rate until the server is saturated, and three times beyond")
            .long_help(
                "Raise the rate until the server is saturated, and three times beyond: of new \
                 connections, with --sessions of sessions, and with --connections of requests on \
                 so many that are kept. It begins at --rate, --sessions or --requests-per-s.",
            ),
        file("plot", "FILE.svg", "Draw what --find-peak found"),
        text("agent", "ADDRESS", "Generate load for coordinators that connect to this address")
            .long_help(
                "Generate load for coordinators that connect to this address, until it is \
                 stopped. Every client that can connect to it decides what it loads: give it an \
                 address that only the coordinator reaches.",
            )
            .value_parser(value_parser!(SocketAddr)),
        text("agents", "A,B,...", "Let these agents generate the load, each its share")
            .action(ArgAction::Append)
            .value_delimiter(','),
        switch("quiet", "Show nothing while it runs"),
        switch("tui", "Show the run on a screen of its own, second by second")
            .conflicts_with_all(["quiet", "agents"]),
        switch("series", "Count second by second, for a coordinator").hide(true),
    ]
}

fn field(text: &str) -> Result<String, String> {
    let is_plain = !text.bytes().any(|byte| byte < b' ' && byte != b'\t');
    let (name, _) = text.split_once(':').unwrap_or_default();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && is_name { Ok(text.into()) } else { Err("expected 'NAME: VALUE'".into()) }
}

fn script(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_plain = is_path && !text.contains(['?', '#']);
    if is_plain { Ok(text.into()) } else { Err("expected a path, such as /script".into()) }
}

fn speed(text: &str) -> Result<f64, String> {
    let number = text.strip_prefix('x').unwrap_or(text).parse().ok();
    let speed = number.filter(|speed: &f64| speed.is_finite() && *speed > 0.0);
    speed.ok_or_else(|| "expected how many times as fast, such as x10".into())
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a share of 0 to 1, such as 0.28".into())
}

fn resume(text: &str) -> Result<f64, String> {
    match text {
        "on" => Ok(1.0),
        "off" => Ok(0.0),
        text => share(text).map_err(|_| "expected on, off, or a share such as 0.7".into()),
    }
}

/// One address, or a range of IPv4 addresses.
fn sources(text: &str) -> Result<Vec<IpAddr>, String> {
    let wrong = || "expected an address, or a range such as 127.0.0.2-127.0.0.50".to_string();
    let Some((from, to)) = text.split_once('-') else {
        return Ok(vec![text.parse().map_err(|_| wrong())?]);
    };
    let number = |text: &str| text.parse::<Ipv4Addr>().map(u32::from).map_err(|_| wrong());
    let (from, to) = (number(from)?, number(to)?);
    if from > to || to - from >= SOURCES_MAX {
        return Err(format!("a range goes up, over at most {SOURCES_MAX} addresses"));
    }
    Ok((from..=to).map(|number| IpAddr::V4(Ipv4Addr::from(number))).collect())
}

/// What the command line asks for.
///
/// # Errors
/// When a file that it names cannot be read, or options exclude each other.
pub(super) fn parsed(given: &ArgMatches) -> Result<Load, clap::Error> {
    let wrong =
        |why: String| clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{why}\n"));
    if let Some(("compare", given)) = given.subcommand() {
        return Ok(Load::Compare(compare::parsed(given)));
    }
    holds::check(given).map_err(wrong)?;
    if let Some(address) = given.get_one::<SocketAddr>("agent") {
        return Ok(Load::Agent(*address));
    }
    let mut options = options(given).map_err(wrong)?;
    let file = |id: &str| given.get_one::<PathBuf>(id).cloned();
    let (csv, hdr) = (file("csv"), file("hdr"));
    let by_second = ["json", "tui", "series"].into_iter().any(|id| given.get_flag(id));
    options.series = by_second || csv.is_some() || hdr.is_some();
    let mut arguments = arguments(given);
    if options.series && !given.get_flag("series") {
        arguments.insert(0, "--series".into());
    }
    Ok(Load::Run(Box::new(Run {
        options,
        find_peak: given.get_flag("find-peak"),
        plot: file("plot"),
        agents: given.get_many("agents").into_iter().flatten().cloned().collect(),
        arguments,
        json: given.get_flag("json"),
        quiet: given.get_flag("quiet"),
        tui: given.get_flag("tui"),
        csv,
        hdr,
        fail_if: given.get_many("fail-if").into_iter().flatten().cloned().collect(),
    })))
}

/// What was written on the command line, without what agents are not told.
fn arguments(given: &ArgMatches) -> Vec<String> {
    let mut arguments = Vec::new();
    let program = program();
    for argument in program.get_arguments() {
        let id = argument.get_id().as_str();
        let is_written = given.value_source(id) == Some(ValueSource::CommandLine);
        if !is_written || OF_COORDINATOR.contains(&id) {
            continue;
        }
        let Some(long) = argument.get_long() else {
            arguments.extend(given.get_one::<String>(id).cloned());
            continue;
        };
        if !argument.get_action().takes_values() {
            arguments.push(format!("--{long}"));
            continue;
        }
        for value in given.get_raw(id).into_iter().flatten() {
            arguments.push(format!("--{long}={}", value.to_string_lossy()));
        }
    }
    arguments
}

/// Opens the files that say what is asked for: that one of them is not there is a mistake of the
/// command line, and not of a run.
///
/// # Errors
/// Which one, and why.
fn look_at(given: &ArgMatches) -> Result<(), String> {
    for option in ["list", "wsesslog", "log"] {
        if let Some(file) = given.get_one::<PathBuf>(option) {
            fs::File::open(file)
                .map_err(|error| format!("--{option} {}: {error}", file.display()))?;
        }
    }
    Ok(())
}

/// What the workload is.
fn ask(given: &ArgMatches, options: &mut Options) {
    let file = |id: &str| given.get_one::<PathBuf>(id).cloned();
    options.mix = given.get_one::<String>("mix").and_then(|name| Kind::named(name));
    options.surge = given.get_one("surge").copied();
    options.dynamic = given.get_one::<DynamicOptions>("dynamic").cloned().map(|dynamic| {
        let path = |id: &str| given.get_one::<String>(id).cloned();
        DynamicOptions {
            script: path("dynamic-script").unwrap_or(dynamic.script),
            cgi: path("cgi-script").unwrap_or(dynamic.cgi),
            ..dynamic
        }
    });
    let asked = [
        file("list").map(Asking::List),
        file("wsesslog").map(Asking::SessionLog),
        file("log").map(Asking::AccessLog),
        file("fileset").map(Asking::Fileset),
        options.mix.map(|kind| {
            let parameters = kind.defaults();
            let directories = given.get_one("directories").copied();
            let directories = directories.unwrap_or(parameters.directories);
            Asking::Mix(Manifest { kind, parameters: Parameters { directories, ..parameters } })
        }),
    ];
    options.asking = asked.into_iter().flatten().next().unwrap_or_default();
    let is_mix = matches!(options.asking, Asking::Fileset(_));
    options.set = file("fileset").filter(|_| !is_mix);
}

/// How logs are read, and what replies are compared with.
fn read(given: &ArgMatches, options: &mut Options) {
    let directory = |id: &str| given.get_one::<PathBuf>(id).cloned();
    options.client_gap = given.get_one("client-gap").copied();
    options.strict = given.get_flag("strict");
    options.data_set = given.get_one("data-set").copied();
    options.safe = given.get_flag("safe");
    options.sizes_of = directory("sizes-of");
    options.verify_with = directory("verify-with");
    options.behaviour.verify = given.get_flag("verify") || options.verify_with.is_some();
}

fn tls(given: &ArgMatches) -> Tls {
    Tls {
        insecure: given.get_flag("insecure"),
        ca: given.get_one("ca").cloned(),
        resume: given.get_one("tls-resume").copied().unwrap_or_default(),
        group: given.get_one("tls-group").cloned(),
    }
}

/// How much load there is.
fn amount(given: &ArgMatches) -> Amount {
    let profile = |id: &str| given.get_one::<Profile>(id).cloned();
    let replay = given.get_one::<f64>("replay-times").copied();
    let connections = given.get_one::<u32>("connections").copied().unwrap_or(1);
    match (profile("rate"), profile("sessions"), profile("requests-per-s"), replay) {
        (Some(rate), ..) => Amount::Rate(rate),
        (_, Some(rate), ..) => Amount::Sessions(rate),
        (_, _, Some(rate), _) => Amount::Requests(rate, connections),
        (_, _, _, Some(speed)) => Amount::Replay(speed),
        // A search of which nothing is said begins somewhere.
        _ if given.get_flag("find-peak") => {
            let first = Profile::constant(FIRST_PER_S);
            let is_kept = given.value_source("connections") == Some(ValueSource::CommandLine);
            if is_kept { Amount::Requests(first, connections) } else { Amount::Rate(first) }
        }
        _ => Amount::Connections(connections),
    }
}

/// How often clients try again.
fn retries(given: &ArgMatches) -> Result<Retries, String> {
    let count = |id: &str| given.get_one::<u32>(id).copied();
    let most = count("retries").unwrap_or_default();
    if most > 0 && count("pipeline").is_some_and(|depth| depth > 1) {
        return Err("--retries are of one request at a time: without --pipeline".into());
    }
    Ok(Retries { most, backoff: given.get_one("backoff").copied().unwrap_or_default() })
}

fn options(given: &ArgMatches) -> Result<Options, String> {
    let text = |id: &str| given.get_one::<String>(id).cloned();
    let time = |id: &str| given.get_one::<Duration>(id).copied();
    let count = |id: &str| given.get_one::<u32>(id).copied();
    let size = |id: &str| given.get_one::<u64>(id).copied();
    let mut options = Options::new(&text("url").unwrap_or_default(), amount(given));
    options.spread = given.get_one("arrivals").copied().unwrap_or_default();
    options.seed = size("seed").unwrap_or(options.seed);
    options.threads = count("threads").unwrap_or(options.threads);
    options.duration = time("duration").unwrap_or(options.duration);
    let is_replay = matches!(options.load, Amount::Replay(_));
    if is_replay && given.value_source("duration") != Some(ValueSource::CommandLine) {
        options.duration = WHOLE_LOG;
    }
    options.warmup = time("warmup").unwrap_or_default();
    options.late_after = time("late-after").unwrap_or(options.late_after);
    options.timeout = time("timeout").unwrap_or(options.timeout);
    options.connect_timeout = time("connect-timeout");
    options.first_byte_timeout = time("first-byte-timeout");
    options.deadline = time("deadline");
    options.retries = retries(given)?;
    options.think = given.get_one("think").copied().unwrap_or_default();
    options.requests_per_connection = count("requests-per-connection");
    options.requests = size("requests");
    options.behaviour.pipeline = count("pipeline").unwrap_or(1);
    options.method = text("method").unwrap_or_default();
    if !options.method.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(format!("{:?} is not a method", options.method));
    }
    options.fields = given.get_many("header").into_iter().flatten().cloned().collect();
    options.fields.extend(text("accept-encoding").map(|value| format!("Accept-Encoding: {value}")));
    if let Some(file) = given.get_one::<PathBuf>("body") {
        options.body =
            fs::read(file).map_err(|error| format!("--body {}: {error}", file.display()))?;
    }
    options.conditional = given.get_one("conditional").copied().unwrap_or_default();
    options.http10 = match text("http1.0").as_deref() {
        None => Http10::Never,
        Some("singles") => Http10::Singles,
        Some(_) => Http10::Always,
    };
    look_at(given)?;
    ask(given, &mut options);
    read(given, &mut options);
    let sources = given.get_many::<Vec<IpAddr>>("source").into_iter().flatten();
    options.behaviour.sources = sources.flatten().copied().collect();
    let small = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    options.behaviour.receive_buffer = size("receive-buffer").map(small);
    (options.behaviour.read_rate, options.behaviour.write_rate) =
        (size("read-rate"), size("write-rate"));
    options.behaviour.line_rate = size("line-rate");
    if options.behaviour.line_rate.is_some() && options.behaviour.pipeline > 1 {
        return Err("a --line-rate is waited for between requests: without --pipeline".into());
    }
    if [options.behaviour.read_rate, options.behaviour.write_rate, options.behaviour.line_rate]
        .contains(&Some(0))
    {
        return Err("a --read-rate, --write-rate or --line-rate of 0 moves nothing".into());
    }
    options.tls = tls(given);
    Target::check(&options.url, &options.tls)?;
    doubts::refuse(&options)?;
    if text("close").as_deref() == Some("reset") {
        options.behaviour.closing = Closing::Reset;
    }
    Ok(options)
}
