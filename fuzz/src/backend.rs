//! What backends say: the records of FastCGI, and the head of an answer in the form of CGI.

use flyball_site::backend::{Ended, RecordReader, Reply, SentFile, head_len};

pub(crate) const RECORD_WORDS: &[&[u8]] = &[
    b"\x01\x06\0\x01\0\x04\0\0",
    b"\x01\x07\0\x01\0\x04\x04\0",
    b"\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0",
    b"\x01\x0b\0\0\0\x08\0\0",
    b"\x01\x06\0\x01\xff\xff\xff\0",
    b"\x01\x06\0\x01\0\0\0\0",
    b"\x01\x0a\0\0\0\0\0\0",
    b"\x01\x06\0\x02",
];

pub(crate) const REPLY_WORDS: &[&[u8]] = &[
    b"Status: 404 Not Found\r\n",
    b"Status: 200\n",
    b"Location: /other\n",
    b"Location: //evil/\n",
    b"Content-Length: 3\r\n",
    b"Content-Type: text/html; charset=x\n",
    b"Transfer-Encoding: chunked\n",
    b"Connection: close\n",
    b"X-Sendfile: /etc/passwd\n",
    b"X-Accel-Redirect: /a\n",
    b"HTTP/1.1 201 Created\r\n",
    b"\r\n\r\n",
    b"\n\n",
    b"\r",
    b"\0",
    b"\t",
    b": ",
    b" folded\n",
];

/// Fields that a backend may not say to a client.
const OURS: &[&str] = &[
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "server",
    "status",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-accel-redirect",
    "x-sendfile",
];

/// All that is read of the records of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    content: Vec<u8>,
    errors: Vec<u8>,
    refused: Option<String>,
    ended: Option<Ended>,
    is_clean: bool,
}

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Read {
    let (mut reader, mut read) = (RecordReader::default(), Read::default());
    for piece in pieces {
        let mut bytes = piece.to_vec();
        match reader.take(&mut bytes, |said| read.errors.extend_from_slice(said)) {
            Ok(kept) => read.content.extend_from_slice(&bytes[..kept]),
            Err(why) => {
                // What came before it in the same piece is of no use to anybody.
                (read.content, read.refused) = (Vec::new(), Some(why));
                break;
            }
        }
    }
    (read.ended, read.is_clean) = (reader.ended(), reader.is_clean());
    read
}

/// A first byte that says how long pieces are, and what a responder sends: it means the same
/// wherever it is cut, and nothing of it is made up.
///
/// # Panics
/// When it does not.
pub fn fastcgi_records(data: &[u8]) {
    let Some((&len, data)) = data.split_first() else { return };
    let whole = read(std::iter::once(data));
    let pieces = read(data.chunks(usize::from(len).max(1)));
    assert_eq!(whole, pieces, "in pieces of {len}");
    assert!(whole.content.len() + whole.errors.len() <= data.len());
    assert!(!whole.is_clean || whole.ended.is_some());
}

/// The head of an answer: its end is where it is found first, and what passes are fields that a
/// client cannot misread.
///
/// # Panics
/// When it is not so.
pub fn backend_reply(data: &[u8]) {
    let Some(len) = head_len(data) else { return };
    let head = &data[..len];
    assert!(head.ends_with(b"\n") && head_len(&head[..len - 1]).is_none());
    assert_eq!(head_len(head), Some(len));
    let Ok(reply) = Reply::parse(head) else { return };
    assert!((200..600).contains(&reply.status.code()), "{:?}", reply.status);
    assert!(reply.redirect.is_none_or(|path| path.starts_with(b"/") && !path.starts_with(b"//")));
    if let Some(SentFile::At(path) | SentFile::Beneath(path)) = &reply.file {
        assert!(!path.contains(&0));
    }
    let fields = reply.fields.lines().h1();
    assert!(fields.is_empty() || fields.ends_with(b"\r\n"), "{}", fields.escape_ascii());
    for line in fields.split_inclusive(|&byte| byte == b'\n') {
        let text = line.escape_ascii();
        let line = line.strip_suffix(b"\r\n").unwrap_or_else(|| panic!("a bare LF: {text}"));
        assert!(line.iter().all(|&byte| byte == b'\t' || byte >= b' ' && byte != 0x7f), "{text}");
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or_default();
        let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
        assert!(!name.is_empty() && !name.contains(' ') && name.is_ascii(), "{text}");
        assert!(!OURS.contains(&&*name), "{text}");
    }
}
