//! User-level threads: closures on stacks of their own, which run until they park and go on when
//! they are resumed. Switching is a few instructions and no system call; who runs next is the
//! business of whoever resumes them.
//!
//! Resuming hands a value in and parking hands one out. What all threads use can travel that way:
//! it is then owned by the one that runs, and the compiler sees that no borrow of it is held across
//! a switch.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::OnceLock;

use corosensei::stack::Stack as StackMemory;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Least usable bytes of a stack.
pub const STACK_BYTES_LEAST: usize = 16 * 1024;

/// Bytes below each stack that cannot be touched: more than a function of C has for itself that is
/// built without probes of its stack, as modules may be. They take addresses and no memory.
const GUARD_BYTES: usize = 64 * 1024;

/// Mappings that are left to everything else in a process that has many stacks.
const OTHER_MAPPINGS: usize = 4096;

/// What `vm.max_map_count` is unless somebody changed it.
const MAPPINGS_DEFAULT: usize = 65_530;

/// How many stacks a process can have beside what else it maps: each is two mappings. Asked of the
/// system once: a process that keeps few rights may not ask, and knows it from whoever forked it.
pub fn stacks_max() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let allowed = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
        let allowed = allowed.trim().parse().unwrap_or(MAPPINGS_DEFAULT);
        (allowed.saturating_sub(OTHER_MAPPINGS) / 2).max(1)
    })
}

/// A stack with pages below it that cannot be touched: running out of the stack ends the process,
/// and never writes over other memory.
pub struct Stack {
    /// The lowest address, which is that of the guard pages.
    start: NonNull<u8>,
    /// Bytes mapped, guard pages included.
    len: usize,
}

impl Stack {
    /// Maps a stack of at least `size` usable bytes. Its pages take memory once they are used.
    ///
    /// # Errors
    /// When memory is out, or the process has as many mappings as `vm.max_map_count` allows; a
    /// stack is two.
    pub fn new(size: usize) -> io::Result<Stack> {
        let page = rustix::param::page_size();
        let guard = GUARD_BYTES.next_multiple_of(page);
        let len = size.max(STACK_BYTES_LEAST).next_multiple_of(page) + guard;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, flags)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // From here on dropping it unmaps it.
        let stack = Stack { start, len };
        // SAFETY: the pages are the first of the mapping that was just made, and nothing uses them.
        unsafe { mprotect(start.as_ptr().cast(), guard, MprotectFlags::empty())? };
        Ok(stack)
    }

    fn lowest(&self) -> usize {
        self.start.as_ptr().addr()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made. Whoever runs on a stack owns it, so that
        // nobody runs on one that is dropped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").field("len", &self.len).finish()
    }
}

/// The address of a mapping, or of its end, as the crate that switches wants it.
fn address(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).expect("no mapping begins or ends at zero")
}

// SAFETY: the mapping lives as long as the stack and is moved by nobody; it holds at least
// STACK_BYTES_LEAST usable bytes above a page that cannot be touched; both ends are those of pages,
// which is a stricter alignment than any call asks for.
unsafe impl StackMemory for Stack {
    fn base(&self) -> NonZeroUsize {
        address(self.lowest() + self.len)
    }

    fn limit(&self) -> NonZeroUsize {
        address(self.lowest())
    }
}

/// Stacks of one size, some of them kept for reuse.
#[derive(Debug)]
pub struct Stacks {
    size: usize,
    spare: Vec<Stack>,
    spare_max: usize,
}

impl Stacks {
    /// A pool of stacks of `size` usable bytes that keeps at most `spare_max` which nobody uses.
    pub fn new(size: usize, spare_max: usize) -> Stacks {
        Stacks { size, spare: Vec::with_capacity(spare_max), spare_max }
    }

    /// A stack: the one that was given back last, whose pages are in memory, or a new one.
    ///
    /// # Errors
    /// As [`Stack::new`].
    pub fn take(&mut self) -> io::Result<Stack> {
        match self.spare.pop() {
            Some(stack) => Ok(stack),
            None => Stack::new(self.size),
        }
    }

    /// Takes back what [`Stacks::take`] gave; unmaps it when there are enough.
    pub fn give_back(&mut self, stack: Stack) {
        if self.spare.len() < self.spare_max {
            self.spare.push(stack);
        }
    }
}

/// What a running thread parks by. `W` is what it is woken with, `P` why it parks.
pub struct Parker<'a, W, P>(&'a Yielder<W, P>);

impl<W, P> Parker<'_, W, P> {
    /// Gives `why` to whoever resumed this thread, and goes on when it is resumed again.
    pub fn park(&self, why: P) -> W {
        self.0.suspend(why)
    }
}

impl<W, P> fmt::Debug for Parker<'_, W, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parker")
    }
}

/// What came of resuming a thread.
#[derive(Debug, PartialEq, Eq)]
pub enum Run<P, R> {
    /// It parked.
    Parked(P),
    /// It ended.
    Ended(R),
}

/// A user-level thread that parks for `P`, is woken with `W`, and ends with `R`.
pub struct UserThread<W, P, R> {
    /// Taken out only when the thread is dropped or taken apart.
    coroutine: Option<Coroutine<W, P, R, Stack>>,
}

impl<W: 'static, P: 'static, R: 'static> UserThread<W, P, R> {
    /// A thread that runs `body` on this stack from when it is first resumed.
    pub fn new(
        stack: Stack,
        body: impl FnOnce(&Parker<'_, W, P>, W) -> R + 'static,
    ) -> UserThread<W, P, R> {
        let body = move |yielder: &Yielder<W, P>, first| body(&Parker(yielder), first);
        UserThread { coroutine: Some(Coroutine::with_stack(stack, body)) }
    }

    /// Runs it until it parks or ends. A panic in it goes on here.
    ///
    /// # Panics
    /// When it has ended.
    pub fn resume(&mut self, woken_with: W) -> Run<P, R> {
        let coroutine = self.coroutine.as_mut().expect("it is there until it is taken apart");
        match coroutine.resume(woken_with) {
            CoroutineResult::Yield(why) => Run::Parked(why),
            CoroutineResult::Return(result) => Run::Ended(result),
        }
    }

    /// The stack of a thread that has ended; `None` when it has not.
    pub fn into_stack(mut self) -> Option<Stack> {
        let coroutine = self.coroutine.take_if(|coroutine| coroutine.done())?;
        Some(coroutine.into_stack())
    }
}

impl<W, P, R> Drop for UserThread<W, P, R> {
    /// A thread that is dropped while it is parked never goes on: its stack is leaked with all
    /// that is on it. Unwinding it would take panics that unwind, which a release build does not
    /// have; so whoever wants its memory back resumes it until it ends.
    fn drop(&mut self) {
        if let Some(coroutine) = self.coroutine.take()
            && coroutine.started()
            && !coroutine.done()
        {
            std::mem::forget(coroutine);
        }
    }
}

impl<W, P, R> fmt::Debug for UserThread<W, P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = self.coroutine.as_ref().is_none_or(Coroutine::done);
        f.debug_struct("UserThread").field("ended", &ended).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Forked, exit_now, fork};
    use std::cell::Cell;
    use std::hint::black_box;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    const SIZE: usize = 64 * 1024;

    fn stack() -> Stack {
        Stack::new(SIZE).unwrap()
    }

    #[test]
    fn many_threads_interleave_and_each_keeps_what_is_its_own() {
        let body = |number: u64| {
            move |parker: &Parker<'_, u64, u64>, first: u64| {
                let mut sum = number + first;
                for _ in 0..10 {
                    sum += parker.park(sum);
                }
                sum
            }
        };
        let mut threads: Vec<_> =
            (0..1_000).map(|number| UserThread::new(stack(), body(number))).collect();
        for round in 0..10 {
            for (number, thread) in threads.iter_mut().enumerate() {
                let sum = number as u64 + (0..=round).sum::<u64>();
                assert_eq!(thread.resume(round), Run::Parked(sum), "thread {number}");
            }
        }
        for (number, thread) in threads.iter_mut().enumerate() {
            let sum = number as u64 + (0..=10).sum::<u64>();
            assert_eq!(thread.resume(10), Run::Ended(sum), "thread {number}");
        }
    }

    #[test]
    fn what_all_use_travels_with_the_switch() {
        let body = |parker: &Parker<'_, Box<Vec<u8>>, Box<Vec<u8>>>, mut common: Box<Vec<u8>>| {
            common.push(1);
            common = parker.park(common);
            common.push(2);
            common
        };
        let mut thread = UserThread::new(stack(), body);
        let Run::Parked(mut common) = thread.resume(Box::default()) else { panic!("it ended") };
        common.push(9);
        assert_eq!(thread.resume(common), Run::Ended(Box::new(vec![1, 9, 2])));
    }

    /// Uses at least 256 bytes of stack for each level.
    #[inline(never)]
    fn descend(levels: usize) -> usize {
        let here = black_box([0_u8; 256]);
        let deeper = if levels == 0 { 0 } else { 1 + descend(levels - 1) };
        // Looked at after the call, so that no level is merged with the next.
        deeper + usize::from(black_box(&here)[7])
    }

    #[test]
    fn running_out_of_a_stack_ends_the_process() {
        let Forked::Parent(child) = fork().unwrap() else {
            // The neighbour is what would be written over without a guard page.
            let below = stack();
            let mut thread = UserThread::new(stack(), |_: &Parker<'_, (), ()>, ()| {
                black_box(descend(black_box(SIZE)))
            });
            thread.resume(());
            drop(below);
            exit_now(0);
        };
        let mut status = 0;
        // SAFETY: `status` lives across the call, and the child is ours.
        assert_eq!(unsafe { libc::waitpid(child.number(), &raw mut status, 0) }, child.number());
        assert!(libc::WIFSIGNALED(status), "it ended with {status:#x}");
        assert_eq!(libc::WTERMSIG(status), libc::SIGSEGV);
    }

    #[test]
    fn most_of_a_stack_can_be_used() {
        let levels = SIZE / 2 / 256 / 2;
        let mut thread =
            UserThread::new(stack(), move |_: &Parker<'_, (), ()>, ()| descend(levels));
        assert_eq!(thread.resume(()), Run::Ended(levels));
    }

    #[test]
    fn the_lowest_pages_cannot_be_touched() {
        let stack = stack();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let guard = format!("{:x}-{:x} ---p", stack.lowest(), stack.lowest() + GUARD_BYTES);
        assert!(maps.lines().any(|line| line.starts_with(&guard)), "no {guard} in {maps}");
    }

    #[test]
    fn stacks_are_reused_and_the_pool_is_bounded() {
        let mut stacks = Stacks::new(SIZE, 2);
        let run = |stack| {
            let mut thread = UserThread::new(stack, |_: &Parker<'_, (), ()>, ()| ());
            assert_eq!(thread.resume(()), Run::Ended(()));
            thread.into_stack().unwrap()
        };
        let used: Vec<Stack> = (0..3).map(|_| run(stacks.take().unwrap())).collect();
        let places: Vec<usize> = used.iter().map(Stack::lowest).collect();
        used.into_iter().for_each(|stack| stacks.give_back(stack));
        assert_eq!(stacks.spare.len(), 2);
        let again: Vec<usize> =
            [(); 2].map(|()| run(stacks.take().unwrap())).iter().map(Stack::lowest).collect();
        assert_eq!(again, [places[1], places[0]]);
    }

    #[test]
    fn a_thread_that_has_not_ended_keeps_its_stack() {
        let mut thread = UserThread::new(stack(), |parker: &Parker<'_, (), ()>, ()| {
            parker.park(());
        });
        assert_eq!(thread.resume(()), Run::Parked(()));
        assert!(thread.into_stack().is_none());
    }

    /// Tells when it is dropped.
    struct Told(Rc<Cell<bool>>);

    impl Drop for Told {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    #[test]
    fn dropping_a_parked_thread_unwinds_nothing() {
        let dropped = Rc::new(Cell::new(false));
        let told = Told(Rc::clone(&dropped));
        let mut thread = UserThread::new(stack(), move |parker: &Parker<'_, (), ()>, ()| {
            parker.park(());
            drop(told);
        });
        assert_eq!(thread.resume(()), Run::Parked(()));
        drop(thread);
        assert!(!dropped.get(), "nothing on its stack was dropped, as in a release build");
    }

    #[test]
    fn a_thread_that_never_ran_and_one_that_ended_leave_nothing_behind() {
        for runs in [false, true] {
            let dropped = Rc::new(Cell::new(false));
            let told = Told(Rc::clone(&dropped));
            let mut thread = UserThread::new(stack(), move |_: &Parker<'_, (), ()>, ()| {
                drop(told);
            });
            if runs {
                assert_eq!(thread.resume(()), Run::Ended(()));
            }
            drop(thread);
            assert!(dropped.get());
        }
    }

    #[test]
    fn a_panic_goes_on_in_whoever_resumed() {
        let mut thread = UserThread::new(stack(), |_: &Parker<'_, (), ()>, ()| {
            std::panic::resume_unwind(Box::new("from within"));
        });
        let caught = catch_unwind(AssertUnwindSafe(|| thread.resume(())));
        let payload = caught.err().unwrap();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"from within"));
    }
}
