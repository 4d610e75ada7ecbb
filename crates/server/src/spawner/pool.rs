//! How many responders of a kind there are, and when another begins or ends: decisions without any
//! process, which [`super::manager`] carries out.
//!
//! A responder is started when a connection waits and none accepts it, up to a limit; one
//! that has not worked for a while is ended, down to another limit; one that dies is replaced, and
//! later each time when it dies at once.

/// A responder that fails sooner after its start than this has failed at once.
const QUICK_FAILURE_MS: u64 = 1_000;

/// A responder that ends well, as some do after so many requests, may have done none if sooner.
const QUICK_END_MS: u64 = 5;

/// So many that end well that soon, one after the other, are replaced without a pause: fifty small
/// requests take no longer, and while there is a pause and no responder, clients are turned away.
const QUICK_ENDS_MAX: u32 = 20;

/// Pause after a first failure, doubled by each that follows.
const PAUSE_MS_MIN: u64 = 100;

/// Longest pause.
const PAUSE_MS_MAX: u64 = 10_000;

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) least: usize,
    pub(super) most: usize,
    /// Time without work after which one too many is ended.
    pub(super) idle_ms: u64,
}

/// One of them, by the number of its process.
#[derive(Debug)]
struct Member {
    leader: i32,
    started_ms: u64,
    /// Its work when it was looked at last, and since when it is the same.
    work: Option<u64>,
    since_ms: u64,
    /// It was told to end, and is killed then.
    kill_at_ms: Option<u64>,
}

/// The responders of one kind.
#[derive(Debug)]
pub(super) struct Pool {
    bounds: Bounds,
    members: Vec<Member>,
    failures: u32,
    /// Good ends in a row that came at once.
    quick_ends: u32,
    not_before_ms: u64,
}

impl Pool {
    pub(super) fn new(bounds: Bounds) -> Pool {
        Pool { bounds, members: Vec::new(), failures: 0, quick_ends: 0, not_before_ms: 0 }
    }

    /// Those that were not told to end.
    fn serving(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.kill_at_ms.is_none())
    }

    /// Whether another shall be started, where a connection `waits` to be accepted.
    pub(super) fn lacks(&self, waits: bool, now_ms: u64) -> bool {
        let serving = self.serving().count();
        let wanted = serving < self.bounds.least || waits && serving < self.bounds.most;
        wanted && now_ms >= self.not_before_ms
    }

    /// Whether there are as many as may be.
    pub(super) fn is_full(&self) -> bool {
        self.serving().count() >= self.bounds.most
    }

    /// Whether none answers, and none will for a while.
    pub(super) fn is_down(&self, now_ms: u64) -> bool {
        self.serving().next().is_none() && now_ms < self.not_before_ms
    }

    /// One was started.
    pub(super) fn started(&mut self, leader: i32, now_ms: u64) {
        let (started_ms, since_ms) = (now_ms, now_ms);
        self.members.push(Member { leader, started_ms, work: None, since_ms, kill_at_ms: None });
    }

    /// One could not be started, or died at once: the pause until the next, in milliseconds.
    pub(super) fn failed(&mut self, now_ms: u64) -> u64 {
        let pause_ms = PAUSE_MS_MIN << self.failures.min(16);
        let pause_ms = pause_ms.min(PAUSE_MS_MAX);
        self.failures = self.failures.saturating_add(1);
        self.not_before_ms = now_ms + pause_ms;
        pause_ms
    }

    /// A process has ended, `well` or not. `None` when it was no member; else how long it lived,
    /// and the pause until the next if there is one.
    pub(super) fn ended(&mut self, leader: i32, well: bool, now_ms: u64) -> Option<Ended> {
        let at = self.members.iter().position(|member| member.leader == leader)?;
        let member = self.members.swap_remove(at);
        let lived_ms = now_ms.saturating_sub(member.started_ms);
        let was_told = member.kill_at_ms.is_some();
        let is_quick = lived_ms < if well { QUICK_END_MS } else { QUICK_FAILURE_MS };
        let mut pause_ms = 0;
        if was_told {
            // It says nothing about the next.
        } else if is_quick && well && self.quick_ends < QUICK_ENDS_MAX {
            self.quick_ends += 1;
        } else if is_quick {
            pause_ms = self.failed(now_ms);
        } else {
            (self.failures, self.quick_ends) = (0, 0);
        }
        Some(Ended { lived_ms, was_told, pause_ms })
    }

    /// When there is something to be done again, if nothing else happens.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let serving = self.serving().count();
        let renewal = (serving < self.bounds.least || serving == 0 && self.failures > 0)
            .then_some(self.not_before_ms);
        let rests = self.serving().map(|member| member.since_ms + self.bounds.idle_ms);
        let rests = rests.min().filter(|_| serving > self.bounds.least);
        let kills = self.members.iter().filter_map(|member| member.kill_at_ms).min();
        [renewal, rests, kills].into_iter().flatten().min()
    }

    /// One that has not worked for a while and is not needed: from now on it counts as told to end,
    /// and is to be killed at the given time. `work` gives the work of a process.
    pub(super) fn retire(
        &mut self,
        kill_at_ms: u64,
        now_ms: u64,
        work: impl Fn(i32) -> Option<u64>,
    ) -> Option<i32> {
        if self.serving().count() <= self.bounds.least {
            return None;
        }
        let idle_ms = self.bounds.idle_ms;
        let mut idle = None;
        let due = |member: &&mut Member| {
            member.kill_at_ms.is_none() && now_ms >= member.since_ms + idle_ms
        };
        for member in self.members.iter_mut().filter(due) {
            let seen = work(member.leader);
            if seen.is_some() && seen == member.work {
                idle = Some(member);
                break;
            }
            (member.work, member.since_ms) = (seen, now_ms);
        }
        let member = idle?;
        member.kill_at_ms = Some(kill_at_ms);
        Some(member.leader)
    }

    /// All are to end, and to be killed at the given time: those that were not told to before.
    pub(super) fn retire_all(&mut self, kill_at_ms: u64) -> Vec<i32> {
        let serving = self.members.iter_mut().filter(|member| member.kill_at_ms.is_none());
        serving
            .map(|member| {
                member.kill_at_ms = Some(kill_at_ms);
                member.leader
            })
            .collect()
    }

    /// Those that were told to end and have not in time. They are given once.
    pub(super) fn overdue(&mut self, now_ms: u64) -> Vec<i32> {
        let mut all = Vec::new();
        for member in &mut self.members {
            if member.kill_at_ms.is_some_and(|at| at <= now_ms) {
                member.kill_at_ms = Some(u64::MAX);
                all.push(member.leader);
            }
        }
        all
    }
}

/// How a responder ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) lived_ms: u64,
    /// It was told to.
    pub(super) was_told: bool,
    /// Until the next is started.
    pub(super) pause_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(least: usize, most: usize) -> Pool {
        Pool::new(Bounds { least, most, idle_ms: 1_000 })
    }

    #[test]
    fn there_are_as_many_as_are_needed_and_never_more_than_may_be() {
        let mut pool = pool(1, 3);
        assert!(pool.lacks(false, 0));
        pool.started(1, 0);
        assert!(!pool.lacks(false, 0) && pool.lacks(true, 0));
        pool.started(2, 0);
        pool.started(3, 0);
        assert!(!pool.lacks(true, 0) && pool.is_full());
        // One that ends after a while is replaced at once.
        assert_eq!(pool.ended(2, false, 5_000).unwrap().pause_ms, 0);
        assert!(pool.lacks(true, 5_000) && !pool.is_down(5_000));
        assert_eq!(pool.ended(9, false, 5_000), None);
    }

    #[test]
    fn one_that_dies_at_once_is_replaced_later_each_time() {
        let mut pool = pool(1, 2);
        let mut now_ms = 0;
        let mut pauses = Vec::new();
        for leader in 0..10 {
            assert!(pool.lacks(false, now_ms));
            pool.started(leader, now_ms);
            let ended = pool.ended(leader, false, now_ms + 5).unwrap();
            assert!(pool.is_down(now_ms + 5) && !pool.lacks(true, now_ms + 5));
            now_ms += 5 + ended.pause_ms;
            assert_eq!(pool.due_ms(), Some(now_ms));
            pauses.push(ended.pause_ms);
        }
        assert_eq!(pauses[..3], [100, 200, 400]);
        assert_eq!(pauses[9], PAUSE_MS_MAX);
        // One that lives makes it good.
        pool.started(11, now_ms);
        assert_eq!(pool.ended(11, false, now_ms + QUICK_FAILURE_MS).unwrap().pause_ms, 0);
        pool.started(12, now_ms);
        assert_eq!(pool.ended(12, false, now_ms).unwrap().pause_ms, PAUSE_MS_MIN);
    }

    #[test]
    fn one_that_ends_well_is_no_failure_unless_many_do_so_at_once() {
        let mut pool = pool(0, 1);
        let mut end = |lived_ms| {
            pool.started(1, 200);
            pool.ended(1, true, 200 + lived_ms).unwrap().pause_ms
        };
        for _ in 0..2 {
            assert_eq!(end(QUICK_END_MS), 0);
            for _ in 0..QUICK_ENDS_MAX {
                assert_eq!(end(QUICK_END_MS - 1), 0);
            }
        }
        assert_eq!(end(0), PAUSE_MS_MIN);
        assert_eq!(end(0), PAUSE_MS_MIN * 2);
        assert_eq!(end(QUICK_END_MS), 0);
        assert_eq!(end(0), 0);
    }

    #[test]
    fn only_one_too_many_that_does_not_work_is_ended() {
        let mut pool = pool(1, 4);
        for leader in 1..=3 {
            pool.started(leader, 0);
        }
        assert_eq!(pool.due_ms(), Some(1_000));
        // First it is only seen how much each has worked.
        assert_eq!(pool.retire(9, 1_000, |leader| Some(leader as u64)), None);
        assert_eq!(pool.due_ms(), Some(2_000));
        // The second has worked since then.
        let work = |leader: i32| Some(if leader == 2 { 99 } else { leader as u64 });
        let first = pool.retire(4_000, 2_000, work).unwrap();
        let second = pool.retire(4_000, 2_000, work).unwrap();
        assert_eq!([first.min(second), first.max(second)], [1, 3]);
        assert_eq!(pool.retire(4_000, 9_000, |_| Some(99)), None, "one stays");
        assert!(!pool.is_full() && pool.overdue(3_999).is_empty());
        assert_eq!(pool.overdue(4_000).len(), 2);
        assert!(pool.overdue(5_000).is_empty());
        let ended = pool.ended(first, false, 4_001).unwrap();
        assert_eq!((ended.was_told, ended.pause_ms), (true, 0));
        assert_eq!(pool.retire_all(6_000).len(), 1);
        assert!(pool.retire_all(6_000).is_empty() && pool.lacks(false, 5_000));
    }
}
