//! The settings of a site that say which bodies leave coded.

use flyball_http::coding::Coding;
use flyball_site::{FILTERS, Level, SiteSettings};

use super::kind::Kind;
use super::table::{Setting, Task, Word};

/// Largest body that may be coded as a whole.
const MAX_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Largest body that may be coded while it is sent.
const STREAM_BYTES_MAX: u64 = 1 << 40;

/// Most bodies that a process may code at once.
const AT_ONCE_MAX: u64 = 1_024;

/// The keys of content codings.
pub(super) const ROWS: &[Setting<SiteSettings>] = &[
    Setting {
        key: "compress.on",
        task: Task::Compression,
        kind: Kind::Switch { set: |s, on| s.compress.on = on },
        default: Some("true"),
        doc: "Whether bodies are compressed for clients that accept it",
        more: "A body is compressed once for each coding that clients ask for, and kept in the \
               cache with the uncompressed one. A large body, and a listing, is compressed while \
               it is sent; an error page when the server starts. Answers of modules are sent as \
               they are. A body that does not become smaller is sent uncompressed. A request for a \
               range is answered from the uncompressed body. A client that accepts no coding, and \
               refuses a body without one too, gets it uncompressed all the same.",
        source: "RFC 9110 section 12.5.3, S3 section 3.1 (M113)",
        ..Setting::ROW
    },
    Setting {
        key: "compress.backends",
        task: Task::Compression,
        kind: Kind::Switch { set: |s, on| s.compress.backends = on },
        default: Some("true"),
        doc: "Whether answers of programs are compressed too, while they are sent",
        more: "That is so for an answer with the status 200 and a listed type, within the bounds \
               of files that are compressed while they are sent. It leaves in chunks, with `Vary: \
               Accept-Encoding` and a weak `ETag`. When the program pauses, the bytes until then \
               are flushed. An answer that has a coding, a digest, `Content-Range` or \
               `no-transform` is sent as it is, and so is a stream of events. Turn it off, or say \
               `no-transform`, if a page contains both secrets and text that a stranger can choose \
               (BREACH).",
        source: "RFC 9110 section 8.8.1",
        ..Setting::ROW
    },
    Setting {
        key: "compress.precompressed",
        task: Task::Compression,
        kind: Kind::Switch { set: |s, on| s.compress.precompressed = on },
        default: Some("true"),
        doc: "Whether `page.html.br` is sent for `page.html`",
        more: "A file whose name also ends in `.br`, `.gz` or the like is sent instead of the file \
               next to it, to clients that accept the coding, unless it is older. Such files take \
               precedence over compression here. They are looked for only for the listed types and \
               from the least size on.",
        ..Setting::ROW
    },
    Setting {
        key: "compress.gzip-only",
        task: Task::Compression,
        kind: Kind::Switch { set: |s, on| s.compress.gzip_only = on },
        default: Some("false"),
        doc: "Whether `page.html.gz` answers for `page.html` where that is not there",
        more: "Clients that accept gzip get the file as it is, if `compress.codings` has gzip; for \
               others it is decoded while it is sent, without a length and without ranges. It \
               saves the room of the plain files. Whatever its type and size; the rules of both \
               names hold. A process decodes 256 bodies at a time, and answers further ones with \
               503. A file that is cut, or no gzip, breaks its answer off.",
        source: "RFC 1952",
        ..Setting::ROW
    },
    Setting {
        key: "compress.codings",
        task: Task::Compression,
        kind: Kind::Codings { set: |s, codings| s.compress.codings = codings },
        default: Some("br, zstd, gzip"),
        doc: "Codings on offer; the first wins if the client likes several equally",
        source: "RFC 8878, RFC 7932, RFC 1952",
        ..Setting::ROW
    },
    Setting {
        key: "compress.types",
        task: Task::Compression,
        kind: Kind::Texts {
            form: "a media type such as text/css, text/* or *+json",
            empty: false,
            valid: is_type_pattern,
            set: |s, types| s.compress.types = types,
        },
        word: Some(Word { name: "text", set: |s| s.compress.types = Vec::new() }),
        default: Some("text"),
        doc: "Media types that are compressed",
        more: "`text` stands for `text/*`, `*+json`, `*+xml`, scripts, JSON, XML, YAML, TOML, SQL, \
               WebAssembly, tar archives, fonts that are not compressed, bitmaps and icons.",
        ..Setting::ROW
    },
    Setting {
        key: "compress.min-size",
        task: Task::Compression,
        kind: Kind::Size { least: 0, most: MAX_BYTES_MAX, set: |s, n| s.compress.min_bytes = n },
        default: Some("1KiB"),
        doc: "Smallest body that is compressed",
        more: "A body that fits into one packet arrives no sooner for being smaller.",
        ..Setting::ROW
    },
    Setting {
        key: "compress.max-size",
        task: Task::Compression,
        kind: Kind::Size { least: 0, most: MAX_BYTES_MAX, set: |s, n| s.compress.max_bytes = n },
        default: Some("1MiB"),
        doc: "Largest body that is compressed in memory; larger ones are streamed",
        more: "A file is read into memory to be compressed, where disk work is done. Compressing 1 \
               MiB of text, beside any loop, takes on one CPU (AMD EPYC) 11 to 13 ms for Brotli, 3 \
               to 7 ms for Zstandard and 19 to 22 ms for gzip. A larger body is not kept: see \
               `compress.stream-max-size`.",
        ..Setting::ROW
    },
    Setting {
        key: "compress.stream-max-size",
        task: Task::Compression,
        kind: Kind::Size {
            least: 1,
            most: STREAM_BYTES_MAX,
            set: |s, n| s.compress.stream_bytes_max = n,
        },
        word: Some(Word { name: "off", set: |s| s.compress.stream_bytes_max = 0 }),
        default: Some("64MiB"),
        doc: "Largest body that is compressed while it is sent",
        more: "Each client gets its own stream, in pieces of 64 KiB, which take 1 to 2 ms each. It \
               is for files larger than `compress.max-size`, and for listings of directories of \
               any length. Such an answer has no length: it comes in chunks, or in HTTP/1.0 until \
               the connection ends. `off` leaves all of them uncompressed. Files that were \
               compressed beforehand may be larger.",
        source: "S3 section 3.1 (M113)",
        ..Setting::ROW
    },
    Setting {
        key: "compress.streams",
        task: Task::Compression,
        kind: Kind::Integer {
            least: 1,
            most: AT_ONCE_MAX,
            set: |s, n| s.compress.streams = n as usize,
        },
        default: Some("16"),
        doc: "Most bodies compressed while they are sent; others leave plain",
        more: "Per process. Each body holds the memory of its encoder until its client has taken \
               it.",
        source: "S3 section 6 (M140)",
        ..Setting::ROW
    },
    Setting {
        key: "compress.shed",
        task: Task::Compression,
        kind: Kind::Integer {
            least: 1,
            most: AT_ONCE_MAX,
            set: |s, n| s.compress.shed = n as usize,
        },
        default: Some("8"),
        doc: "Bodies being compressed at which further ones leave plain",
        more: "Per process. Bodies that are left uncompressed count as `compressions_shed`, and \
               are compressed at a later request. A process compresses one body once at a time: \
               other requests for it meanwhile get it uncompressed.",
        source: "S3 section 6 (M140)",
        ..Setting::ROW
    },
    Setting {
        key: "compress.cpu",
        task: Task::Compression,
        kind: Kind::Integer { least: 1, most: 10_000, set: |s, n| s.compress.cpu_percent = n },
        default: Some("50"),
        doc: "Most of a CPU that compression may use, in percent",
        more: "Per process, over a few seconds: a process that has just started may take a second \
               or two at once. Beyond that, bodies are sent uncompressed, as with `compress.shed`. \
               The other load of the server counts for `compress.when-overloaded`.",
        source: "S3 section 6 (M140)",
        ..Setting::ROW
    },
    Setting {
        key: "compress.when-overloaded",
        task: Task::Compression,
        kind: Kind::OneOf {
            names: &[
                Word { name: "plain", set: |s| s.compress.overloaded = false },
                Word { name: "compressed", set: |s| s.compress.overloaded = true },
            ],
        },
        default: Some("plain"),
        doc: "How bodies leave while the server is overloaded",
        more: "With `plain`, only bodies that the cache has in compressed form are sent compressed \
               while clients wait for a place (`connections.max`, or threads or processes with one \
               connection each) or fill half of an accept queue (`accept.backlog`), and for a \
               second afterwards. The others count as `compressions_shed`, and are compressed at a \
               later request. With `compressed`, overload changes nothing: `compress.shed` and \
               `compress.cpu` decide.",
        source: "S3 section 6 (M140)",
        ..Setting::ROW
    },
];

/// How hard each filter tries: a key for each row of their table.
pub(super) const LEVELS: &[Setting<SiteSettings>] = &levels();

const fn levels() -> [Setting<SiteSettings>; FILTERS.len()] {
    let mut rows = [level(0); FILTERS.len()];
    let mut at = 1;
    while at < rows.len() {
        rows[at] = level(at);
        at += 1;
    }
    rows
}

const fn level(at: usize) -> Setting<SiteSettings> {
    let Level { key, least, most, default, doc, more, source } = FILTERS[at].level;
    let (least, most) = (least as u64, most as u64);
    let kind = Kind::Integer { least, most, set: SET_LEVEL[at] };
    Setting {
        key,
        task: Task::Compression,
        kind,
        default: Some(default),
        doc,
        more,
        source,
        ..Setting::ROW
    }
}

/// What stores the level of each filter that there may be.
const SET_LEVEL: [fn(&mut SiteSettings, u64); Coding::MAX] = [
    set_level::<0>,
    set_level::<1>,
    set_level::<2>,
    set_level::<3>,
    set_level::<4>,
    set_level::<5>,
    set_level::<6>,
];

fn set_level<const AT: usize>(settings: &mut SiteSettings, level: u64) {
    if let Some(set) = settings.compress.levels.get_mut(AT) {
        *set = level as u32;
    }
}

/// `*`, `a/b`, `a/*` or `*+suffix`.
fn is_type_pattern(text: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    match text.split_once('/') {
        Some((kind, "*")) => token(kind),
        Some((kind, rest)) => token(kind) && token(rest),
        None => text == "*" || text.strip_prefix("*+").is_some_and(token),
    }
}
