//! A listing that is sent while its directory is read.

use std::vec;

use bytes::Bytes;
use flyball_http::Segment;

use crate::listing::{ENTRIES_SORTED_MAX, Entry, Gather, Page};
use crate::plan::Plan;
use crate::source::{Piece, Source};

/// Bytes of the page after which a piece ends: some two hundred entries.
const PIECE_BYTES: usize = 32 * 1024;

/// A listing that is sent while the directory is read.
#[derive(Debug)]
pub(crate) struct Listing {
    page: Page,
    /// `None` while it is being worked on elsewhere.
    gather: Option<Box<Gather>>,
    /// Whether the first bytes of the page were sent.
    begun: bool,
    /// Entries to be sent next.
    entries: vec::IntoIter<Entry>,
}

impl Listing {
    /// Of a directory that is larger than what was gathered.
    pub(crate) fn new(gather: Box<Gather>) -> Listing {
        let page = Page::new(gather.path(), gather.wish());
        Listing { page, gather: Some(gather), begun: false, entries: Vec::new().into_iter() }
    }

    /// Takes what was gathered, once that can be sent.
    fn take(&mut self) {
        let Some(gather) = &mut self.gather else { return };
        if !self.begun && !gather.is_at_end() && gather.entries.len() <= ENTRIES_SORTED_MAX {
            return;
        }
        if self.entries.len() == 0 {
            self.page.sorted &= self.begun || gather.is_at_end();
            self.entries = gather.take().into_iter();
        }
    }
}

impl Source for Listing {
    fn ready(&mut self) -> Option<Piece> {
        self.take();
        let at_end = self.gather.as_ref().is_some_and(|gather| gather.is_at_end());
        if self.entries.len() == 0 && !at_end {
            return None;
        }
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            self.page.begin(&mut out);
        }
        while out.len() < PIECE_BYTES
            && let Some(entry) = self.entries.next()
        {
            self.page.entry(&entry, &mut out);
        }
        let last = at_end && self.entries.len() == 0;
        if let Some(gather) = self.gather.as_ref().filter(|_| last) {
            self.page.end(gather, &mut out);
        }
        Some(Piece::bytes(out, last))
    }

    fn next(&mut self) -> Box<Plan> {
        match self.gather.take() {
            Some(mut gather) => {
                gather.go_on();
                Plan::steps(*gather)
            }
            None => {
                debug_assert!(false, "the directory is being read already");
                Plan::failed()
            }
        }
    }

    fn produced(&mut self, plan: Plan) -> Piece {
        match plan.into_steps::<Gather>() {
            Some(gather) if gather.error().is_none() => {
                self.gather = Some(gather);
                self.ready().unwrap_or(Piece::More(Segment::Bytes(Bytes::new())))
            }
            _ => Piece::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::tests::{filled, gather, names};
    use crate::listing::{ENTRIES_WHOLE_MAX, Format};

    /// All pieces of a listing, and how many entries were held at once.
    fn pieces(mut listing: Listing) -> (Vec<Bytes>, usize) {
        let (mut pieces, mut held) = (Vec::new(), 0);
        loop {
            let piece = listing.ready().unwrap_or_else(|| {
                let mut plan = listing.next();
                plan.run();
                listing.produced(*plan)
            });
            let gathered = listing.gather.as_ref().map_or(0, |gather| gather.entries.len());
            held = held.max(gathered + listing.entries.len());
            let (content, last) = match piece {
                Piece::More(content) => (content, false),
                Piece::Last(content) => (content, true),
                Piece::Failed => panic!("it failed"),
            };
            let Segment::Bytes(bytes) = content else { panic!("not in memory") };
            pieces.push(bytes);
            if last {
                return (pieces, held);
            }
        }
    }

    #[test]
    fn a_larger_directory_is_gathered_and_sorted_before_it_is_sent_in_pieces() {
        let dir = filled(3_000);
        let gather = gather(dir.path(), Format::Json, ENTRIES_WHOLE_MAX);
        assert!(!gather.is_at_end());
        let (pieces, _) = pieces(Listing::new(gather));
        let (sorted, names) = names(&pieces.concat());
        assert_eq!((sorted, names.len()), (true, 3_000));
        assert!(names.is_sorted());
        assert!(pieces.iter().filter(|piece| !piece.is_empty()).count() > 5);
        assert!(pieces.iter().all(|piece| piece.len() < PIECE_BYTES + 4 * 1024));
    }

    #[test]
    fn of_a_huge_directory_no_more_is_held_than_the_bound_and_a_batch() {
        let dir = filled(ENTRIES_SORTED_MAX * 2 + 500);
        let gather = gather(dir.path(), Format::Json, ENTRIES_WHOLE_MAX);
        let (pieces, held) = pieces(Listing::new(gather));
        let (sorted, mut names) = names(&pieces.concat());
        let bounds = ENTRIES_SORTED_MAX - 1_000..ENTRIES_SORTED_MAX + 1_000;
        assert!(!sorted && bounds.contains(&held), "{held} entries are held");
        names.sort();
        let expected: Vec<_> = (0..names.len()).map(|at| format!("file-{at:06}")).collect();
        assert_eq!((names.len(), names), (ENTRIES_SORTED_MAX * 2 + 500, expected));
    }
}
