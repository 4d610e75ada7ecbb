//! Seccomp: which system calls a process may make.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::calls::{Calls, Rule};

/// What becomes of a call that is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// It fails with EPERM, and the kernel logs it.
    Refuse,
    /// The process is ended by SIGSYS, and the kernel logs it.
    Kill,
}

/// The bits of the second argument of socket(2) that are no flags.
const SOCKET_KIND: u64 = 0xf;

/// Rules by the number of their call; none stands for any arguments.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Binds this thread, and whatever it starts, by the calls of these groups.
///
/// clone3(2) has its flags in memory, where no filter sees them: it does not exist here, so that
/// the C library calls clone(2).
pub(super) fn install(groups: &[Calls], violation: Violation) -> io::Result<()> {
    let refusal = match violation {
        Violation::Refuse => SeccompAction::Errno(libc::EPERM as u32),
        Violation::Kill => SeccompAction::KillProcess,
    };
    let no_clone3 = program(
        [(libc::SYS_clone3, Vec::new())].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
    )?;
    let allowed = program(rules_of(groups)?, refusal.clone(), SeccompAction::Allow)?;
    // What is looked for and does not exist is nothing to be logged.
    load(&no_clone3, 0)?;
    if groups.contains(&Calls::Connect) || groups.contains(&Calls::Agent) {
        let no_fast_open = program(fast_open()?, SeccompAction::Allow, refusal)?;
        load(&no_fast_open, libc::SECCOMP_FILTER_FLAG_LOG)?;
    }
    load(&allowed, libc::SECCOMP_FILTER_FLAG_LOG)
}

/// Lets this process make no ring any more: those that it has are restricted, and another would not
/// be. Binds all its threads. Later filters cannot be installed either.
///
/// # Errors
/// When the kernel refuses, or another thread has a filter of its own.
pub fn forbid_new_rings() -> io::Result<()> {
    let calls = [libc::SYS_io_uring_setup, libc::SYS_seccomp];
    let rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let refusal = SeccompAction::Errno(libc::EPERM as u32);
    let filter = program(rules, SeccompAction::Allow, refusal)?;
    load(&filter, libc::SECCOMP_FILTER_FLAG_LOG | libc::SECCOMP_FILTER_FLAG_TSYNC)
}

/// Sending that connects (TCP Fast Open), which landlock does not see. It is looked for only where
/// a process makes sockets: it costs each call that sends.
fn fast_open() -> io::Result<Rules> {
    let flag = libc::MSG_FASTOPEN as u64;
    let in_flags = |argument| own_rules(Rule::Bits { argument, mask: flag, value: flag });
    Ok([(libc::SYS_sendto, in_flags(3)?), (libc::SYS_sendmsg, in_flags(2)?)].into())
}

/// What these groups allow, together.
fn rules_of(groups: &[Calls]) -> io::Result<Rules> {
    let mut rules = Rules::new();
    for call in groups.iter().flat_map(|group| group.calls()) {
        let own = own_rules(call.rule)?;
        match rules.entry(call.number) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(own);
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                // One group that allows everything wins over another's rule.
                let is_any = own.is_empty() || entry.get().is_empty();
                let all = entry.get_mut();
                if is_any { all.clear() } else { all.extend(own) }
            }
        }
    }
    Ok(rules)
}

fn own_rules(rule: Rule) -> io::Result<Vec<SeccompRule>> {
    let condition = |argument: u8, operation: SeccompCmpOp, value: u64| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operation, value)
            .map_err(io::Error::other)
    };
    let one = |argument: u8, operation: SeccompCmpOp, value: u64| {
        SeccompRule::new(vec![condition(argument, operation, value)?]).map_err(io::Error::other)
    };
    match rule {
        Rule::Any => Ok(Vec::new()),
        Rule::OneOf(argument, values) => {
            values.iter().map(|value| one(argument, SeccompCmpOp::Eq, *value)).collect()
        }
        Rule::Bits { argument, mask, value } => {
            Ok(vec![one(argument, SeccompCmpOp::MaskedEq(mask), value)?])
        }
        Rule::Stream(families) => {
            let stream = |family: &u64| {
                let all = vec![
                    condition(0, SeccompCmpOp::Eq, *family)?,
                    condition(1, SeccompCmpOp::MaskedEq(SOCKET_KIND), libc::SOCK_STREAM as u64)?,
                    condition(2, SeccompCmpOp::Eq, 0)?,
                ];
                SeccompRule::new(all).map_err(io::Error::other)
            };
            families.iter().map(stream).collect()
        }
    }
}

fn program(
    rules: Rules,
    otherwise: SeccompAction,
    matching: SeccompAction,
) -> io::Result<BpfProgram> {
    let machine = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, otherwise, matching, machine);
    filter.and_then(BpfProgram::try_from).map_err(io::Error::other)
}

/// Hands a filter to the kernel.
fn load(program: &BpfProgram, flags: libc::c_ulong) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the kernel copies `len` instructions, which both libraries lay out as it does, from a
    // live slice, and writes nothing.
    let loaded = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter)
    };
    match loaded {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!("thread {thread} has a filter of its own"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel does to fill its bitmap: follows the filter for a number, and gives up at
    /// the first look at anything but the number and the machine (kernel/seccomp.c). Whether the
    /// call is allowed whatever its arguments are.
    fn is_constant(program: &BpfProgram, number: i64) -> bool {
        let (mut at, mut value) = (0, 0u32);
        let machine = match std::env::consts::ARCH {
            "x86_64" => 0xc000_003e_u32,
            "aarch64" => 0xc000_00b7,
            other => panic!("the number of {other} is not written here"),
        };
        loop {
            let step = &program[at];
            at += 1;
            match step.code {
                0x20 if step.k == 0 => value = number as u32,
                0x20 if step.k == 4 => value = machine,
                0x20 => return false,
                0x06 => return step.k == libc::SECCOMP_RET_ALLOW,
                0x05 => at += step.k as usize,
                0x15 => at += usize::from(if value == step.k { step.jt } else { step.jf }),
                code => panic!("an instruction that no filter of ours has: {code:#x}"),
            }
        }
    }

    #[test]
    fn calls_that_are_made_for_each_request_run_no_filter() {
        let refuse = SeccompAction::Errno(1);
        let filter = |groups: &[Calls]| {
            program(rules_of(groups).unwrap(), refuse.clone(), SeccompAction::Allow).unwrap()
        };
        let all = filter(&Calls::ALL);
        let hot = [
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_writev,
            libc::SYS_recvfrom,
            libc::SYS_sendto,
            libc::SYS_sendmsg,
            libc::SYS_accept4,
            libc::SYS_close,
            libc::SYS_sendfile,
            libc::SYS_pread64,
            libc::SYS_epoll_ctl,
            libc::SYS_epoll_pwait,
            libc::SYS_ppoll,
            libc::SYS_futex,
            libc::SYS_io_uring_enter,
            libc::SYS_shutdown,
            libc::SYS_setsockopt,
            libc::SYS_openat2,
            libc::SYS_statx,
            libc::SYS_sched_yield,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select,
        ];
        for call in hot {
            assert!(is_constant(&all, call), "call {call}");
        }
        for call in [libc::SYS_mmap, libc::SYS_clone, libc::SYS_prctl, libc::SYS_socket] {
            assert!(!is_constant(&all, call), "call {call} depends on its arguments");
        }
        // Whoever can connect is looked at when it sends, and at nothing else.
        let sending = program(fast_open().unwrap(), SeccompAction::Allow, refuse.clone()).unwrap();
        for call in hot {
            let sends = [libc::SYS_sendto, libc::SYS_sendmsg].contains(&call);
            assert_eq!(is_constant(&sending, call), !sends, "call {call}");
        }
        assert!(!is_constant(&filter(&[Calls::Common]), libc::SYS_accept4));
    }

    #[test]
    fn no_group_holds_what_nobody_may_do() {
        let never = [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_bind,
            libc::SYS_listen,
            libc::SYS_ptrace,
            libc::SYS_setuid,
            libc::SYS_setresuid,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_bpf,
            libc::SYS_chroot,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_keyctl,
            libc::SYS_init_module,
            libc::SYS_kexec_load,
            libc::SYS_open_by_handle_at,
            libc::SYS_memfd_secret,
            libc::SYS_personality,
        ];
        for group in Calls::ALL {
            for call in group.calls() {
                // What listens must have a name, which alone is none to connect to.
                let names_lookups = group == Calls::Agent && call.number == libc::SYS_bind;
                // The socket listens already, and its queue gets another length.
                let bounds_queues = group == Calls::Listen && call.number == libc::SYS_listen;
                let is_excepted = names_lookups || bounds_queues;
                let is_never = never.contains(&call.number) && !is_excepted;
                assert!(!is_never, "{} in {}", call.name, group.name());
                let is_socket = call.number == libc::SYS_socket;
                let connects = matches!(group, Calls::Connect | Calls::ConnectUnix | Calls::Agent);
                assert!(!is_socket || connects, "{} in {}", call.name, group.name());
            }
        }
    }
}
