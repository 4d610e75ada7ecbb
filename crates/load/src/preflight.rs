//! What is looked at before a run: whether this machine can do what is asked of it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use flyball_sys::process;

use crate::engine::{CONNECTIONS_MAX, Closing, Mode, Plan};
use crate::options::{Http10, Options};
use crate::schedule::Schedule;
use crate::target::{Target, is_ours};

/// Descriptors that are not connections: standard ones, event mechanisms, files.
const OTHER_DESCRIPTORS: usize = 32;

/// For how long a port rests after an orderly close.
const TIME_WAIT: Duration = Duration::from_secs(60);

/// When a resting port is used again where the kernel allows it.
const REUSE: Duration = Duration::from_secs(1);

/// Most addresses of the loopback that a process connects from without being told so: some 1.8
/// million ports.
const LOOPBACK_SOURCES_MAX: u32 = 64;

/// Ports that are asked for beside each that is needed: the kernel looks long for the last ones.
const PORTS_FOR_EACH: f64 = 2.0;

/// Lets connections to the loopback come from many of its addresses, if one has too few ports for
/// the plan and none was named; a note for the report. Agents on one machine take addresses of
/// their own each.
pub(crate) fn spread(plan: &mut Plan, target: &Target, options: &Options) -> Option<String> {
    let is_loopback = target.is_loopback() && plan.addresses.iter().all(|to| to.is_ipv4());
    if !plan.behaviour.sources.is_empty() || !is_loopback {
        return None;
    }
    let ports = (local_ports()? * plan.addresses.len()) as f64;
    let needed = ports_needed(plan, target, options);
    if needed <= ports {
        return None;
    }
    let wanted = (needed * PORTS_FOR_EACH / ports).ceil();
    let count = wanted.min(f64::from(LOOPBACK_SOURCES_MAX)) as u32;
    let first = u32::from(Ipv4Addr::LOCALHOST) + plan.share.index * LOOPBACK_SOURCES_MAX;
    let address = |nth: u32| Ipv4Addr::from(first + nth);
    plan.behaviour.sources = (0..count).map(|nth| IpAddr::V4(address(nth))).collect();
    Some(format!(
        "connections come from {} to {}, since one source address has {ports:.0} ports: \
         --source chooses others",
        address(0),
        address(count - 1)
    ))
}

/// Ports that the plan takes at once, as far as that is known before the run: a closed loop that
/// opens connections again and again takes as many as there are.
fn ports_needed(plan: &Plan, target: &Target, options: &Options) -> f64 {
    let of = f64::from(plan.share.of.max(1));
    let is_reset = options.behaviour.closing == Closing::Reset;
    match &plan.mode {
        Mode::Open(_) if is_reset => 0.0,
        Mode::Open(schedule) => schedule.most_within(rest(target), plan.duration) / of,
        Mode::Closed(_) | Mode::Kept(..) if opens_again(plan, options) && !is_reset => f64::MAX,
        Mode::Closed(connections) | Mode::Kept(_, connections) => f64::from(*connections) / of,
    }
}

/// Whether connections that are kept end after some requests.
fn opens_again(plan: &Plan, options: &Options) -> bool {
    plan.requests_per_connection.is_some() || plan.connection_per_session || server_ends(options)
}

/// Raises what can be raised; what whoever reads the report should know, which is an error where
/// that is asked for.
///
/// # Errors
/// What this machine has too little of for its share of the plan, and what to do about it.
pub(crate) fn check(
    plan: &Plan,
    target: &Target,
    options: &Options,
) -> Result<Vec<String>, String> {
    if let Some(source) = plan.behaviour.sources.iter().find(|source| !is_ours(**source)) {
        return Err(format!(
            "--source {source} is no address of this machine: name one that is, or give it to an \
             interface (ip address add)"
        ));
    }
    let notes = match &plan.mode {
        Mode::Closed(connections) => closed(*connections, plan)?,
        Mode::Kept(_, connections) => {
            let threads = plan.threads.max(1) * plan.share.of.max(1);
            if *connections < threads {
                return Err(format!(
                    "{threads} threads share {connections} connections, and each needs one: use \
                     fewer --threads or agents, or more --connections"
                ));
            }
            closed(*connections, plan)?
        }
        Mode::Open(schedule) => open(schedule, plan, target, options)?,
    };
    match notes.first() {
        Some(note) if options.strict => Err(note.clone()),
        _ => Ok(notes),
    }
}

/// Whether so many connections can be kept busy.
fn closed(connections: u32, plan: &Plan) -> Result<Vec<String>, String> {
    let connections = connections.div_ceil(plan.share.of.max(1)) as usize;
    if connections > CONNECTIONS_MAX {
        return Err(format!("at most {CONNECTIONS_MAX} connections can be kept busy"));
    }
    descriptors(connections, plan)?;
    let sources = sources(plan);
    if let Some(ports) = local_ports().filter(|ports| ports * sources < connections) {
        return Err(format!(
            "{connections} connections need as many ports, and there are {ports} for each of \
             {sources} source addresses: add --source addresses, or widen \
             net.ipv4.ip_local_port_range"
        ));
    }
    Ok(Vec::new())
}

/// Whether connections can be opened as a schedule says.
fn open(
    schedule: &Schedule,
    plan: &Plan,
    target: &Target,
    options: &Options,
) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    let of = f64::from(plan.share.of.max(1));
    let most_within = |span| schedule.most_within(span, plan.duration) / of;
    let waiting = most_within(plan.timeouts.reply);
    let needed = waiting as usize + OTHER_DESCRIPTORS;
    let limit = process::raise_descriptor_limit_to(needed);
    if (limit as f64) < waiting {
        notes.push(format!(
            "if the server stands still, {waiting:.0} connections wait for their time-out, and \
             this process may hold {limit} descriptors: shorten the --timeout, or {}",
            remedy(needed)
        ));
    }
    let rest = rest(target);
    let (resting, sources) = (most_within(rest), sources(plan));
    let too_few = |ports: &usize| ((ports * sources) as f64) < resting;
    if let Some(ports) = local_ports().filter(too_few) {
        let told = format!(
            "{resting:.0} connections are opened within {} s, for which a port rests when the \
             client ends its connection, and there are {ports} for each of {sources} source \
             addresses: add --source addresses, or --close reset",
            rest.as_secs()
        );
        match options.behaviour.closing {
            Closing::Reset => {}
            Closing::Orderly if server_ends(options) => notes.push(told),
            Closing::Orderly => return Err(told),
        }
    }
    Ok(notes)
}

/// Whether it is the server that ends connections, as far as it keeps to what it is asked.
fn server_ends(options: &Options) -> bool {
    let is_connection = |field: &String| {
        field.split_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case("connection"))
    };
    options.http10 == Http10::Always || options.fields.iter().any(is_connection)
}

/// Addresses and ports to connect to and from, each pair of which has all local ports.
fn sources(plan: &Plan) -> usize {
    plan.behaviour.sources.len().max(1) * plan.addresses.len()
}

fn descriptors(connections: usize, plan: &Plan) -> Result<(), String> {
    let needed = connections + OTHER_DESCRIPTORS + plan.threads as usize;
    let limit = process::raise_descriptor_limit_to(needed);
    if limit >= needed {
        return Ok(());
    }
    Err(format!(
        "{connections} connections need {needed} descriptors and this process may hold {limit}: \
         {}, or share them among --agents, which may be on this machine and have a limit each",
        remedy(needed)
    ))
}

/// What lets a process hold so many descriptors.
fn remedy(needed: usize) -> String {
    let most = fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let most: Option<usize> = most.and_then(|text| text.trim().parse().ok());
    let raised = match most.filter(|most| *most < needed) {
        Some(most) => format!(" and the system's, which is {most} (sysctl fs.nr_open={needed})"),
        None => String::new(),
    };
    format!(
        "raise its hard limit, RLIMIT_NOFILE (ulimit -Hn {needed} as root, or LimitNOFILE= of \
             a unit){raised}"
    )
}

/// How many ports the kernel gives to one source address; `None` where it does not tell.
fn local_ports() -> Option<usize> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut words = text.split_whitespace().map(str::parse::<usize>);
    let (Some(Ok(low)), Some(Ok(high))) = (words.next(), words.next()) else { return None };
    Some(high.saturating_sub(low) + 1)
}

/// For how long a port rests.
fn rest(target: &Target) -> Duration {
    if reuses_ports(target) { REUSE } else { TIME_WAIT }
}

/// Whether a port in TIME_WAIT is used again after a second (tcp_tw_reuse).
fn reuses_ports(target: &Target) -> bool {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_tw_reuse").unwrap_or_default();
    match text.trim() {
        "1" => true,
        "2" => target.is_loopback(),
        _ => false,
    }
}
