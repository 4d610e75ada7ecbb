//! What the routes of a site are made from, as the configuration has it.

use std::path::PathBuf;

use flyball_http::range::RANGES_MAX;

use crate::etag::EtagRule;

/// The routes of one site, as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSettings {
    /// Paths that are sent elsewhere.
    pub redirects: Vec<RedirectSettings>,
    /// Paths that are answered with a status whatever is there.
    pub returns: Vec<ReturnSettings>,
    /// Paths that are answered as if another had been asked for.
    pub rewrites: Vec<RewriteSettings>,
    /// Fields that answers carry besides.
    pub headers: Vec<HeaderSettings>,
    /// Media types of files by path.
    pub types: Vec<TypeSettings>,
    /// Paths whose files are in another directory.
    pub aliases: Vec<AliasSettings>,
    /// Pages of refusals, by status.
    pub error_pages: Vec<(u16, PathBuf)>,
    /// The path whose answer stands for whatever is not there.
    pub fallback: Option<String>,
    /// Whether `/about` also finds `about.html`.
    pub pretty_urls: bool,
    /// Languages of neighbours such as `index.html.de`, the default first.
    pub languages: Vec<String>,
    /// Whether `image.webp` may stand for `image.png`.
    pub image_neighbours: bool,
    /// The directory, beneath the home of a user, that `/~user` shows.
    pub user_directories: Option<PathBuf>,
    /// The table of users.
    pub user_table: PathBuf,
    /// Least number of a user that has such a directory.
    pub user_id_min: u32,
    /// How files answer.
    pub files: FileSettings,
}

/// How files answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// What answers say of how long they may be kept.
    pub cache_control: CacheControl,
    /// What entity tags are made of.
    pub etag: EtagRule,
    /// Most ranges of one request; where there are more, all are ignored.
    pub ranges_max: usize,
}

/// What answers say of how long they may be kept, where no rule does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheControl {
    /// That they are asked for again each time.
    #[default]
    Revalidate,
    /// That pages are asked for again each time, and all others after five minutes.
    Auto,
    /// Nothing.
    Off,
}

/// `[[site.redirect]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectSettings {
    /// The pattern of paths.
    pub from: String,
    /// Where they are sent.
    pub to: String,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// `[[site.return]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnSettings {
    /// The path; it and all beneath it are meant.
    pub path: Option<String>,
    /// Or the pattern of paths.
    pub pattern: Option<String>,
    /// 403, 404 or 410.
    pub status: u16,
}

/// `[[site.rewrite]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewriteSettings {
    /// The pattern of paths.
    pub from: String,
    /// The path that is looked for in their place, with a query if it has one.
    pub to: String,
    /// When it holds.
    pub holds: Holds,
}

/// When a rewrite holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holds {
    /// Whatever is there.
    #[default]
    Always,
    /// Where no file is.
    NoFile,
}

/// `[[site.header]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderSettings {
    /// The pattern of paths.
    pub path: String,
    /// The media type, `image/*` for all of a kind; `None` for every type.
    pub media_type: Option<String>,
    /// Whether answers get the fields only if their clients came by `https`.
    pub only_secure: bool,
    /// Fields that replace those of their name.
    pub set: Vec<(String, String)>,
    /// Fields that stand beside those of their name.
    pub add: Vec<(String, String)>,
    /// Names of fields that are left out.
    pub remove: Vec<String>,
}

/// `[[site.type]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeSettings {
    /// The pattern of the URLs of files.
    pub path: String,
    /// Their media type.
    pub media_type: String,
}

/// `[[site.alias]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AliasSettings {
    /// The path.
    pub path: String,
    /// The directory that is served there.
    pub root: PathBuf,
}

impl Default for RouteSettings {
    fn default() -> RouteSettings {
        RouteSettings {
            redirects: Vec::new(),
            returns: Vec::new(),
            rewrites: Vec::new(),
            headers: Vec::new(),
            types: Vec::new(),
            aliases: Vec::new(),
            error_pages: Vec::new(),
            fallback: None,
            pretty_urls: false,
            languages: Vec::new(),
            image_neighbours: false,
            user_directories: None,
            user_table: PathBuf::from("/etc/passwd"),
            user_id_min: 1_000,
            files: FileSettings::default(),
        }
    }
}

impl Default for FileSettings {
    fn default() -> FileSettings {
        let (cache_control, etag) = (CacheControl::default(), EtagRule::default());
        FileSettings { cache_control, etag, ranges_max: RANGES_MAX }
    }
}

impl Default for RedirectSettings {
    fn default() -> RedirectSettings {
        RedirectSettings { from: String::new(), to: String::new(), status: 302 }
    }
}

impl Default for ReturnSettings {
    fn default() -> ReturnSettings {
        ReturnSettings { path: None, pattern: None, status: 403 }
    }
}

impl Default for HeaderSettings {
    fn default() -> HeaderSettings {
        HeaderSettings {
            path: "/*".into(),
            media_type: None,
            only_secure: false,
            set: Vec::new(),
            add: Vec::new(),
            remove: Vec::new(),
        }
    }
}
