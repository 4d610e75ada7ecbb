//! The tables of a site that say which modules answer.

use flyball_site::SiteSettings;
use flyball_site::modules::{Load, ModuleSettings, OnPanic};

use super::kind::Kind;
use super::table::{Setting, Table, Word};
use super::text::is_url_path;

/// The tables that may come more than once.
pub(super) const TABLES: &[Table<SiteSettings>] = &[Table {
    key: "module",
    doc: "Modules that answer in the server's own process",
    more: "Who may come is decided before. The longest path counts, before programs, redirects, \
           rewrites and files. A module has all that a worker has: its author is trusted as the \
           server is. docs/modules.md tells the whole.",
    begin: |s| s.modules.push(ModuleSettings::default()),
    settings: MODULE,
}];

const MODULE: &[Setting<SiteSettings>] = &[
    Setting {
        key: "path",
        kind: Kind::Text {
            form: "an absolute path such as /hello",
            valid: |text| text == "/" || is_url_path(text),
            set: |s, text| module(s).path = text,
        },
        default: None,
        doc: "The path; the table covers it and all beneath it",
        source: "S1 section 3",
        ..Setting::ROW
    },
    Setting {
        key: "exact",
        kind: Kind::Switch { set: |s, on| module(s).exact = on },
        default: Some("false"),
        doc: "Whether the table covers the path alone, and nothing beneath it",
        ..Setting::ROW
    },
    Setting {
        key: "library",
        kind: Kind::Path { set: |s, path| module(s).library = Some(path) },
        word: Some(Word { name: "none", set: |s| module(s).library = None }),
        default: Some("none"),
        doc: "Shared object that holds the module",
        more: "It is brought into memory when the server starts: a missing file, a missing symbol \
               and another version of the ABI are errors then, and of `flyball check`. A \
               statically linked server has none. One of `library` and `name` must be given, and \
               not both.",
        source: "S1 section 3",
        ..Setting::ROW
    },
    Setting {
        key: "name",
        kind: Kind::Text {
            form: "the name of a module that is part of the server, such as hello",
            valid: |text| !text.is_empty(),
            set: |s, text| module(s).name = Some(text),
        },
        word: Some(Word { name: "none", set: |s| module(s).name = None }),
        default: Some("none"),
        doc: "Instead of `library`: the name of a built-in module",
        more: "docs/modules.md lists them.",
        source: "S1 section 3",
        ..Setting::ROW
    },
    Setting {
        key: "load",
        kind: Kind::OneOf {
            names: &[
                Word { name: "start", set: |s| module(s).load = Load::Start },
                Word { name: "first-use", set: |s| module(s).load = Load::FirstUse },
            ],
        },
        default: Some("start"),
        doc: "When the module's initialiser runs",
        more: "With `start` it runs once, in the master, before the server gives its rights up; \
               each worker has a copy of what it makes, and a failure is an error at the start \
               and of `flyball check`. With `first-use` each process runs it at its first \
               request, with the rights of a worker; a failure is told in the log, and answered \
               with 500.",
        source: "S1 section 3",
        ..Setting::ROW
    },
    Setting {
        key: "blocking",
        kind: Kind::Switch { set: |s, on| module(s).blocking = Some(on) },
        word: Some(Word { name: "as-it-says", set: |s| module(s).blocking = None }),
        default: Some("as-it-says"),
        doc: "Whether its calls may block, whatever the module says",
        more: "One that may block is called where the architecture does disk work: by helpers, a \
               stage, threads beside an event loop or a ring, or in place where a process or \
               thread may block. With `false` an event loop calls it in place, as the servers of \
               S1 did, and serves no other client until the call returns.",
        source: "S1 section 4.3",
        ..Setting::ROW
    },
    Setting {
        key: "on-panic",
        kind: Kind::OneOf {
            names: &[
                Word { name: "answer", set: |s| module(s).on_panic = OnPanic::Answer },
                Word { name: "abort", set: |s| module(s).on_panic = OnPanic::Abort },
            ],
        },
        default: Some("answer"),
        doc: "What the server does after a panic that a library in Rust caught",
        more: "With `answer` the request gets 500. With `abort` the worker ends, its connections \
               are lost, and another takes its place.",
        source: "S1 section 6",
        ..Setting::ROW
    },
    Setting {
        key: "options",
        kind: Kind::Fields { set: |s, all| module(s).options.extend(all) },
        word: Some(Word { name: "none", set: |s| module(s).options.clear() }),
        default: Some("none"),
        doc: "Options for the module, such as `{ text = \"hello\" }`",
        more: "The keys are the module's own.",
        ..Setting::ROW
    },
];

fn module(site: &mut SiteSettings) -> &mut ModuleSettings {
    site.modules.last_mut().expect("a key comes after its table was begun")
}
