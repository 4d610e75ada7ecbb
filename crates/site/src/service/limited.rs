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
        let limits = &self.sites.sites[self.sites.site_of(request)?].limits;
        if limits.is_empty() {
            return None;
        }
        let path = request.path();
        limits.of(&canonical(path, &mut Vec::with_capacity(path.len())).ok()?)
    }
}
