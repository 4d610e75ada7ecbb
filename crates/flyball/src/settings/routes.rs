//! The settings of a site that say what becomes of a path: redirects, rewrites, fields, and where
//! else files are looked for.

use flyball_site::routes::{
    AliasSettings, CacheControl, HeaderSettings, Holds, LANGUAGES_MAX, RedirectSettings,
    ReturnSettings, RewriteSettings, TypeSettings,
};
use flyball_site::{EtagRule, SiteSettings, routes};

use super::kind::Kind;
use super::path_rows;
use super::table::{Setting, Table, Task, Word};
use super::text::{is_file_name, is_media_type, is_token, is_url_path};

/// What any `max-ranges` can allow.
const RANGES_CAP: u64 = 4_096;

/// What a pattern of paths looks like.
pub(super) const PATTERN: &str = r"a path such as /old, /old/* or ~^/old/(\d+)$";

/// The keys that come once.
pub(super) const ROWS: &[Setting<SiteSettings>] = &[
    Setting {
        key: "fallback",
        task: Task::Routes,
        kind: Kind::Text {
            form: "an absolute path such as /index.html",
            valid: is_url_path,
            set: |s, path| s.routes.fallback = Some(path),
        },
        word: Some(Word { name: "off", set: |s| s.routes.fallback = None }),
        default: Some("off"),
        doc: "File or script that answers for paths that do not exist",
        more: "A file answers with 200, for applications that read the path in the browser. It \
               does not answer for a path whose last name has a dot: a missing script is still \
               404. A path that leads to a backend, such as /index.php, is a front controller: it \
               answers for every path that names no file, whatever the method, but for names \
               with an extension of a backend that has `require-script`.",
        ..Setting::ROW
    },
    Setting {
        key: "pretty-urls",
        task: Task::Routes,
        kind: Kind::Switch { set: |s, on| s.routes.pretty_urls = on },
        default: Some("false"),
        doc: "Whether `/about` finds `about.html` when there is no `about`",
        ..Setting::ROW
    },
    Setting {
        key: "languages",
        task: Task::Routes,
        kind: Kind::Texts {
            form: "a language tag such as de or pt-BR",
            empty: false,
            valid: routes::is_language,
            set: |s, tags| s.routes.languages = tags,
        },
        word: Some(Word { name: "off", set: |s| s.routes.languages.clear() }),
        default: Some("off"),
        doc: "Languages of neighbours such as `index.html.de`, the default first",
        more: "If `Accept-Language` prefers one of them, the neighbour of that language is sent \
               instead of the file, with `Content-Language`. Otherwise the file without a language \
               in its name is sent, and if there is none, the first language that exists. At most \
               16.",
        source: "RFC 9110 section 12.5.4, RFC 4647 section 3.4",
        ..Setting::ROW
    },
    Setting {
        key: "image-neighbours",
        task: Task::Routes,
        kind: Kind::Switch { set: |s, on| s.routes.image_neighbours = on },
        default: Some("false"),
        doc: "Whether `a.avif` or `a.webp` answers for `a.png` or `a.jpg`",
        more: "Only if `Accept` names that type itself; a wildcard does not count.",
        source: "RFC 9110 section 12.5.1",
        ..Setting::ROW
    },
    Setting {
        key: "error-page",
        task: Task::Routes,
        kind: Kind::Pages { set: |s, pages| s.routes.error_pages.extend(pages) },
        word: Some(Word { name: "none", set: |s| s.routes.error_pages.clear() }),
        default: Some("none"),
        doc: "Error pages by status, such as `404 = \"404.html\"`",
        more: "Each is read when the server starts, 256 KiB at most, and stays in memory: with \
               the rights of the workers' user, and beneath a root as `symlinks` says. A \
               request that is not understood at all has no site, and so no page of one.",
        source: "RFC 9110 section 15.5",
        ..Setting::ROW
    },
    Setting {
        key: "cache-control",
        task: Task::Routes,
        kind: Kind::OneOf {
            names: &[
                Word {
                    name: "revalidate",
                    set: |s| s.routes.files.cache_control = CacheControl::Revalidate,
                },
                Word { name: "auto", set: |s| s.routes.files.cache_control = CacheControl::Auto },
                Word { name: "off", set: |s| s.routes.files.cache_control = CacheControl::Off },
            ],
        },
        default: Some("revalidate"),
        doc: "How long caches may keep an answer",
        more: "With `revalidate`, every file is `no-cache`: caches keep it and ask again each \
               time, which costs a 304 without a body if it has not changed. With `auto`, only \
               HTML is `no-cache`, so that a page never refers to a file that is gone; everything \
               else may be kept for five minutes, in which a client does not see a change. With \
               `off`, the field is not sent, and clients guess. A rule of `[[site.header]]` \
               overrides all that: use one to make a directory `immutable` whose names change with \
               their contents.",
        source: "RFC 9111 section 5.2.2",
        ..Setting::ROW
    },
    Setting {
        key: "etag",
        task: Task::Routes,
        kind: Kind::OneOf {
            names: &[
                Word { name: "size-time", set: |s| s.routes.files.etag = EtagRule::SizeTime },
                Word { name: "inode", set: |s| s.routes.files.etag = EtagRule::Inode },
                Word { name: "off", set: |s| s.routes.files.etag = EtagRule::Off },
            ],
        },
        default: Some("size-time"),
        doc: "What the `ETag` of a file is made of",
        more: "With `size-time`, the size and the time of the last modification in nanoseconds: \
               servers whose files were copied with their times (`rsync -t`, `cp -p`) give the \
               same tag, so that a client may go on with a download at another of them. A file \
               whose time is before 1981, as packers set it, or less than two seconds ago, has the \
               tag of `inode`. With `inode`, it is the inode, the size and the times of \
               modification and change: each copy has another one, and so has a file that was \
               written again and given its old time. With `off`, there is none, and conditions are \
               by date.",
        source: "RFC 9110 section 8.8.3",
        ..Setting::ROW
    },
    Setting {
        key: "max-ranges",
        task: Task::Routes,
        kind: Kind::Integer {
            least: 1,
            most: RANGES_CAP,
            set: |s, n| s.routes.files.ranges_max = n as usize,
        },
        default: Some("256"),
        doc: "Most ranges of one request; of more, all are ignored",
        more: "Then the whole file is sent. A client that updates a file by its changed blocks \
               (zsync), or reads an archive by pieces, asks for many at once. Each range takes \
               about 400 bytes of memory until it is sent, so that an answer takes 100 KiB at most \
               by default. However many there are, they have to fit into `limit.head`.",
        source: "RFC 9110 section 14.2",
        ..Setting::ROW
    },
    Setting {
        key: "user-directories",
        task: Task::Routes,
        kind: Kind::Text {
            form: "the name of a directory such as public_html",
            valid: is_file_name,
            set: |s, name| s.routes.user_directories = Some(name.into()),
        },
        word: Some(Word { name: "off", set: |s| s.routes.user_directories = None }),
        default: Some("off"),
        doc: "Directory in the home of a user that `/~user` shows",
        more: "The server looks up users and directories when it starts, with the rights of the \
               workers' user; directories that it cannot enter are not shown. Links are followed \
               according to `symlinks`, with that directory as the root.",
        source: "S3 section 3.1, M112",
        ..Setting::ROW
    },
    Setting {
        key: "user-table",
        task: Task::Routes,
        kind: Kind::Path { set: |s, path| s.routes.user_table = path },
        default: Some("/etc/passwd"),
        doc: "Table of users for `user-directories`",
        source: "passwd(5)",
        ..Setting::ROW
    },
    Setting {
        key: "user-id-min",
        task: Task::Routes,
        kind: Kind::Integer {
            least: 0,
            most: u32::MAX as u64,
            set: |s, id| s.routes.user_id_min = id as u32,
        },
        default: Some("1000"),
        doc: "Least user number that `/~user` shows",
        more: "Lower ones belong to the system.",
        source: "UID_MIN in login.defs(5)",
        ..Setting::ROW
    },
];

/// The tables that may come more than once.
pub(super) const TABLES: &[Table<SiteSettings>] = &[
    Table {
        key: "redirect",
        doc: "Paths that are redirected",
        more: "An exact path wins over a prefix, the longest prefix over shorter ones, and a \
               prefix over patterns, of which the first counts. The query is kept unless `to` has \
               one.",
        begin: |s| s.routes.redirects.push(RedirectSettings::default()),
        settings: REDIRECT,
    },
    Table {
        key: "return",
        doc: "Paths that are answered with a fixed status",
        more: "Asked before anything is looked for, before redirects, modules and backends, and of \
               the URL of whatever a rewrite, an index, a fallback or the like leads to, and of a \
               directory that is asked for without its slash. The first table that fits counts. \
               Uploads are no scripts with `return = [{ match = \
               '~^/uploads/.*\\.php$' }]`.",
        begin: |s| s.routes.returns.push(ReturnSettings::default()),
        settings: RETURN,
    },
    Table {
        key: "rewrite",
        doc: "Paths that are looked up as another path",
        more: "Which rule counts is decided as for a redirect, and again for what comes of it, \
               ten times at most. Redirects come first. Who may read is decided by the path that \
               is asked for, and no rewrite leads to what is closed to others. With `if = \
               \"no-file\"`, it holds only where no file is.",
        begin: |s| s.routes.rewrites.push(RewriteSettings::default()),
        settings: REWRITE,
    },
    Table {
        key: "header",
        doc: "Header fields of answers, by path and media type",
        more: "All rules that match count, in their order: a later one changes what an earlier one \
               did. They hold for errors too, but for `Cache-Control` and `Expires`: an error must \
               not be kept as long as what it stands for. What is refused before any site is \
               asked, such as 400, 414 or 417, has none of them.",
        begin: |s| s.routes.headers.push(HeaderSettings::default()),
        settings: HEADER,
    },
    Table {
        key: "type",
        doc: "Media types of files by path",
        more: "For files whose names do not say it, and for directories whose files are all to be \
               sent as one type. The path is the URL of the file, whatever path has led to it; of \
               several that fit, the one counts that would for a redirect. It comes before \
               `types`, and changes nothing in who may have a file or what answers for it.",
        begin: |s| s.routes.types.push(TypeSettings::default()),
        settings: TYPE,
    },
    Table {
        key: "alias",
        doc: "Paths whose files are in a directory of their own",
        more: "The longest path counts.",
        begin: |s| s.routes.aliases.push(AliasSettings::default()),
        settings: ALIAS,
    },
];

const REDIRECT: &[Setting<SiteSettings>] = &[
    Setting {
        key: "from",
        kind: Kind::Text {
            form: PATTERN,
            valid: routes::is_pattern,
            set: |s, text| redirect(s).from = text,
        },
        default: None,
        doc: "The paths: exact, with `/*` for all beneath, or `~` and an expression",
        more: "It is compared with the path decoded and normalised. A regular expression finds \
               any part of the path unless it has `^` and `$`.",
        ..Setting::ROW
    },
    Setting {
        key: "to",
        kind: Kind::Text {
            form: "a path or URL such as /new/$1 or https://example.org/$1",
            valid: routes::is_target,
            set: |s, text| redirect(s).to = text,
        },
        default: None,
        doc: "Target; `$1` is what the star or the first group matched",
        more: "`$1` to `$9` are the groups, `$0` is the whole path, `$$` is a dollar sign. None \
               can stand in the host. `$host` is the host that was asked for, without its port: \
               `https://www.$host/$1`. A request that names none, or one that is no name, is 400.",
        source: "RFC 9110 section 10.2.2",
        ..Setting::ROW
    },
    Setting {
        key: "status",
        kind: Kind::Among {
            numbers: &[301, 302, 303, 307, 308],
            set: |s, status| redirect(s).status = status as u16,
        },
        default: Some("302"),
        doc: "The status; 301 and 308 are kept by clients for good",
        source: "RFC 9110 section 15.4",
        ..Setting::ROW
    },
];

const RETURN: &[Setting<SiteSettings>] = &[
    path_rows::path(
        "an absolute path without `*`, such as /data",
        |s, path| returned(s).path = Some(path),
        |s| returned(s).path = None,
    ),
    Setting {
        more: "A script is meant with all that follows its name: `~\\.php$` fits `/a.php/more`.",
        ..path_rows::pattern(
            |s, text| returned(s).pattern = Some(text),
            |s| returned(s).pattern = None,
        )
    },
    Setting {
        key: "status",
        kind: Kind::Among {
            numbers: &[403, 404, 410],
            set: |s, status| returned(s).status = status as u16,
        },
        default: Some("403"),
        doc: "The status; to GET and HEAD, 404 looks as if nothing were there",
        source: "RFC 9110 section 15.5",
        ..Setting::ROW
    },
];

const REWRITE: &[Setting<SiteSettings>] = &[
    Setting {
        key: "from",
        kind: Kind::Text {
            form: PATTERN,
            valid: routes::is_pattern,
            set: |s, text| rewrite(s).from = text,
        },
        default: None,
        doc: "The paths, as of a redirect",
        ..Setting::ROW
    },
    Setting {
        key: "to",
        kind: Kind::Text {
            form: "a path such as /new/$1 or /index.php?id=$1",
            valid: routes::is_path_target,
            set: |s, text| rewrite(s).to = text,
        },
        default: None,
        doc: "Path that is looked up, with groups as of a redirect",
        more: "It may have a query, for programs: the query of the client follows it, behind `&`. \
               They find the path that was asked for in `REQUEST_URI`.",
        ..Setting::ROW
    },
    Setting {
        key: "if",
        kind: Kind::OneOf {
            names: &[
                Word { name: "always", set: |s| rewrite(s).holds = Holds::Always },
                Word { name: "no-file", set: |s| rewrite(s).holds = Holds::NoFile },
            ],
        },
        default: Some("always"),
        doc: "When the rule holds",
        more: "With `no-file`, it holds where the path, after all rules that always hold, names \
               neither a file nor a directory that is shown. It comes before `fallback`, counts \
               once, and then the rules that always hold count again.",
        ..Setting::ROW
    },
];

const HEADER: &[Setting<SiteSettings>] = &[
    Setting {
        key: "path",
        kind: Kind::Text {
            form: PATTERN,
            valid: routes::is_pattern,
            set: |s, text| header(s).path = text,
        },
        default: Some("/*"),
        doc: "The paths, as of a redirect; as they are asked for, before rewrites",
        ..Setting::ROW
    },
    Setting {
        key: "type",
        kind: Kind::Text {
            form: "a media type such as text/html or image/*",
            valid: routes::is_media_range,
            set: |s, text| header(s).media_type = Some(text.to_ascii_lowercase()),
        },
        word: Some(Word { name: "any", set: |s| header(s).media_type = None }),
        default: Some("any"),
        doc: "The media type of the answer",
        ..Setting::ROW
    },
    Setting {
        key: "set",
        kind: Kind::Fields { set: |s, fields| header(s).set.extend(fields) },
        word: Some(Word { name: "none", set: |s| header(s).set.clear() }),
        default: Some("none"),
        doc: "Fields that replace those of the same name",
        ..Setting::ROW
    },
    Setting {
        key: "add",
        kind: Kind::Fields { set: |s, fields| header(s).add.extend(fields) },
        word: Some(Word { name: "none", set: |s| header(s).add.clear() }),
        default: Some("none"),
        doc: "Fields that are added to those of the same name",
        ..Setting::ROW
    },
    Setting {
        key: "remove",
        kind: Kind::Texts {
            form: "the name of a field",
            empty: true,
            valid: is_token,
            set: |s, names| header(s).remove = names,
        },
        word: Some(Word { name: "none", set: |s| header(s).remove.clear() }),
        default: Some("none"),
        doc: "Names of fields that are removed",
        ..Setting::ROW
    },
];

const TYPE: &[Setting<SiteSettings>] = &[
    Setting {
        key: "path",
        kind: Kind::Text {
            form: PATTERN,
            valid: routes::is_pattern,
            set: |s, text| file_type(s).path = text,
        },
        default: None,
        doc: "The URLs of files, as of a redirect",
        more: r"Files without an extension are those of `~/[^./]+$`.",
        ..Setting::ROW
    },
    Setting {
        key: "type",
        kind: Kind::Text {
            form: "a media type such as text/plain",
            valid: is_media_type,
            set: |s, text| file_type(s).media_type = text,
        },
        default: None,
        doc: "The media type; a textual one gets the `charset`",
        source: "RFC 9110 section 8.3",
        ..Setting::ROW
    },
];

const ALIAS: &[Setting<SiteSettings>] = &[
    Setting {
        key: "path",
        kind: Kind::Text {
            form: "an absolute path such as /docs",
            valid: is_url_path,
            set: |s, text| alias(s).path = text,
        },
        default: None,
        doc: "The path; the table covers it and all beneath it",
        ..Setting::ROW
    },
    Setting {
        key: "root",
        kind: Kind::Path { set: |s, path| alias(s).root = path },
        default: None,
        doc: "Directory that is served there",
        ..Setting::ROW
    },
];

/// What is filled has been begun.
const BEGUN: &str = "a key comes after its table was begun";

fn redirect(site: &mut SiteSettings) -> &mut RedirectSettings {
    site.routes.redirects.last_mut().expect(BEGUN)
}

fn returned(site: &mut SiteSettings) -> &mut ReturnSettings {
    site.routes.returns.last_mut().expect(BEGUN)
}

fn rewrite(site: &mut SiteSettings) -> &mut RewriteSettings {
    site.routes.rewrites.last_mut().expect(BEGUN)
}

fn header(site: &mut SiteSettings) -> &mut HeaderSettings {
    site.routes.headers.last_mut().expect(BEGUN)
}

fn file_type(site: &mut SiteSettings) -> &mut TypeSettings {
    site.routes.types.last_mut().expect(BEGUN)
}

fn alias(site: &mut SiteSettings) -> &mut AliasSettings {
    site.routes.aliases.last_mut().expect(BEGUN)
}

const _: () = assert!(LANGUAGES_MAX == 16, "the text of `languages` names the bound");
