//! Values that are nearly right: the error says what to type.

use super::file::{SITE, errors, line_errors, resolve, told_of_a_site};

#[test]
fn a_value_that_is_nearly_right_is_told_with_what_to_type() {
    let port = "an address with its port, such as";
    for (line, expected, found) in [
        ("tls.minimum = 1.3", "\"1.2\" or \"1.3\", in quotes", "1.3"),
        ("tls.minimum = \"1.1\"", "1.2 or 1.3", "\"1.1\""),
        ("tls.tickets = 5", "a path or off, or auto", "5"),
        (
            "listen = \"https://[::1]\"",
            &format!("{port} https://[::1]:443, or auto"),
            "\"https://[::1]\"",
        ),
        (
            "listen = [\":80\", \"https://\"]",
            &format!("{port} https://:443, or auto"),
            "\"https://\"",
        ),
        ("listen = \"127.0.0.1\"", &format!("{port} 127.0.0.1:80, or auto"), "\"127.0.0.1\""),
    ] {
        let key = line.split(' ').next().unwrap();
        let error = format!("flyball.toml:1: {key}: expected {expected}, found {found}");
        assert_eq!(line_errors(line), [error], "{line}");
    }
    let site = "root = \".\"\ncertificate = 5";
    let told = errors(&format!("[[site]]\n{site}\n"));
    let expected = "expected a path, none, acme or internal, or auto, found 5";
    assert_eq!(told, [format!("flyball.toml:3: site.certificate: {expected}")]);
}

#[test]
fn a_key_in_the_wrong_table_is_told_with_the_right_one() {
    for (lines, error) in [
        ("root = \"/srv\"", "1: root: unknown key; root belongs in a [[site]] table"),
        (
            "compress.on = true",
            "1: compress.on: unknown key; compress.on belongs in a [[site]] table",
        ),
        (
            "redirect = 1",
            "1: redirect: unknown key; it is written as [[site.redirect]] tables, each beneath its \
             [[site]]",
        ),
        ("library = \"x\"", "1: library: unknown key; library belongs in [[site.module]]"),
    ] {
        assert_eq!(line_errors(lines), [format!("flyball.toml:{error}")], "{lines}");
    }
    told_of_a_site(&[
        (
            "require-script = true",
            "4: site.require-script: unknown key of a site; require-script belongs in \
             [[site.fastcgi]] or [[site.scgi]]",
        ),
        (
            "[[site.redirect]]\nfrom = \"/a\"\nto = \"/b\"\nworkers = 2",
            "7: site.redirect.workers: unknown key of a redirect; workers belongs above the first \
             [[site]] table",
        ),
    ]);
}

#[test]
fn a_directive_of_another_server_is_told_with_what_it_is_called_here() {
    for (line, told) in [
        ("server_name = \"a.test\"", "`hosts`"),
        ("ssl_certificate = \"a.pem\"", "`certificate`"),
        ("try_files = \"$uri\"", "`fallback`"),
        ("location.root = \"/\"", "no blocks by path"),
        ("proxy_pass = \"http://a\"", "does not proxy HTTP yet"),
    ] {
        for (lines, place) in [(line.to_owned(), "1: "), (format!("{SITE}{line}"), "4: site.")] {
            let said = errors(&format!("{lines}{}", if place == "1: " { SITE } else { "" }));
            let [said] = &said[..] else { panic!("{said:?}") };
            assert!(said.starts_with(&format!("flyball.toml:{place}")), "{said}");
            assert!(said.contains("unknown key; ") && said.contains(told), "{said}");
        }
    }
}

#[test]
fn a_key_is_understood_by_its_name_before_and_told_once() {
    let settings = resolve(&format!("architecture = \"sped\"{SITE}")).unwrap();
    assert_eq!(settings.arch, "sped");
    let told = "flyball.toml:1: architecture: is arch now; the next version does not know it";
    assert_eq!(settings.running.notes, [told]);
}
