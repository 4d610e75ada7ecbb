//! Certificates, as `/status` has them.

use flyball_http::date::format_date;
use flyball_server::words::lasting;
use serde_json::Value;

use super::sample::Look;

/// One certificate; its texts are such as a terminal shows as they are.
#[derive(Debug)]
pub(super) struct Certificate<'a>(&'a Value);

impl Certificate<'_> {
    /// Those of a look.
    pub(super) fn all(look: &Look) -> Vec<Certificate<'_>> {
        look.list("certificates").iter().map(Certificate).collect()
    }

    fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }

    /// For how many seconds it holds; `None` where it is still to come.
    fn holds_s(&self) -> Option<i64> {
        self.0["holds_s"].as_i64()
    }

    /// Its end in words.
    fn end(&self) -> String {
        match self.holds_s() {
            None => "is still to come".to_owned(),
            Some(left_s @ 0..) => format!("ends in {}", lasting(left_s.unsigned_abs())),
            Some(ago_s) => format!("ended {} ago", lasting(ago_s.unsigned_abs())),
        }
    }

    /// All that is known of it.
    pub(super) fn lines(&self) -> Vec<String> {
        let names = self.0["names"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let names: Vec<&str> = names.collect();
        let date = |key: &str| {
            let date = format_date(self.0[key].as_u64()?);
            Some(String::from_utf8_lossy(&date).into_owned())
        };
        let mut lines = vec![names.join(" ")];
        lines.extend(date("not_after").map(|until| {
            let (key, issuer) = (self.text("key"), self.text("issuer"));
            format!("  {key} by {issuer}, until {until}")
        }));
        let renewed = date("renews_at").map(|from| format!(", is renewed from {from}"));
        lines.push(format!("  {}{}", self.end(), renewed.unwrap_or_default()));
        lines.extend(self.0["error"].as_str().map(|error| format!("  failed last: {error}")));
        lines
    }
}

/// How many hold, which ends first, and what failed last of one.
pub(super) fn summary(all: &[Certificate<'_>]) -> Vec<String> {
    let hold = all.iter().filter(|one| one.holds_s().is_some_and(|left_s| left_s >= 0)).count();
    let mut summary = vec![format!("{hold} of {} hold", all.len())];
    let first = all.iter().min_by_key(|one| one.holds_s());
    summary.extend(first.map(|one| format!("{} {}", one.text("name"), one.end())));
    let failed = all.iter().find_map(|one| Some((one, one.0["error"].as_str()?)));
    summary.extend(failed.map(|(one, error)| format!("{}: {error}", one.text("name"))));
    summary
}
