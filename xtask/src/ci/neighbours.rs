//! What makes a machine busy while tests run: loops that take processors, and memory that is
//! touched over and over.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

/// Bytes of a page: each is touched once in a turn.
const PAGE: usize = 4096;

/// Pages that are touched between two looks whether to stop.
const PAGES_AT_ONCE: usize = 4096;

/// Busy threads, which end with the value.
pub(super) struct Neighbours {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Starts so many busy loops, and one more that touches so many bytes unless they are none.
pub(super) fn start(loops: usize, hog_bytes: usize) -> Neighbours {
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for _ in 0..loops {
        let stop = Arc::clone(&stop);
        threads.push(thread::spawn(move || while !black_box(stop.load(Relaxed)) {}));
    }
    if hog_bytes > 0 {
        let stop = Arc::clone(&stop);
        threads.push(thread::spawn(move || hog(hog_bytes, &stop)));
    }
    Neighbours { stop, threads }
}

fn hog(bytes: usize, stop: &AtomicBool) {
    let mut memory = vec![0u8; bytes];
    while !stop.load(Relaxed) {
        for pages in memory.chunks_mut(PAGE * PAGES_AT_ONCE) {
            if stop.load(Relaxed) {
                break;
            }
            pages.iter_mut().step_by(PAGE).for_each(|byte| *byte = black_box(byte.wrapping_add(1)));
        }
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_work_until_they_are_dropped() {
        let neighbours = start(2, PAGE * 3);
        assert!(neighbours.threads.iter().all(|thread| !thread.is_finished()));
        assert_eq!(neighbours.threads.len(), 3);
        drop(neighbours);
    }
}
