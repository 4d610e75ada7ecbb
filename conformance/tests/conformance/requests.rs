//! Requests as text.

/// A GET with nothing but what HTTP/1.1 demands.
pub(crate) fn get(target: &str) -> String {
    request("GET", target, &[])
}

/// A request with these field lines beside `Host`, and no body.
pub(crate) fn request(method: &str, target: &str, fields: &[&str]) -> String {
    with_body(method, target, fields, "")
}

/// A request with these field lines beside `Host`, and this after the head.
pub(crate) fn with_body(method: &str, target: &str, fields: &[&str], body: &str) -> String {
    let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n{body}")
}

/// A GET for a host of this name.
pub(crate) fn get_of(host: &str, target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}
