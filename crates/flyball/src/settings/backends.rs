//! The tables of a site that say which programs answer.

use flyball_site::{BackendLimits, CgiSettings, SiteSettings};

use super::kind::Kind;
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
        flag: None,
        kind: Kind::Text {
            form: "an absolute path such as /cgi-bin",
            valid: |text| text == "/" || is_url_path(text),
            set: |s, text| cgi(s).path = text,
        },
        word: None,
        default: None,
        doc: "The path; it and all beneath it are meant",
        more: "",
        source: "RFC 3875",
    },
    Setting {
        key: "program",
        flag: None,
        kind: Kind::Path { set: |s, path| cgi(s).program = Some(path) },
        word: Some(Word { name: "none", set: |s| cgi(s).program = None }),
        default: Some("none"),
        doc: "The program that answers for all of them",
        more: "What follows `path` is its PATH_INFO. It must be there when the server starts.",
        source: "RFC 3875 section 4.1.5",
    },
    Setting {
        key: "root",
        flag: None,
        kind: Kind::Path { set: |s, path| cgi(s).root = Some(path) },
        word: Some(Word { name: "none", set: |s| cgi(s).root = None }),
        default: Some("none"),
        doc: "The directory in which programs are looked for by the path",
        more: "The first file on the path is the program, and what follows is its PATH_INFO. One \
               of `program` and `root` must be given, and not both.",
        source: "RFC 3875 section 4.1.13",
    },
    Setting {
        key: "environment",
        flag: None,
        kind: Kind::Fields { set: |s, all| cgi(s).environment.extend(all) },
        word: Some(Word { name: "none", set: |s| cgi(s).environment.clear() }),
        default: Some("none"),
        doc: "Variables beside those of RFC 3875, such as `GIT_PROJECT_ROOT`",
        more: "Of the server's own environment a program gets nothing.",
        source: "",
    },
    Setting {
        key: "sendfile-roots",
        flag: None,
        kind: Kind::Texts {
            form: "an absolute path such as /srv/files",
            empty: true,
            valid: |path| path.starts_with('/'),
            set: |s, roots| cgi(s).sendfile_roots = roots.into_iter().map(Into::into).collect(),
        },
        word: Some(Word { name: "none", set: |s| cgi(s).sendfile_roots.clear() }),
        default: Some("none"),
        doc: "Directories of which a program may have files sent, by `X-Sendfile`",
        more: "As for `[[site.fastcgi]]`.",
        source: "",
    },
    Setting {
        key: "answer-timeout",
        flag: None,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: 86_400_000,
            set: |s, ms| limits(s).answer_ms = ms,
        },
        word: None,
        default: Some("1min"),
        doc: "Time until a program has begun to answer once it has the request",
        more: "Later than that the answer is 504.",
        source: "",
    },
    Setting {
        key: "idle-timeout",
        flag: None,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: 86_400_000,
            set: |s, ms| limits(s).idle_ms = ms,
        },
        word: None,
        default: Some("1min"),
        doc: "Time between two pieces of its answer",
        more: "",
        source: "",
    },
    Setting {
        key: "whole-timeout",
        flag: None,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: 86_400_000,
            set: |s, ms| limits(s).whole_ms = Some(ms),
        },
        word: Some(Word { name: "off", set: |s| limits(s).whole_ms = None }),
        default: Some("off"),
        doc: "Time for all of its answer, after which it is ended",
        more: "",
        source: "",
    },
    Setting {
        key: "output-max",
        flag: None,
        kind: Kind::Size {
            least: 1024,
            most: 1 << 50,
            set: |s, bytes| limits(s).output_max = Some(bytes),
        },
        word: Some(Word { name: "off", set: |s| limits(s).output_max = None }),
        default: Some("off"),
        doc: "Longest answer; a program that says more is ended",
        more: "",
        source: "",
    },
    Setting {
        key: "processes",
        flag: None,
        kind: Kind::Integer {
            least: 1,
            most: 10_000,
            set: |s, most| limits(s).processes_max = most as usize,
        },
        word: None,
        default: Some("64"),
        doc: "Programs of this table that run at the same time",
        more: "All workers together. One more is answered with 503.",
        source: "",
    },
    Setting {
        key: "memory",
        flag: None,
        kind: Kind::Size {
            least: 1 << 20,
            most: 1 << 50,
            set: |s, bytes| limits(s).memory_bytes = Some(bytes),
        },
        word: Some(Word { name: "off", set: |s| limits(s).memory_bytes = None }),
        default: Some("off"),
        doc: "Address space of each of its processes",
        more: "",
        source: "RLIMIT_AS in setrlimit(2)",
    },
    Setting {
        key: "cpu-time",
        flag: None,
        kind: Kind::Duration {
            least_ms: 1_000,
            most_ms: 86_400_000,
            set: |s, ms| limits(s).cpu_s = Some(ms.div_ceil(1_000)),
        },
        word: Some(Word { name: "off", set: |s| limits(s).cpu_s = None }),
        default: Some("off"),
        doc: "Processor time of each of its processes, in whole seconds",
        more: "",
        source: "RLIMIT_CPU in setrlimit(2)",
    },
];

fn cgi(site: &mut SiteSettings) -> &mut CgiSettings {
    site.cgi.last_mut().expect("a key comes after its table was begun")
}

fn limits(site: &mut SiteSettings) -> &mut BackendLimits {
    &mut cgi(site).limits
}
