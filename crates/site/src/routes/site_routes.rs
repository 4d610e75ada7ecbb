//! The routes of one site as they are asked: from a request to where to look for its file.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_http::coding::Class;
use flyball_http::{Fields, Name, Request, Status};
use flyball_sys::file::{self, Failure, Links};
use flyball_sys::node::node;
use flyball_sys::sandbox::Rights;

use crate::path::{self, Mapped, PathError};
use crate::variant;

use super::fields::{FieldRules, RuleSet};
use super::images::Images;
use super::language::Preferences;
use super::neighbours::Neighbours;
use super::opening::{self, or_before};
use super::pattern::{Pattern, write_canonical};
use super::perfect_hash::PerfectHash;
use super::redirects::Redirects;
use super::returns::Returns;
use super::rewrites::{Rewrites, Rewritten};
use super::settings::RouteSettings;
use super::target::Sent;
use super::types::TypeRules;
use super::users::{USER_TABLE_BYTES_MAX, User, users};

/// Most directories of users that are held open; each costs a descriptor.
const USER_DIRECTORIES_MAX: usize = 4_096;

/// What becomes of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// It is sent elsewhere, by the rule of this number.
    Redirect(u32),
    /// It is refused.
    Refuse(Status),
    /// A file is looked for.
    File(Led),
}

/// Where a path has led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Led {
    /// Where a file is looked for.
    pub(crate) place: Place,
    /// The query of a rule, which comes before the one that was sent.
    pub(crate) query: Option<Vec<u8>>,
    /// Whether a rule leads on where no file is.
    pub(crate) leads_on: bool,
}

/// Where a file is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of the root: 0 is that of the site.
    pub(crate) root: u16,
    /// The path beneath it.
    pub(crate) path: Vec<u8>,
    /// What its form asks for.
    pub(crate) mapped: Mapped,
}

/// A directory beneath which files are looked for.
#[derive(Clone, Debug)]
struct Root {
    directory: Arc<OwnedFd>,
    name: PathBuf,
    /// The path that leads there, without a closing slash; `None` where no path does.
    url: Option<Box<str>>,
    /// It is a user's, or a host's, and not named by the settings.
    is_others: bool,
}

/// What users show.
struct UserRoots {
    by_name: PerfectHash<u16>,
    /// Users who have a directory that is closed to the workers' user.
    closed: Vec<String>,
    roots: Vec<Root>,
}

/// What is opened for a site.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    /// Its own root, if it has one.
    pub(crate) root: Option<&'a Path>,
    /// Whether it has nothing to serve without one.
    pub(crate) needs_root: bool,
    /// Directories of which backends may have files sent.
    pub(crate) sendfile_roots: Vec<&'a PathBuf>,
    /// Whether names that begin with a dot are served.
    pub(crate) hidden: bool,
    pub(crate) routes: &'a RouteSettings,
}

/// The routes of a site.
#[derive(Clone, Debug)]
pub(crate) struct SiteRoutes {
    rules: Arc<Rules>,
    /// All roots; the first is that of the site. There are none where no file is served.
    roots: Vec<Root>,
}

/// What is said of paths, wherever the first root is.
#[derive(Debug)]
struct Rules {
    hidden: bool,
    returns: Returns,
    redirects: Redirects,
    rewrites: Rewrites,
    fields: FieldRules,
    types: TypeRules,
    /// Canonical paths without a closing slash and their roots, the longest first.
    aliases: Vec<(String, u16)>,
    users: Option<PerfectHash<u16>>,
    /// Users who have a directory that is closed to the workers' user.
    closed_users: Vec<String>,
    /// Directories of which backends may have files sent, which no path leads to.
    sent: Vec<(PathBuf, u16)>,
    languages: Arc<[String]>,
    images: bool,
    /// Whether a path is only mapped and looked for, if there is a root.
    is_plain: bool,
}

impl SiteRoutes {
    /// Opens the roots of a site by these rights, and reads what its routes need. What cannot be
    /// opened is what it was, if it was open before; why is told, but of a root, of which the
    /// master tells. Blocks on the disk.
    ///
    /// # Errors
    /// What cannot be opened or read, and why.
    pub(crate) fn open(
        site: Asked<'_>,
        links: Links,
        rights: &Rights,
        (was, kept): (Option<&SiteRoutes>, &mut Vec<String>),
    ) -> io::Result<SiteRoutes> {
        let routes = site.routes;
        let open = |name: &Path, url| Root::open(name, url, rights, was);
        let root = site.root.map(|root| open(root, Some("")));
        let mut roots: Vec<Root> = root.into_iter().collect::<io::Result<_>>()?;
        if roots.is_empty() && site.needs_root {
            return Err(io::Error::other("site.root: is missing: the directory that is served"));
        }
        let mut aliases = Vec::new();
        for alias in &routes.aliases {
            let path = alias.path.trim_end_matches('/');
            aliases.push((path.to_owned(), roots.len() as u16));
            roots.push(open(&alias.root, Some(path))?);
        }
        aliases.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        let (mut closed_users, mut users) = (Vec::new(), None);
        if let Some(directory) = &routes.user_directories {
            let opened = UserRoots::open(routes, directory, links, (rights, roots.len()));
            let opened = or_before(opened, || was?.user_roots(), kept)?;
            (closed_users, users) = (opened.closed, Some(opened.by_name));
            roots.extend(opened.roots);
        }
        let patterns: Vec<Pattern> =
            routes.headers.iter().filter_map(|rule| Pattern::parse(&rule.path).ok()).collect();
        let mut sent = Vec::new();
        for root in site.sendfile_roots {
            sent.push((root.clone(), roots.len() as u16));
            roots.push(open(root, None)?);
        }
        let rules = Rules {
            hidden: site.hidden,
            sent,
            returns: Returns::new(&routes.returns),
            redirects: Redirects::new(&routes.redirects),
            rewrites: Rewrites::new(&routes.rewrites),
            fields: FieldRules::new(&routes.headers, &patterns),
            types: TypeRules::new(&routes.types),
            is_plain: routes.returns.is_empty()
                && routes.redirects.is_empty()
                && routes.rewrites.is_empty()
                && aliases.is_empty()
                && users.is_none(),
            aliases,
            users,
            closed_users,
            languages: routes.languages.clone().into(),
            images: routes.image_neighbours,
        };
        Ok(SiteRoutes { rules: Arc::new(rules), roots })
    }

    /// The same for a host: its root is the directory of this name beneath the first root. What is
    /// beneath the host's own directory is found from there: its owner decides about links in it,
    /// and they lead to no other host. One that is open already takes no other descriptor. Blocks
    /// on the disk.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(crate) fn of_host(
        &self,
        root: &Path,
        links: Links,
        rights: &Rights,
        was: Option<&Arc<OwnedFd>>,
    ) -> io::Result<SiteRoutes> {
        let Some((base, others)) = self.roots.split_first() else {
            return Err(io::Error::other("site.root: is missing"));
        };
        let name = root.strip_prefix(&base.name).unwrap_or(root);
        let mut parts = name.components();
        let host = Path::new(parts.next().map_or("".as_ref(), |host| host.as_os_str()));
        let beneath = parts.as_path();
        let opened = rights.hold(|| {
            let own = file::open_directory(&*base.directory, host, links)?;
            match beneath.as_os_str().is_empty() {
                true => Ok(own),
                false => file::open_directory(&own, beneath, links),
            }
        })?;
        let is_same = |was: &&Arc<OwnedFd>| node(was).ok() == node(&opened).ok();
        let directory = match was.filter(is_same) {
            Some(was) => Arc::clone(was),
            None => Arc::new(opened),
        };
        let (name, url) = (root.to_owned(), Some("".into()));
        let first = Root { directory, name, url, is_others: true };
        let roots = [first].into_iter().chain(others.iter().cloned()).collect();
        Ok(SiteRoutes { rules: Arc::clone(&self.rules), roots })
    }

    /// The first root, which is that of the site.
    pub(crate) fn first_root(&self) -> Option<(&Path, &Arc<OwnedFd>)> {
        self.roots.first().map(|root| (&*root.name, &root.directory))
    }

    /// The same for a host whose directory is not there: no path leads to a file.
    pub(crate) fn without_files(&self) -> SiteRoutes {
        SiteRoutes { rules: Arc::clone(&self.rules), roots: Vec::new() }
    }

    /// What users show, to be shown at the same numbers.
    fn user_roots(&self) -> Option<UserRoots> {
        let roots = self.roots.iter().filter(|root| root.is_others).cloned().collect();
        Some(UserRoots {
            by_name: self.rules.users.clone()?,
            closed: self.rules.closed_users.clone(),
            roots,
        })
    }

    /// All roots; the first is that of the site.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &OwnedFd> {
        self.roots.iter().map(|root| &*root.directory)
    }

    /// The roots that the settings name, by these names.
    pub(crate) fn named_roots(&self) -> impl Iterator<Item = (&Path, &OwnedFd)> {
        let named = self.roots.iter().filter(|root| !root.is_others);
        named.map(|root| (&*root.name, &*root.directory))
    }

    /// The roots that the settings name and that paths lead to: their names, and these paths
    /// without a closing slash.
    pub(crate) fn shown_roots(&self) -> impl Iterator<Item = (&Path, &str)> {
        let named = self.roots.iter().filter(|root| !root.is_others);
        named.filter_map(|root| Some((&*root.name, root.url.as_deref()?)))
    }

    /// Users who have a directory that is closed to the workers' user: it is not shown.
    pub(crate) fn closed_users(&self) -> &[String] {
        &self.rules.closed_users
    }

    /// The number of a directory of which backends may have files sent.
    pub(crate) fn sent_from(&self, root: &Path) -> Option<u16> {
        self.rules.sent.iter().find(|(path, _)| path == root).map(|(_, number)| *number)
    }

    /// A root by its number.
    pub(crate) fn root(&self, number: u16) -> Arc<OwnedFd> {
        Arc::clone(&self.roots[usize::from(number).min(self.roots.len() - 1)].directory)
    }

    /// The URL of what has this name beneath a root: decoded, with its leading slash. `None` where
    /// no path leads to the root.
    pub(crate) fn url_of(&self, root: u16, name: &[u8]) -> Option<Vec<u8>> {
        let prefix = self.roots.get(usize::from(root))?.url.as_deref()?.as_bytes();
        let name = if name == b"." { &b""[..] } else { name };
        Some([prefix, b"/", name].concat())
    }

    /// The file that a canonical URL names: the directory of its root, and the rest of its name,
    /// which is empty or begins with a slash.
    pub(crate) fn file_of<'a>(&'a self, url: &'a [u8]) -> (&'a Path, &'a [u8]) {
        let (root, below) = self.root_of(url);
        (&self.roots[usize::from(root)].name, below)
    }

    /// Where the file of a canonical path is looked for.
    pub(crate) fn place_of(&self, url: &[u8]) -> Place {
        let (root, below) = self.root_of(url);
        let (below, mapped) = match below.strip_suffix(b"/") {
            Some(below) => (below, Mapped::Directory),
            None if below.is_empty() && root == 0 => (below, Mapped::Directory),
            None => (below, Mapped::File),
        };
        let below = below.strip_prefix(b"/").unwrap_or(below);
        let path = if below.is_empty() { b"." } else { below };
        Place { root, path: path.to_vec(), mapped }
    }

    /// Whether the rules for hidden names keep a URL from being answered.
    pub(crate) fn hides(&self, url: &[u8]) -> bool {
        !self.rules.hidden && path::has_hidden_segment(url.strip_prefix(b"/").unwrap_or(url))
    }

    /// The statuses that answer for URLs whatever is there.
    pub(crate) fn returns(&self) -> &Returns {
        &self.rules.returns
    }

    /// Whether any path leads to a file.
    pub(crate) fn has_files(&self) -> bool {
        !self.roots.is_empty()
    }

    /// Whether a path always leads to the file of its own name.
    pub(crate) fn is_plain(&self) -> bool {
        self.rules.is_plain && self.has_files()
    }

    /// What becomes of the path of a request. `relative` is scratch.
    pub(crate) fn route(&self, path: &[u8], relative: &mut Vec<u8>) -> Route {
        if self.is_plain() {
            return match path::map(path, self.rules.hidden, relative) {
                Ok(mapped) => {
                    let place = Place { root: 0, path: relative.clone(), mapped };
                    Route::File(Led { place, query: None, leads_on: false })
                }
                Err(error) => refused(error),
            };
        }
        // A name that is hidden may still be sent elsewhere.
        let asked = match canonical(path, relative) {
            Ok(asked) => asked,
            Err(error) => return refused(error),
        };
        if let Some(rule) = self.rules.redirects.of(&asked) {
            return Route::Redirect(rule);
        }
        if !self.has_files() {
            return Route::Refuse(Status::NOT_FOUND);
        }
        let Ok(Rewritten { path, query }) = self.rules.rewrites.apply(asked) else {
            return Route::Refuse(Status::INTERNAL_SERVER_ERROR);
        };
        let leads_on = self.rules.rewrites.lead_on(&path);
        Route::File(Led { place: self.place_of(&path), query, leads_on })
    }

    /// Where the path of a request leads when no file is where it has led first; `None` when no
    /// rule says so, or when that has no end.
    pub(crate) fn otherwise(&self, path: &[u8]) -> Option<Led> {
        let asked = canonical(path, &mut Vec::new()).ok()?;
        let first = self.rules.rewrites.apply(asked).ok()?;
        let Rewritten { path, query } = self.rules.rewrites.otherwise(&first).ok()??;
        Some(Led { place: self.place_of(&path), query, leads_on: false })
    }

    /// The root of a canonical path, and what is left of it: empty, or with a slash at its start.
    fn root_of<'a>(&self, asked: &'a [u8]) -> (u16, &'a [u8]) {
        if let (Some(users), Some(name)) = (&self.rules.users, asked.strip_prefix(b"/~")) {
            let end = memchr::memchr(b'/', name).unwrap_or(name.len());
            let user = std::str::from_utf8(&name[..end]).unwrap_or_default();
            if let Some(&root) = users.get(user) {
                return (root, &name[end..]);
            }
        }
        let below = |alias: &str| {
            let rest = asked.strip_prefix(alias.as_bytes());
            rest.filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        let alias = self.rules.aliases.iter().find_map(|(path, root)| Some((*root, below(path)?)));
        alias.unwrap_or((0, asked))
    }

    /// Appends where a redirect sends a request, and tells its status.
    pub(crate) fn location(
        &self,
        rule: u32,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Status> {
        let path = canonical(request.path(), &mut Vec::new()).ok()?;
        let sent = Sent { path: &path, query: request.query(), host: request.host() };
        let status = self.rules.redirects.location(rule, &sent, out)?;
        Status::ALL.iter().copied().find(|known| known.code() == status)
    }

    /// The media type that a rule gives the file of this name beneath a root, whatever path has led
    /// there.
    pub(crate) fn media_type(&self, root: u16, name: &[u8]) -> Option<&str> {
        if self.rules.types.is_empty() {
            return None;
        }
        self.rules.types.of(&self.url_of(root, name)?)
    }

    /// The rules for fields that hold for the answer to a request.
    pub(crate) fn rules(&self, request: &Request<'_>) -> RuleSet {
        if self.rules.fields.is_empty() {
            return RuleSet::default();
        }
        let is_secure = request.is_secure();
        match canonical(request.path(), &mut Vec::new()) {
            Ok(path) => self.rules.fields.of(&path, is_secure),
            // What is no path gets the fields that all paths get.
            Err(_) => self.rules.fields.of(b"/", is_secure),
        }
    }

    /// Changes `fields`, lines with their CRLF, by rules.
    pub(crate) fn amend(&self, set: &RuleSet, media_type: &str, error: bool, fields: &mut Fields) {
        self.rules.fields.amend(set, media_type, error, fields);
    }

    /// A small number for what of a request's preferences this site looks at: requests of one class
    /// get the same answers. Always 0 where nothing is negotiated.
    pub(crate) fn class(&self, request: &Request<'_>) -> u32 {
        let languages = match self.rules.languages.is_empty() {
            true => 0,
            false => self.preferences(request).code(),
        };
        let images = if self.rules.images { accepted_images(request).code() } else { 0 };
        (languages << super::images::CODE_BITS | images) as u32
    }

    /// What a request accepts of neighbours.
    pub(crate) fn neighbours(&self, request: &Request<'_>) -> Neighbours {
        Neighbours {
            languages: Arc::clone(&self.rules.languages),
            preferences: self.preferences(request),
            images: self.rules.images.then(|| accepted_images(request)),
            gzip_only: false,
        }
    }

    fn preferences(&self, request: &Request<'_>) -> Preferences {
        if self.rules.languages.is_empty() {
            return Preferences::default();
        }
        Preferences::of(request.values(Name::AcceptLanguage), &self.rules.languages)
    }

    /// The languages of the site.
    pub(crate) fn languages(&self) -> &[String] {
        &self.rules.languages
    }
}

/// Bits of [`SiteRoutes::class`].
const CLASS_BITS: u32 = Preferences::CODE_BITS + super::images::CODE_BITS;

const _: () = assert!(CLASS_BITS + Class::BITS <= variant::CLASS_BITS);

fn accepted_images(request: &Request<'_>) -> Images {
    Images::of(request.values(Name::Accept))
}

/// The canonical form of the path of a request.
pub(crate) fn canonical(path: &[u8], relative: &mut Vec<u8>) -> Result<Vec<u8>, PathError> {
    let mapped = path::map(path, true, relative)?;
    let mut canonical = Vec::with_capacity(relative.len() + 2);
    write_canonical(relative, mapped, &mut canonical);
    Ok(canonical)
}

fn refused(error: PathError) -> Route {
    Route::Refuse(match error {
        PathError::Malformed => Status::BAD_REQUEST,
        PathError::Hidden | PathError::TooLong => Status::NOT_FOUND,
    })
}

impl Root {
    fn open(
        name: &Path,
        url: Option<&str>,
        rights: &Rights,
        was: Option<&SiteRoutes>,
    ) -> io::Result<Root> {
        let directory = opening::directory(name, rights).map(Arc::new);
        let before = || was?.roots.iter().find(|root| !root.is_others && root.name == name);
        let directory = directory
            .or_else(|error| before().map(|root| Arc::clone(&root.directory)).ok_or(error))?;
        Ok(Root { directory, name: name.to_owned(), url: url.map(Into::into), is_others: false })
    }
}

/// The users of the table, which the administrator has chosen and may keep from others.
fn find_users(routes: &RouteSettings) -> io::Result<Vec<User>> {
    let path = &routes.user_table;
    let table =
        file::read_whole(path, USER_TABLE_BYTES_MAX).map_err(|error| opening::told(path, error))?;
    Ok(users(&String::from_utf8_lossy(&table), routes.user_id_min))
}

/// The directories that users may show, whether they are there or not; none where no site shows
/// any. Blocks on the disk.
///
/// # Errors
/// When the table of users cannot be read.
pub fn user_directories(routes: &RouteSettings) -> io::Result<Vec<PathBuf>> {
    let Some(directory) = &routes.user_directories else { return Ok(Vec::new()) };
    let found = find_users(routes)?;
    Ok(found.into_iter().map(|user| user.home.join(directory)).collect())
}

impl UserRoots {
    /// Opens the directories of users; the first is the root of the number `first`.
    fn open(
        routes: &RouteSettings,
        directory: &Path,
        links: Links,
        (rights, first): (&Rights, usize),
    ) -> io::Result<UserRoots> {
        let found = find_users(routes)?;
        let open = || Ok(open_users(found, directory, links));
        let (names, roots, closed) = rights.hold(open)?;
        let entries = names.into_iter().zip((first..).map(|number| number as u16)).collect();
        Ok(UserRoots { by_name: hashed(routes, entries)?, closed, roots })
    }
}

/// Opens the directories of all users that have one; those users and their roots, and the users
/// whose directory is closed. A user decides about nothing but what is shown of that user: whatever
/// fails is no error.
fn open_users(
    users: Vec<User>,
    directory: &Path,
    links: Links,
) -> (Vec<String>, Vec<Root>, Vec<String>) {
    let (mut names, mut roots, mut closed) = (Vec::new(), Vec::new(), Vec::new());
    for user in users {
        // One whose home keeps others out shows nothing, and need not have such a directory.
        let Ok(home) = file::open_root(&user.home) else { continue };
        let opened = match file::open_directory(&home, directory, links) {
            Ok(opened) => opened,
            Err(error) if file::failure(&error) == Failure::Denied => {
                closed.push(user.name);
                continue;
            }
            Err(_) => continue,
        };
        roots.push(Root {
            directory: Arc::new(opened),
            name: Path::new(&user.home).join(directory),
            url: Some(format!("/~{}", user.name).into()),
            is_others: true,
        });
        names.push(user.name);
        if names.len() > USER_DIRECTORIES_MAX {
            break;
        }
    }
    (names, roots, closed)
}

/// The users by name.
fn hashed(routes: &RouteSettings, entries: Vec<(String, u16)>) -> io::Result<PerfectHash<u16>> {
    let path = &routes.user_table;
    if entries.len() > USER_DIRECTORIES_MAX {
        let why = format!("more than {USER_DIRECTORIES_MAX} users have a directory");
        return Err(opening::told(path, why));
    }
    let hashed = PerfectHash::new(entries);
    hashed.ok_or_else(|| opening::told(path, "the names of its users are not hashed"))
}
