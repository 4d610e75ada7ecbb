//! Calls that the machine does not let through, and how to do without them.
//!
//! The seccomp profiles of older container runtimes answer a call that they do not know with EPERM,
//! and older kernels with ENOSYS. Both are found where they are met: nothing is remembered, since
//! such a machine is rare and one call more costs it little.

use rustix::io::Errno;

/// Whether a call failed because there is none, or none for this process. Only to be asked of
/// calls that have no other reason for EPERM.
pub(crate) fn is_refused(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::PERM)
}

#[cfg(test)]
pub(crate) mod tests {
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition,
        SeccompFilter, SeccompRule,
    };

    /// What a test gives on a thread of which these calls fail with `errno`.
    pub(crate) fn without<T: Send>(
        calls: &[i64],
        errno: i32,
        test: impl FnOnce() -> T + Send,
    ) -> T {
        on_thread(calls.iter().map(|call| (*call, Vec::new())).collect(), errno, test)
    }

    /// The same of one call, where an argument, by its place from 0, has a value.
    pub(crate) fn without_when<T: Send>(
        call: i64,
        (argument, value): (u8, u64),
        errno: i32,
        test: impl FnOnce() -> T + Send,
    ) -> T {
        let is = SeccompCondition::new(argument, Dword, SeccompCmpOp::Eq, value).unwrap();
        on_thread(vec![(call, vec![SeccompRule::new(vec![is]).unwrap()])], errno, test)
    }

    fn on_thread<T: Send>(
        rules: Vec<(i64, Vec<SeccompRule>)>,
        errno: i32,
        test: impl FnOnce() -> T + Send,
    ) -> T {
        let refusal = SeccompAction::Errno(errno as u32);
        let machine = std::env::consts::ARCH.try_into().unwrap();
        let rules = rules.into_iter().collect();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, machine).unwrap();
        let program: BpfProgram = filter.try_into().unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                seccompiler::apply_filter(&program).unwrap();
                test()
            });
            thread.join().unwrap()
        })
    }

    /// As a kernel answers that has no such call, and as a container runtime does that does not
    /// know it.
    pub(crate) const REFUSALS: [i32; 2] = [libc::ENOSYS, libc::EPERM];
}
