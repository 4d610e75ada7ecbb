//! The files that a log tells of: how large each is, and what it refers to.

use std::hash::BuildHasher;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use flyball_sys::file::{self, Kind, Links};
use hashbrown::{DefaultHashBuilder, HashMap};

use super::line::Entry;
use crate::cache_settings::Hints;
use crate::mime::Types;
use crate::path::{self, Mapped};
use crate::policy::Class;
use crate::references::{self, Language, OBJECTS_MAX, SCAN_BYTES_MAX};

/// Most files that are told apart; requests for further ones are left out.
const FILES_MAX: usize = 1 << 24;

/// Most hosts that are looked for beneath the root: as many as a server has sites by
/// `root = "/srv/$host"`.
const HOSTS_MAX: usize = 10_000;

/// What is asked for when the path of a directory is.
const INDEX: &[u8] = b"index.html";

/// One file.
#[derive(Debug)]
pub(super) struct File {
    /// What the caches know it by.
    pub(super) id: u64,
    /// Bytes of its name and of its body, if that is known.
    pub(super) name_len: usize,
    pub(super) size: Option<u64>,
    /// What hints say of it; `None` when it is never held.
    pub(super) class: Option<Class>,
    /// Whether it may refer to others, which must not be pages themselves to be its objects.
    language: Option<Language>,
    pub(super) objects: Vec<u32>,
    /// The same by what the caches know them by.
    pub(super) object_ids: Vec<u64>,
}

/// All of them, by their sites and their names relative to the root of a site. Hosts are sites of
/// their own, and with a root those that have a directory of their name there.
#[derive(Debug)]
pub(super) struct Catalogue {
    root: Option<OwnedFd>,
    types: Types,
    hints: Hints,
    hasher: DefaultHashBuilder,
    by_name: HashMap<Vec<u8>, u32>,
    /// Whether a host has a directory beneath the root.
    hosts: HashMap<Vec<u8>, bool>,
    files: Vec<File>,
}

impl Catalogue {
    /// With the files beneath this directory, if there is one; its files are looked at as the log
    /// tells of them.
    pub(super) fn new(root: Option<&Path>, hints: Hints) -> io::Result<Catalogue> {
        Ok(Catalogue {
            root: root.map(file::open_root).transpose()?,
            types: Types::new(&[], ""),
            hints,
            hasher: DefaultHashBuilder::default(),
            by_name: HashMap::new(),
            hosts: HashMap::new(),
            files: Vec::new(),
        })
    }

    pub(super) fn file(&self, index: u32) -> &File {
        &self.files[index as usize]
    }

    pub(super) fn files(&self) -> &[File] {
        &self.files
    }

    /// True when some file is known to refer to others.
    pub(super) fn has_objects(&self) -> bool {
        self.files.iter().any(|file| !file.objects.is_empty())
    }

    /// The file of a request; `None` when its path can name none, or there are too many. What the
    /// log tells of its size, and of who refers to it, is taken down.
    pub(super) fn note(&mut self, entry: &Entry) -> Option<u32> {
        let name = name_of(&entry.path)?;
        let site = self.site_of(&entry.host);
        let index = self.find_or_add(&site, &name)?;
        let file = &mut self.files[index as usize];
        match (self.root.is_some() && file.size.is_some(), entry.status, entry.bytes) {
            (false, 200, Some(bytes)) => {
                // One that is shorter than another was broken off.
                file.size = Some(file.size.unwrap_or(0).max(bytes));
            }
            _ if file.size.is_none() => return None,
            _ => {}
        }
        if self.root.is_none()
            && let Some(page) = entry.referer.as_deref().and_then(name_of)
            && let Some(page) = self.find_or_add(&site, &page)
        {
            self.add_object(page, index);
        }
        Some(index)
    }

    /// The site of a host: empty where that has none of its own.
    fn site_of(&mut self, host: &[u8]) -> Vec<u8> {
        let Some(root) = &self.root else { return host.to_vec() };
        if let Some(is_there) = self.hosts.get(host) {
            return if *is_there { host.to_vec() } else { Vec::new() };
        }
        let is_name = !host.is_empty() && !host.starts_with(b".") && !host.contains(&b'/');
        let is_directory = || {
            let directory = file::open_beneath(root, host, Links::Beneath).ok()?;
            Some(file::stamp(&directory).ok()?.kind == Kind::Directory)
        };
        let is_there = is_name && is_directory() == Some(true);
        if self.hosts.len() >= HOSTS_MAX {
            return Vec::new();
        }
        self.hosts.insert(host.to_vec(), is_there);
        if is_there { host.to_vec() } else { Vec::new() }
    }

    /// The file of this name; one that is new is added with all that it leads to.
    fn find_or_add(&mut self, site: &[u8], name: &[u8]) -> Option<u32> {
        if let Some(index) = self.by_name.get(&key(site, name)) {
            return Some(*index);
        }
        let index = self.add(site, name)?;
        let mut unread = vec![(index, name.to_vec())];
        while let Some((page, name)) = unread.pop() {
            for object in self.read(page, site, &name) {
                let known = self.by_name.get(&key(site, &object)).copied();
                let Some(index) = known.or_else(|| self.add(site, &object)) else { continue };
                if known.is_none() {
                    unread.push((index, object));
                }
                self.add_object(page, index);
            }
        }
        Some(index)
    }

    fn add(&mut self, site: &[u8], name: &[u8]) -> Option<u32> {
        if self.files.len() >= FILES_MAX {
            return None;
        }
        let index = self.files.len() as u32;
        let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
        let key = key(site, name);
        self.files.push(File {
            id: self.hasher.hash_one(&key),
            name_len: name.len(),
            size: self.root.as_ref().and_then(|root| Some(open(root, site, name)?.1)),
            class: self.hints.class_of(name),
            language: Language::of_media_type(&self.types.of(last)),
            objects: Vec::new(),
            object_ids: Vec::new(),
        });
        self.by_name.insert(key, index);
        Some(index)
    }

    /// What a page beneath the root refers to.
    fn read(&self, page: u32, site: &[u8], name: &[u8]) -> Vec<Vec<u8>> {
        let page = self.root.as_ref().zip(self.file(page).language).and_then(|(root, language)| {
            let (file, size) = open(root, site, name)?;
            let mut page = vec![0; SCAN_BYTES_MAX.min(size as usize)];
            let mut filled = 0;
            while let Ok(read @ 1..) = file::read_at(&file, &mut page[filled..], filled as u64) {
                filled += read;
            }
            page.truncate(filled);
            Some((language, page))
        });
        let path = [b"/", name].concat();
        page.map_or(Vec::new(), |(language, page)| references::references(language, &page, &path))
    }

    fn add_object(&mut self, page: u32, object: u32) {
        let (id, is_page) = {
            let object = self.file(object);
            (object.id, object.language == Some(Language::Html))
        };
        let page_of = &mut self.files[page as usize];
        let is_new = page != object && !page_of.objects.contains(&object);
        if is_new && !is_page && page_of.language.is_some() && page_of.objects.len() < OBJECTS_MAX {
            page_of.objects.push(object);
            page_of.object_ids.push(id);
        }
    }
}

/// The name of the file that a path leads to, as far as the path alone tells.
fn name_of(path: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    match path::map(path, true, &mut name).ok()? {
        Mapped::File => Some(name),
        Mapped::Directory if name == b"." => Some(INDEX.to_vec()),
        Mapped::Directory => Some([&name, &b"/"[..], INDEX].concat()),
    }
}

/// What a file is found by: no name has a zero byte.
fn key(site: &[u8], name: &[u8]) -> Vec<u8> {
    [site, b"\0", name].concat()
}

/// A regular file of a site, and its size.
fn open(root: &OwnedFd, site: &[u8], name: &[u8]) -> Option<(OwnedFd, u64)> {
    let beneath = [site, b"/", name].concat();
    let name = if site.is_empty() { name } else { &beneath };
    let file = file::open_beneath(root, name, Links::Beneath).ok()?;
    let stamp = file::stamp(&file).ok().filter(|stamp| stamp.kind == Kind::Regular)?;
    Some((file, stamp.size))
}
