//! A small mutator without any feedback: it is no match for a fuzzer that watches which branches
//! are taken, but it runs wherever the tests run, and alike everywhere.

use flyball_http::random::Stream;

/// Longest input that is made, in bytes.
pub const INPUT_BYTES_MAX: usize = 4 * 1024;

/// Most mutations that one input goes through.
const MUTATIONS_MAX: u64 = 6;

/// Draws that a seed repeats.
#[derive(Clone, Debug)]
pub struct Random(Stream);

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Random {
        Random(Stream::of(seed))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0.number()
    }

    /// A number below `end`; 0 when that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.number() % end as u64) as usize }
    }

    fn pick<'a>(&mut self, all: &[&'a [u8]]) -> &'a [u8] {
        all.get(self.below(all.len())).copied().unwrap_or(&[])
    }
}

/// Makes one input from `corpus`; the same for the same arguments. `words` are of the language that
/// the inputs are in.
pub fn mutated(seed: u64, corpus: &[Vec<u8>], words: &[&[u8]]) -> Vec<u8> {
    let random = &mut Random::new(seed);
    let mut input = corpus.get(random.below(corpus.len())).cloned().unwrap_or_default();
    for _ in 0..1 + random.number() % MUTATIONS_MAX {
        mutate(&mut input, random, corpus, words);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

fn mutate(input: &mut Vec<u8>, random: &mut Random, corpus: &[Vec<u8>], words: &[&[u8]]) {
    let at = random.below(input.len() + 1);
    let end = at + random.below(input.len() - at + 1);
    match random.below(9) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.number() as u8,
        2 => {
            input.splice(at..at, random.pick(words).iter().copied());
        }
        3 => {
            input.splice(at..end, random.pick(words).iter().copied());
        }
        4 => {
            input.drain(at..end);
        }
        5 => input.truncate(at),
        6 => {
            let repeated = input[at..end].repeat(1 + random.below(4));
            input.splice(at..at, repeated);
        }
        7 => {
            let other = corpus.get(random.below(corpus.len())).map_or(&[][..], |other| other);
            let from = random.below(other.len() + 1);
            input.splice(at.., other[from..].iter().copied());
        }
        _ => {
            let byte = random.number() as u8;
            input.insert(at, byte);
        }
    }
    input.truncate(INPUT_BYTES_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_input_and_others_make_others() {
        let corpus = [b"GET / HTTP/1.1\r\n".to_vec(), b"other".to_vec()];
        let words = [&b"word"[..]];
        let make = |seed| mutated(seed, &corpus, &words);
        let inputs: std::collections::HashSet<Vec<u8>> = (0..1_000).map(make).collect();
        assert!(inputs.len() > 800, "{} of 1000 are different", inputs.len());
        assert!((0..1_000).all(|seed| make(seed) == mutated(seed, &corpus, &words)));
    }

    #[test]
    fn inputs_stay_bounded_whatever_they_are_made_from() {
        let corpus = [vec![b'x'; 2 * INPUT_BYTES_MAX]];
        assert!((0..500).all(|seed| mutated(seed, &corpus, &[]).len() <= INPUT_BYTES_MAX));
        assert!((0..500).all(|seed| mutated(seed, &[], &[]).len() <= INPUT_BYTES_MAX));
    }
}
