//! Numbers that look random and follow from a seed: SplitMix64 (Steele, Lea, Flood: Fast Splittable
//! Pseudorandom Number Generators, OOPSLA 2014). They are no secret.

/// What lies between one state and the next.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of numbers, another one for each seed.
#[derive(Clone, Debug)]
pub struct Stream(u64);

impl Stream {
    /// That of a seed.
    pub fn of(seed: u64) -> Stream {
        Stream(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        stirred(self.0)
    }
}

/// The nth number of the stream of a seed, counted from 1.
pub fn nth(seed: u64, n: u64) -> u64 {
    stirred(seed.wrapping_add(n.wrapping_mul(STEP)))
}

/// Each bit of `n` changes half of those that come out.
fn stirred(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_that_of_the_paper_and_its_numbers_are_had_by_place_too() {
        // Those that other implementations give for this seed.
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        let mut stream = Stream::of(1_234_567);
        for (expected, at) in expected.into_iter().zip(1..) {
            assert_eq!(stream.number(), expected);
            assert_eq!(nth(1_234_567, at), expected);
        }
    }
}
