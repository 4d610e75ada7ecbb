//! In which order runs are made: in blocks, each of which holds every cell once, in an order of
//! its own that chance decides. Two cells are compared within blocks, so that what drifts over an
//! hour (a disk that fills, a neighbour that wakes up) is under both.

use std::ops::Range;

/// One run: this cell in this block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    /// Which repetition.
    pub block: usize,
    /// Which cell, of those there are.
    pub cell: usize,
}

/// All turns of `blocks` repetitions of `cells`. The same seed gives the same order, by which an
/// interrupted campaign goes on where it was.
pub fn turns(cells: usize, blocks: usize, seed: u64) -> Vec<Turn> {
    turns_of(&(0..cells).collect::<Vec<_>>(), 0..blocks, seed)
}

/// The same of these cells only, in these blocks.
pub fn turns_of(cells: &[usize], blocks: Range<usize>, seed: u64) -> Vec<Turn> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut turns = Vec::with_capacity(cells.len() * blocks.len());
    for block in blocks {
        let mut order = cells.to_vec();
        rng.shuffle(&mut order);
        turns.extend(order.into_iter().map(|cell| Turn { block, cell }));
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_every_cell_once_and_no_block_is_like_the_next() {
        let all = turns(8, 5, 1);
        for block in 0..5 {
            let mut cells: Vec<usize> =
                all[block * 8..block * 8 + 8].iter().map(|turn| turn.cell).collect();
            assert!(all[block * 8..block * 8 + 8].iter().all(|turn| turn.block == block));
            cells.sort_unstable();
            assert_eq!(cells, (0..8).collect::<Vec<_>>());
        }
        let order = |block: usize| -> Vec<usize> {
            all[block * 8..block * 8 + 8].iter().map(|turn| turn.cell).collect()
        };
        assert_ne!(order(0), order(1));
        assert_eq!(turns(8, 5, 1), all);
        assert_ne!(turns(8, 5, 2), all);
    }
}
