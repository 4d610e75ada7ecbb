//! What a client may take of the paths that it asks for.

use flyball_http::Request;

use super::Service;
use super::urls::takes_path;
use crate::limits::Limit;
use crate::routes::canonical;

impl Service {
    /// The limit of the path of a request, if it has one. Of a path that is malformed nothing is
    /// given.
    pub fn limit_of(&self, request: &Request<'_>) -> Option<Limit> {
        if !self.sites.has_limits || !takes_path(request) {
            return None;
        }
        let site = &self.sites.sites[self.sites.site_of(request)?];
        if site.limits.is_empty() {
            return None;
        }
        let path = request.path();
        let url = canonical(path, &mut Vec::with_capacity(path.len())).ok()?;
        let limit = site.limits.of(&url)?;
        let of_host = site.host.map_or(0, |host| host.number);
        Some(Limit { number: (limit.number ^ of_host).max(1), ..limit })
    }
}
