//! Paths that are answered with a status whatever is there.

use std::sync::Arc;

use flyball_http::Status;

use super::paths::{Prefix, readings, relative_of_url};
use super::pattern::Pattern;
use super::settings::ReturnSettings;

/// The returns of a site, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Returns(Arc<[(Paths, Status)]>);

#[derive(Clone, Debug)]
enum Paths {
    Beneath(Prefix),
    Fitting(Pattern),
}

impl Returns {
    /// The returns of these settings; those that are wrong are left out.
    pub(crate) fn new(settings: &[ReturnSettings]) -> Returns {
        let rule = |rule: &ReturnSettings| {
            let paths = match (&rule.path, &rule.pattern) {
                (Some(path), _) => Paths::Beneath(Prefix::of(path)),
                (None, pattern) => Paths::Fitting(Pattern::parse(pattern.as_deref()?).ok()?),
            };
            let status = Status::ALL.iter().find(|known| known.code() == rule.status)?;
            Some((paths, *status))
        };
        Returns(settings.iter().filter_map(rule).collect())
    }

    /// Whether there are none, so that no URL has to be made for them.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The status of a canonical URL: that of the first rule that it fits.
    pub(crate) fn of(&self, url: &[u8]) -> Option<Status> {
        let fits = |paths: &Paths| match paths {
            Paths::Beneath(prefix) => readings(url).any(|url| prefix.covers(relative_of_url(&url))),
            Paths::Fitting(pattern) => pattern.fits_somehow(url),
        };
        self.0.iter().find(|(paths, _)| fits(paths)).map(|(_, status)| *status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_a_url_fits_counts() {
        let rule = |path: Option<&str>, pattern: Option<&str>, status| ReturnSettings {
            path: path.map(str::to_owned),
            pattern: pattern.map(str::to_owned),
            status,
        };
        let returns = Returns::new(&[
            rule(None, Some(r"~^/uploads/.*\.php$"), 403),
            rule(Some("/%6fld/"), None, 410),
            rule(None, Some("/old/x"), 404),
        ]);
        for (url, status) in [
            ("/uploads/a.php", Some(403)),
            ("/uploads/a.php.txt", None),
            ("/old", Some(410)),
            ("/old/", Some(410)),
            ("/old/x", Some(410)),
            ("/older", None),
        ] {
            assert_eq!(returns.of(url.as_bytes()).map(Status::code), status, "{url}");
        }
        // Bytes that are no text get past no rule.
        assert_eq!(returns.of(b"/uploads/\xff.php"), Some(Status::FORBIDDEN));
        assert_eq!(returns.of(b"/old/\xff"), Some(Status::GONE));
        // Nor do slashes that were encoded.
        assert_eq!(returns.of(b"/uploads\0a.php"), Some(Status::FORBIDDEN));
        assert_eq!(returns.of(b"/old\0x"), Some(Status::GONE));
        assert!(Returns::default().is_empty() && !returns.is_empty());
    }
}
