//! Sites are opened before the first fork: their roots, and all that is read for them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use flyball_sys::file;
use flyball_sys::sandbox::Rights;

use super::earlier::{Backends, Earlier};
use super::{Challenges, Host, Site, Sites, Transports, error_files, roots_of};
use crate::access::{Access, Tries, Users};
use crate::backend::Gates;
use crate::compress::{CodingPolicy, Load};
use crate::hosts::Hosts;
use crate::limits;
use crate::mime::Types;
use crate::modules::Modules;
use crate::routes::{ErrorPages, SiteRoutes, or_before, told};
use crate::secrets::{Secret, Secrets};
use crate::settings::SiteSettings;
use crate::spread::Spread;

impl Sites {
    /// Opens the roots of every site and reads its error pages, by the rights of the user that
    /// workers are. Blocks on the disk.
    ///
    /// # Errors
    /// What cannot be opened or read, and why.
    pub fn open(settings: &[SiteSettings], rights: &Rights) -> io::Result<Sites> {
        Sites::open_after(Earlier::Nothing, settings, &[], rights)
    }

    /// The same, with what they take over from earlier ones. `secrets` are those of the server,
    /// which no site sends either. Of many sites, one whose directory cannot be opened is not
    /// served.
    ///
    /// # Errors
    /// What cannot be opened or read and was not before, and why.
    pub fn open_after(
        earlier: Earlier<'_>,
        settings: &[SiteSettings],
        secrets: &[Secret<'_>],
        rights: &Rights,
    ) -> io::Result<Sites> {
        let Backends { gates, programs, spool } = Backends::open_after(earlier, settings, rights)?;
        let open = earlier.roots_of_hosts();
        let mut opening = Opening { earlier, open, rights, opened: Opened::default() };
        for (site, gates) in settings.iter().zip(gates) {
            let site = match site.spread {
                Spread::Of(number) => opening.host(site, number, gates)?,
                Spread::One | Spread::Each(_) => opening.site(site, gates)?,
            };
            opening.opened.sites.push(site);
        }
        let Opened { mut sites, mut kept, closed, .. } = opening.opened;
        let all = settings.iter().flat_map(SiteSettings::secrets).chain(secrets.iter().copied());
        let before = (earlier.secrets_of_same(), earlier.secrets());
        let secrets = Secrets::of(all, roots_of(&sites), before)?;
        let was = |number| earlier.same(number).map(|same| &*same.error_pages);
        error_files::read(&mut sites, (rights, &secrets), was, &mut kept)?;
        let is_served = |(number, _): &(usize, _)| {
            sites.get(*number).is_some_and(|site| site.host.is_none() || site.routes.has_files())
        };
        let served = settings.iter().map(|site| &*site.hosts).enumerate().filter(is_served);
        Ok(Sites {
            hosts: Hosts::of(served),
            transports: Transports::default(),
            challenges: Challenges::default(),
            modules: {
                let written = sites.iter().filter(|site| site.host.is_none());
                written.flat_map(|site| site.modules.all()).cloned().collect()
            },
            has_restrictions: sites.iter().any(|site| site.access.is_some()),
            has_limits: settings.iter().any(|site| !site.limits.is_empty()),
            load: Load::new(),
            programs,
            spool,
            rights: rights.clone(),
            secrets,
            kept,
            closed,
            sites,
        })
    }

    /// Why hosts are not served whose directories are there.
    pub fn closed(&self) -> &[String] {
        &self.closed
    }
}

/// Sites that are being opened.
struct Opening<'a> {
    earlier: Earlier<'a>,
    /// The roots of hosts that are open already, by name.
    open: HashMap<&'a Path, &'a Arc<OwnedFd>>,
    rights: &'a Rights,
    opened: Opened,
}

#[derive(Default)]
struct Opened {
    sites: Vec<Site>,
    /// Modules of them.
    modules: usize,
    /// What was tried at them.
    tries: Option<Vec<Arc<Tries>>>,
    kept: Vec<String>,
    closed: Vec<String>,
}

impl Opening<'_> {
    fn site(&mut self, site: &SiteSettings, gates: Arc<Gates>) -> io::Result<Site> {
        let Opened { sites, modules, tries, kept, .. } = &mut self.opened;
        let same = self.earlier.same(sites.len());
        let tries = tries.get_or_insert_with(|| self.earlier.tries());
        let first = *modules;
        *modules += site.modules.len();
        let links = site.symlinks.links();
        let was = same.map(|same| &same.routes);
        let routes = SiteRoutes::open(site.routes(), links, self.rights, (was, kept))?;
        let users = Users::of(&site.access.auth);
        let was = || same?.access.as_ref()?.users().map(Some);
        let users = or_before(users, was, kept)?;
        Ok(Site {
            routes,
            error_pages: Arc::new(ErrorPages::default()),
            links,
            index: site.index.clone().into(),
            types: Arc::new(Types::new(&site.types, &site.charset)),
            access: Access::new(&site.access, users, tries)?.map(Arc::new),
            limits: limits::rules(&site.limits, site.hosts.iter().min()),
            gates,
            modules: Arc::new(Modules::open(&site.modules, first)?),
            policy: Arc::new(CodingPolicy::new(&site.compress)),
            settings: Arc::new(site.clone()),
            host: None,
        })
    }

    /// One of many: who may change its directory decides about that one alone, so that it is not
    /// served when it cannot be opened.
    fn host(&mut self, site: &SiteSettings, of: usize, gates: Arc<Gates>) -> io::Result<Site> {
        let Opened { sites, closed, .. } = &mut self.opened;
        let root = site.root.as_deref().unwrap_or(Path::new(""));
        let many = sites.get(of).ok_or_else(|| io::Error::other("nothing stands for its host"))?;
        let was = self.open.get(root).copied();
        let routes = match many.routes.of_host(root, many.links, self.rights, was) {
            Ok(routes) => routes,
            Err(error) if file::is_out(&error) => return Err(told(root, error)),
            Err(error) => {
                closed.push(told(root, error).to_string());
                many.routes.without_files()
            }
        };
        let mut hasher = DefaultHasher::new();
        site.hosts.hash(&mut hasher);
        let host = Some(Host { of, number: hasher.finish() });
        Ok(Site { routes, gates, host, ..many.clone() })
    }
}
