//! The tables of a site that say which programs answer.

use flyball_site::{BackendLimits, CgiSettings, SiteSettings};

use super::kind::Kind;
use super::limits;
use super::table::{Setting, Table, Word};
use super::text::is_url_path;

/// The tables that may come more than once.
pub(super) const TABLES: &[Table<SiteSettings>] = &[Table {
    key: "cgi",
    doc: "Programs that are started for each request",
    more: "Who may come is decided before. The longest path counts, before redirects, rewrites and \
           files. A program has no right that the server has not, gets no descriptor but three \
           pipes, and is ended with its process group when its client leaves. docs/dynamic.md \
           tells the whole.",
    begin: |s| s.cgi.push(CgiSettings::default()),
    settings: CGI,
}];

const CGI: &[Setting<SiteSettings>] = &[
    Setting {
        key: "path",
        kind: Kind::Text {
            form: "an absolute path such as /cgi-bin",
            valid: |text| text == "/" || is_url_path(text),
            set: |s, text| cgi(s).path = text,
        },
        default: None,
        doc: "The path; the table covers it and all beneath it",
        source: "RFC 3875",
        ..Setting::ROW
    },
    Setting {
        key: "program",
        kind: Kind::Path { set: |s, path| cgi(s).program = Some(path) },
        word: Some(Word { name: "none", set: |s| cgi(s).program = None }),
        default: Some("none"),
        doc: "Program that answers for all paths of the table",
        more: "What follows `path` is its PATH_INFO. It must be there when the server starts.",
        source: "RFC 3875 section 4.1.5",
        ..Setting::ROW
    },
    Setting {
        key: "root",
        kind: Kind::Path { set: |s, path| cgi(s).root = Some(path) },
        word: Some(Word { name: "none", set: |s| cgi(s).root = None }),
        default: Some("none"),
        doc: "Directory in which the path names a program",
        more: "The first file on the path is the program, and what follows is its PATH_INFO. One \
               of `program` and `root` must be given, and not both.",
        source: "RFC 3875 section 4.1.13",
        ..Setting::ROW
    },
    Setting {
        key: "environment",
        kind: Kind::Fields { set: |s, all| cgi(s).environment.extend(all) },
        word: Some(Word { name: "none", set: |s| cgi(s).environment.clear() }),
        default: Some("none"),
        doc: "More variables than those of RFC 3875, such as `GIT_PROJECT_ROOT`",
        more: "Of the server's own environment a program gets nothing.",
        ..Setting::ROW
    },
    limits::sendfile_roots(
        |s, roots| cgi(s).sendfile_roots = roots.into_iter().map(Into::into).collect(),
        |s| cgi(s).sendfile_roots.clear(),
        "Directories of which a program may have files sent, by `X-Sendfile`",
        "As for `[[site.fastcgi]]`.",
    ),
    limits::hold(
        |s, bytes| limits_of(s).held_bytes_max = Some(bytes),
        |s| limits_of(s).held_bytes_max = None,
    ),
    limits::buffer(|s, bytes| limits_of(s).buffer_bytes = bytes, |s| limits_of(s).buffer_bytes = 0),
    limits::buffer_max(
        |s, bytes| limits_of(s).spooled_bytes_max = bytes,
        |s| limits_of(s).spooled_bytes_max = 0,
    ),
    limits::answer_timeout(
        |s, ms| limits_of(s).answer_ms = ms,
        "Time until a program has begun to answer once it has the request",
        "Per request. Later than that the answer is 504.",
    ),
    limits::idle_timeout(|s, ms| limits_of(s).idle_ms = ms),
    limits::whole_timeout(
        |s, ms| limits_of(s).whole_ms = Some(ms),
        |s| limits_of(s).whole_ms = None,
        "Time for all of its answer, after which it is ended",
    ),
    limits::output_max(
        |s, bytes| limits_of(s).output_max = Some(bytes),
        |s| limits_of(s).output_max = None,
        "Longest answer; a program that says more is ended",
    ),
    Setting {
        key: "processes",
        kind: Kind::Integer {
            least: 1,
            most: 10_000,
            set: |s, most| limits_of(s).processes_max = most as usize,
        },
        default: Some("64"),
        doc: "Programs of this table that run at the same time, in all",
        more: "All workers together count. One more is answered with 503.",
        ..Setting::ROW
    },
    limits::memory(
        |s, bytes| limits_of(s).memory_bytes = Some(bytes),
        |s| limits_of(s).memory_bytes = None,
        "Address space of each of its processes",
    ),
    limits::cpu_time(
        86_400_000,
        |s, ms| limits_of(s).cpu_s = Some(ms.div_ceil(1_000)),
        |s| limits_of(s).cpu_s = None,
        "Processor time of each of its processes, in whole seconds",
    ),
];

fn cgi(site: &mut SiteSettings) -> &mut CgiSettings {
    site.cgi.last_mut().expect("a key comes after its table was begun")
}

fn limits_of(site: &mut SiteSettings) -> &mut BackendLimits {
    &mut cgi(site).limits
}
