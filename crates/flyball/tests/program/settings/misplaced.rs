//! Keys that stand where they do not belong, or twice, and errors that follow from others.

use crate::settings::file::{errors, told_of_a_site};

#[test]
fn a_limit_of_the_server_that_is_written_in_a_site_is_told_its_place() {
    told_of_a_site(&[
        (
            "limit.body = \"1MiB\"",
            "4: site.limit: limit.body belongs above the first [[site]] table",
        ),
        ("limit.connections = 1", "4: site.limit: is written as [[site.limit]] tables"),
        (
            "[[site.limit]]\npath = \"/a\"\nconnections = 1\nrate = \"1MiB\"",
            "7: site.limit.rate: unknown key; the rate of answers on a connection is \
             `bandwidth`, in [[site.limit]] for paths and in [limit] for all",
        ),
    ]);
}

#[test]
fn what_follows_from_an_error_is_none_of_its_own() {
    let keys = |text: &str| -> Vec<String> {
        let key = |error: &String| error.split(": ").nth(1).unwrap_or_default().to_owned();
        errors(text).iter().map(key).collect()
    };
    // It was to be what needs no root.
    let redirects = "redirects = [{ from = \"/a\", to = \"/b\" }]\n";
    assert_eq!(keys(&format!("[[site]]\n{redirects}")), ["site.redirects"]);
    // It was not to be a second default site.
    let site = "[[site]]\nroot = \"src\"\n";
    assert_eq!(keys(&format!("{site}{site}hosts = [\"a b\"]\n")), ["site.hosts"]);
    let twice = format!("{redirects}[site.redirects]\nfrom = \"/a\"\n");
    assert_eq!(
        errors(&format!("{site}{twice}")),
        ["flyball.toml:4: redirects is written already: each key once, as a value \
          (`redirects = ..`) or as a table ([redirects] or [[redirects]])"]
    );
}
