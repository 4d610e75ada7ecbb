//! Paths that are answered with a status whatever is there.

use flyball_http::Status;

use super::path_rules::PathRules;
use super::settings::ReturnSettings;

/// The returns of a site, in their order.
pub(crate) type Returns = PathRules<Status>;

impl Returns {
    /// The returns of these settings; those that are wrong are left out.
    pub(crate) fn new(settings: &[ReturnSettings]) -> Returns {
        let rules = settings.iter().filter_map(|rule| {
            let status = Status::ALL.iter().find(|known| known.code() == rule.status)?;
            Some(((rule.path.as_deref(), rule.pattern.as_deref()), *status))
        });
        PathRules::of_paths(rules)
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
