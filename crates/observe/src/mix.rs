//! Numbers spread over all of their bits.

/// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(crate) fn mix(mut n: u64) -> u64 {
    n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
