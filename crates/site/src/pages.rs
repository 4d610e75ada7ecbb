//! The prebuilt pages of refusals and redirects: a sentence for a person, nothing about the server.

use flyball_http::{Fields, Name, Status};

macro_rules! page {
    ($title:literal $text:literal) => {
        concat!(
            "<!doctype html>\n<meta charset=\"utf-8\">\n",
            "<meta name=\"viewport\" content=\"width=device-width\">\n",
            "<title>",
            $title,
            "</title>\n<h1>",
            $title,
            "</h1>\n<p>",
            $text,
            "</p>\n",
        )
        .as_bytes()
    };
}

macro_rules! pages {
    ($($name:ident $title:literal $text:literal),* $(,)?) => {
        /// The page of a status, as HTML.
        pub(crate) fn page(status: Status) -> &'static [u8] {
            match status {
                $(Status::$name => page!($title $text),)*
                _ => page(Status::INTERNAL_SERVER_ERROR),
            }
        }
    };
}

pages! {
    MOVED_PERMANENTLY "Moved" "This is at another address.",
    FOUND "Found" "This is at another address for now.",
    SEE_OTHER "See other" "The answer is at another address.",
    TEMPORARY_REDIRECT "Moved for now" "This is at another address for now.",
    PERMANENT_REDIRECT "Moved" "This is at another address.",
    BAD_REQUEST "Bad request" "This address is not valid.",
    UNAUTHORIZED "Unauthorized" "This can be read by those who have a name and a password.",
    FORBIDDEN "Forbidden" "This may not be read.",
    NOT_FOUND "Not found" "There is nothing at this address.",
    GONE "Gone" "This is here no longer.",
    METHOD_NOT_ALLOWED "Method not allowed" "This address can only be read.",
    PRECONDITION_FAILED "Precondition failed" "This has changed since it was last seen.",
    RANGE_NOT_SATISFIABLE "Range not satisfiable" "This is shorter than the range asked for.",
    MISDIRECTED_REQUEST "Misdirected request" "No site of this name is served here.",
    TOO_MANY_REQUESTS "Too many requests" "That was too much at once; please try again later.",
    NOT_IMPLEMENTED "Not implemented" "This method is not known here.",
    BAD_GATEWAY "No answer" "What should have answered here has not done so.",
    GATEWAY_TIMEOUT "No answer in time" "What should have answered here took too long.",
    SERVICE_UNAVAILABLE "Unavailable" "The server is short of resources; please try again.",
    INTERNAL_SERVER_ERROR "Server error" "Something went wrong here.",
}

/// That of 421 over a connection that was made for a site of another policy: the client may ask
/// again over one of its own (RFC 9110, section 15.5.20).
pub(crate) const OTHER_POLICY: &[u8] = page!(
    "Misdirected request"
    "This connection was made for another name, and this name asks for one of its own; please \
     connect again."
);

/// That of 421 over TLS for a site that has no certificate.
pub(crate) const NOT_BY_TLS: &[u8] =
    page!("Misdirected request" "This name is not served by https.");

/// That of 421 in the clear for a site whose clients show certificates.
pub(crate) const BY_TLS_ALONE: &[u8] =
    page!("Misdirected request" "This name is served by https alone.");

/// The type of these pages.
pub(crate) const TYPE: &str = "text/html; charset=utf-8";

/// Adds the fields of a page of this length.
pub(crate) fn add_fields(len: usize, fields: &mut Fields) {
    add_fields_of(TYPE, len, fields);
}

/// Adds the fields of a page of this type and length.
pub(crate) fn add_fields_of(media_type: &str, len: usize, fields: &mut Fields) {
    fields.add(Name::ContentType, media_type);
    fields.add_shown(Name::ContentLength, len);
}
