//! The connections of one worker, in slots that are reused; a token names a slot and its use.

/// Slots added at a time, so that growth never moves a connection and never doubles memory.
const CHUNK: usize = 64;

/// Names one use of one slot: what comes for an earlier use is told apart and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(u64);

impl Token {
    fn new(index: usize, generation: u32) -> Token {
        Token(u64::from(generation) << 32 | index as u64)
    }

    /// The token in an event's 64 bits.
    pub fn from_bits(bits: u64) -> Token {
        Token(bits)
    }

    /// As 64 bits for an event. The top values are left to others: see [`FIRST_RESERVED`].
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The number of the slot.
    pub fn index(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Uses of one slot that are told apart.
const GENERATIONS: u32 = 1 << 27;

/// Bits from here on are never those of a token: listeners, signals and the like use them. Above
/// their lowest 60 bits, a ring keeps what the token is for.
pub const FIRST_RESERVED: u64 = (GENERATIONS as u64) << 32;

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// The slots.
#[derive(Debug)]
pub struct Slots<T> {
    chunks: Vec<Box<[Slot<T>]>>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { chunks: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Slots<T> {
    /// How many slots are in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when none is.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a value into a free slot.
    pub fn insert(&mut self, value: T) -> Token {
        if self.free.is_empty() {
            let first = (self.chunks.len() * CHUNK) as u32;
            let chunk = (0..CHUNK).map(|_| Slot { generation: 0, value: None });
            self.chunks.push(chunk.collect());
            self.free.extend((first..first + CHUNK as u32).rev());
        }
        let index = self.free.pop().unwrap_or_default() as usize;
        let slot = &mut self.chunks[index / CHUNK][index % CHUNK];
        slot.value = Some(value);
        self.len += 1;
        Token::new(index, slot.generation)
    }

    /// The value that a token names, unless it was removed.
    pub fn find(&mut self, token: Token) -> Option<&mut T> {
        let index = token.index();
        let slot = self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)?;
        slot.value.as_mut().filter(|_| slot.generation == token.generation())
    }

    /// Takes the value out; the token and its copies name nothing from now on.
    pub fn remove(&mut self, token: Token) -> Option<T> {
        self.find(token)?;
        let index = token.index();
        let slot = &mut self.chunks[index / CHUNK][index % CHUNK];
        slot.generation = (slot.generation + 1) % GENERATIONS;
        self.len -= 1;
        self.free.push(index as u32);
        slot.value.take()
    }

    /// The token of the value in slot `index`, if there is one.
    pub fn token_at(&self, index: usize) -> Option<Token> {
        let slot = self.chunks.get(index / CHUNK)?.get(index % CHUNK)?;
        slot.value.as_ref().map(|_| Token::new(index, slot.generation))
    }

    /// Every value in use, with its token.
    pub fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        let slots = self.chunks.iter().flat_map(|chunk| chunk.iter()).enumerate();
        slots.filter_map(|(index, slot)| {
            Some((Token::new(index, slot.generation), slot.value.as_ref()?))
        })
    }

    /// Every value in use.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).filter_map(|slot| slot.value.as_ref())
    }

    /// The same, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let all = self.chunks.iter_mut().flat_map(|chunk| chunk.iter_mut());
        all.filter_map(|slot| slot.value.as_mut())
    }

    /// Every token in use.
    pub fn tokens(&self) -> Vec<Token> {
        (0..self.chunks.len() * CHUNK).filter_map(|index| self.token_at(index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_an_earlier_use_names_nothing() {
        let mut slots = Slots::default();
        let first = slots.insert("first");
        assert_eq!(slots.remove(first), Some("first"));
        let second = slots.insert("second");
        assert_eq!(first.index(), second.index());
        assert_eq!(slots.find(first), None);
        assert_eq!(slots.find(second), Some(&mut "second"));
        assert_eq!(slots.remove(first), None);
        assert_eq!((slots.len(), slots.values().count()), (1, 1));
    }

    #[test]
    fn slots_grow_by_chunks_and_are_reused() {
        let mut slots = Slots::default();
        let tokens: Vec<_> = (0..1000).map(|n| slots.insert(n)).collect();
        assert_eq!(slots.tokens(), tokens);
        for token in &tokens {
            slots.remove(*token);
        }
        let again: Vec<_> = (0..1000).map(|n| slots.insert(n)).collect();
        assert!(again.iter().all(|token| token.index() < 1024));
        assert!(again.iter().all(|token| token.bits() < FIRST_RESERVED));
    }
}
