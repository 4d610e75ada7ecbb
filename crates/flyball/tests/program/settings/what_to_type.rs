//! Values that are nearly right: the error says what to type.

use super::file::{errors, line_errors};

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
