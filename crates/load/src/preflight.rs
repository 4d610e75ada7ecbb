//! What is looked at before a run: whether this machine can do what is asked of it.

use std::fs;

use flyball_sys::process;

use crate::engine::{CONNECTIONS_MAX, Mode, Plan};
use crate::target::Target;

/// Descriptors that are not connections: standard ones, event mechanisms, files.
const OTHER_DESCRIPTORS: usize = 32;

/// Seconds for which a port rests after an orderly close.
const TIME_WAIT_S: f64 = 60.0;

/// Seconds after which a resting port is used again where the kernel allows it.
const REUSE_S: f64 = 1.0;

/// Raises what can be raised; what whoever reads the report should know.
///
/// # Errors
/// What this machine has too little of for the plan, and what to do about it.
pub(crate) fn check(plan: &Plan, target: &Target) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    let sources = plan.behaviour.sources.len().max(1) * plan.addresses.len();
    let ports = local_ports();
    match &plan.mode {
        Mode::Closed(connections) => {
            let connections = *connections as usize;
            if connections > CONNECTIONS_MAX {
                return Err(format!("at most {CONNECTIONS_MAX} connections can be kept busy"));
            }
            descriptors(connections, plan)?;
            if let Some(ports) = ports.filter(|ports| ports * sources < connections) {
                return Err(format!(
                    "{connections} connections need as many ports, and there are {ports} for \
                     each of {sources} source addresses: add --source addresses, or widen \
                     net.ipv4.ip_local_port_range"
                ));
            }
        }
        Mode::Open(schedule) => {
            let rate = schedule.highest_per_s(plan.duration);
            let arrivals = schedule.expected(plan.duration);
            let waiting = (rate * plan.behaviour.timeouts.reply.as_secs_f64()).min(arrivals);
            let limit = process::raise_descriptor_limit_to(waiting as usize + OTHER_DESCRIPTORS);
            if (limit as f64) < waiting {
                notes.push(format!(
                    "if the server stands still, {waiting:.0} connections wait for their \
                     time-out; this process may hold {limit}"
                ));
            }
            let rest = if reuses_ports(target) { REUSE_S } else { TIME_WAIT_S };
            let is_reset = plan.behaviour.closing == crate::engine::Closing::Reset;
            let resting = (rate * rest).min(arrivals);
            let too_few = |ports: &usize| !is_reset && (ports * sources) as f64 <= resting;
            if let Some(ports) = ports.filter(too_few) {
                notes.push(format!(
                    "{resting:.0} ports may rest at once, and there are {ports} for each of \
                     {sources} source addresses: add --source addresses, or --close reset"
                ));
            }
        }
    }
    Ok(notes)
}

fn descriptors(connections: usize, plan: &Plan) -> Result<(), String> {
    let needed = connections + OTHER_DESCRIPTORS + plan.threads as usize;
    let limit = process::raise_descriptor_limit_to(needed);
    if limit >= needed {
        return Ok(());
    }
    Err(format!(
        "{connections} connections need {needed} descriptors and this process may hold {limit}: \
         raise the hard limit (ulimit -Hn {needed}), or start as root"
    ))
}

/// How many ports the kernel gives to one source address; `None` where it does not tell.
fn local_ports() -> Option<usize> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut words = text.split_whitespace().map(str::parse::<usize>);
    let (Some(Ok(low)), Some(Ok(high))) = (words.next(), words.next()) else { return None };
    Some(high.saturating_sub(low) + 1)
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
