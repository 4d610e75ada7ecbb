//! Media types of files by their paths.

use super::pattern::Pattern;
use super::settings::TypeSettings;
use super::table::Table;

/// The rules of a site that say which type a file has, whatever its name ends with.
#[derive(Debug)]
pub(crate) struct TypeRules {
    table: Table,
    types: Vec<String>,
}

impl TypeRules {
    /// The rules of these settings; those that are wrong are left out.
    pub(crate) fn new(settings: &[TypeSettings]) -> TypeRules {
        let rule =
            |rule: &TypeSettings| Some((Pattern::parse(&rule.path).ok()?, rule.media_type.clone()));
        let (patterns, types): (Vec<Pattern>, _) = settings.iter().filter_map(rule).unzip();
        TypeRules { table: Table::new(&patterns), types }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// The type of the file of this canonical URL, if a rule says so.
    pub(crate) fn of(&self, url: &[u8]) -> Option<&str> {
        self.types.get(self.table.first(url)? as usize).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_path_wins_over_a_prefix_and_that_over_expressions() {
        let rules = [
            (r"~/[^./]+$", "text/plain"),
            ("/raw/*", "application/octet-stream"),
            ("/raw/LICENSE", "text/x-license"),
        ];
        let rule = |(path, kind): (&str, &str)| TypeSettings {
            path: path.into(),
            media_type: kind.into(),
        };
        let rules = TypeRules::new(&rules.map(rule));
        for (url, expected) in [
            ("/LICENSE", Some("text/plain")),
            ("/a/README", Some("text/plain")),
            ("/a.html", None),
            ("/raw/a.html", Some("application/octet-stream")),
            ("/raw/README", Some("application/octet-stream")),
            ("/raw/LICENSE", Some("text/x-license")),
        ] {
            assert_eq!(rules.of(url.as_bytes()), expected, "{url}");
        }
        assert!(TypeRules::new(&[]).is_empty() && TypeRules::new(&[]).of(b"/a").is_none());
    }
}
