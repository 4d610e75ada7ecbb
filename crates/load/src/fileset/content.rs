//! What is in a file: its size and name in the first line, as SPECweb99's have, then text that
//! follows from the set's seed and the name.

use flyball_http::random;

use crate::content::Content;

/// Bytes of text that one number makes.
const WORD: usize = 8;

/// Columns of a line of text, with its end.
const LINE: u64 = 64;

/// 64 letters for 64 values.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .";

/// The tag of an advertisement, which SPECweb99's dynamic requests have replaced: in files of its
/// classes 1 and 2.
const AD_TAG: &str = "<!WEB99CAD><IMG SRC=\"/file_set/dir00000/class0_0\"><!/WEB99CAD>\n";

/// What the tag names before it is replaced.
const OWN_AD: &str = "dir00000/class0_0";

/// The bytes of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContent {
    head: Vec<u8>,
    key: u64,
    size: u64,
}

impl FileContent {
    /// Those of the file of this name and size, in a set of this seed.
    pub fn new(name: &str, size: u64, seed: u64) -> FileContent {
        let mut head = format!("{size:9} {name}\n");
        let class = name.rsplit('/').next().unwrap_or_default();
        if class.starts_with("class1_") || class.starts_with("class2_") {
            head += AD_TAG;
        }
        let mut head = head.into_bytes();
        head.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        // FNV-1a: all that is asked of it is that names have different texts.
        let key = name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        FileContent { head, key, size }
    }

    /// The same with another advertisement in its tag, such as `dir00002/class0_3`; without a tag
    /// it stays as it is.
    pub fn with_advertisement(mut self, ad: &str) -> FileContent {
        let from = AD_TAG.find(OWN_AD).unwrap_or_default();
        let first_line = self.head.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let place = first_line + from..first_line + from + OWN_AD.len();
        let tag = self.head.get_mut(place).filter(|tag| *tag == OWN_AD.as_bytes());
        if let Some(tag) = tag.filter(|tag| tag.len() == ad.len()) {
            tag.copy_from_slice(ad.as_bytes());
        }
        self
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Writes the bytes from `offset` on into all of `buffer`, as if the file had no end.
    pub fn fill(&self, offset: u64, buffer: &mut [u8]) {
        let mut at = offset;
        let mut rest = buffer;
        if let Some(head) = usize::try_from(at).ok().and_then(|at| self.head.get(at..)) {
            let len = head.len().min(rest.len());
            rest[..len].copy_from_slice(&head[..len]);
            at += len as u64;
            rest = &mut rest[len..];
        }
        while !rest.is_empty() {
            let word = self.word(at / WORD as u64);
            let from = (at % WORD as u64) as usize;
            let len = (WORD - from).min(rest.len());
            rest[..len].copy_from_slice(&word[from..from + len]);
            at += len as u64;
            rest = &mut rest[len..];
        }
    }

    /// The nth word of the text.
    fn word(&self, nth: u64) -> [u8; WORD] {
        let mut mixed = random::nth(self.key, nth + 1);
        let mut word = [0; WORD];
        for byte in &mut word {
            *byte = LETTERS[(mixed & 63) as usize];
            mixed >>= 6;
        }
        if ((nth + 1) * WORD as u64).is_multiple_of(LINE) {
            word[WORD - 1] = b'\n';
        }
        word
    }
}

impl Content for FileContent {
    fn matches(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut expected = [0; 1024];
        let mut at = offset;
        bytes.chunks(expected.len()).all(|chunk| {
            let expected = &mut expected[..chunk.len()];
            self.fill(at, expected);
            at += chunk.len() as u64;
            *chunk == *expected && at <= self.size
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(content: &FileContent) -> Vec<u8> {
        let mut bytes = vec![0; content.size() as usize];
        content.fill(0, &mut bytes);
        bytes
    }

    #[test]
    fn a_file_tells_its_size_and_name_and_is_text() {
        let bytes = whole(&FileContent::new("dir00000/class1_3", 4096, 1));
        assert!(bytes.starts_with(b"     4096 dir00000/class1_3\n<!WEB99CAD>"));
        assert!(bytes.iter().all(|byte| byte.is_ascii_graphic() || b" \n".contains(byte)));
        assert_eq!(whole(&FileContent::new("a", 5, 1)), b"     ");
    }

    #[test]
    fn any_part_can_be_told_from_any_other() {
        let content = FileContent::new("dir00000/class2_3", 40_960, 1);
        let bytes = whole(&content);
        for (from, to) in [(0, 40_960), (7, 93), (1_000, 9_000), (40_900, 40_960)] {
            assert!(content.matches(from as u64, &bytes[from..to]), "{from}..{to}");
            assert!(!content.matches(from as u64 + 1, &bytes[from..to]), "{from}..{to}");
        }
        let mut wrong = bytes.clone();
        wrong[20_000] ^= 1;
        assert!(!content.matches(0, &wrong));
        let mut longer = bytes;
        longer.push(b'A');
        assert!(!content.matches(0, &longer), "longer than the file");
    }

    #[test]
    fn names_and_seeds_have_texts_of_their_own() {
        let text = |name: &str, seed| whole(&FileContent::new(name, 900, seed))[100..].to_vec();
        assert_ne!(text("a", 1), text("b", 1));
        assert_ne!(text("a", 1), text("a", 2));
    }
}
