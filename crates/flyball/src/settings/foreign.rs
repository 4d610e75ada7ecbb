//! Directives of other servers, for those who write them here from habit: what they are called
//! here, or that this server has none.

/// Directives of nginx, Caddy and Apache httpd, in small letters and with `-` for `_`, and what is
/// written here. What stands in backquotes is a key of the server, of a site, or a table.
const DIRECTIVES: &[(&[&str], &str)] = &[
    (
        &["ssl-certificate", "ssl-certificate-key", "sslcertificatefile", "sslcertificatekeyfile"],
        "a site names its certificate with `certificate`, or in [[site.certificates]] with \
         `chain` and `key`",
    ),
    (&["ssl-protocols", "sslprotocol"], "the least version is `tls.minimum`"),
    (
        &["ssl-ciphers", "ssl-prefer-server-ciphers", "sslciphersuite"],
        "there are no lists of ciphers: all that are offered are sound",
    ),
    (&["ssl-session-tickets", "ssl-session-cache"], "tickets are `tls.tickets`"),
    (&["ssl-client-certificate", "ssl-verify-client"], "it is `tls.client-ca`, `tls.client-auth`"),
    (
        &["server-name", "servername", "serveralias"],
        "the names of a site are `hosts` in its [[site]] table",
    ),
    (&["virtualhost", "vhost", "http"], "each site is a [[site]] table"),
    (&["documentroot", "file-server"], "the directory of a site is `root` in its [[site]] table"),
    (
        &["location", "handle", "handle-path", "route"],
        "there are no blocks by path: `alias`, `access`, `return`, `redirect`, `rewrite`, \
         `header`, `cgi` and `fastcgi` are tables of a site, each with its path or pattern",
    ),
    (
        &["try-files", "fallbackresource"],
        "a site tries the file, then `index`, then `fallback`; `pretty-urls` adds .html",
    ),
    (
        &["proxy-pass", "reverse-proxy", "proxypass", "upstream", "balancer", "uwsgi-pass"],
        "this server does not proxy HTTP yet; FastCGI and SCGI servers are [[site.fastcgi]] and \
         [[site.scgi]]",
    ),
    (&["fastcgi-pass", "php-fastcgi"], "FastCGI servers are [[site.fastcgi]] tables"),
    (&["scgi-pass"], "SCGI servers are [[site.scgi]] tables"),
    (&["autoindex", "browse"], "listings are `listing` of a site"),
    (&["directoryindex"], "it is `index` of a site"),
    (&["errordocument"], "it is `error-page` of a site"),
    (&["access-log-format", "logformat"], "the form of a line is `log.format`"),
    (&["server-tokens", "serversignature"], "the field Server is `head.server`"),
    (&["pid", "pidfile"], "it is `pid-file`"),
    (&["gzip-types"], "it is `compress.types` of a site"),
    (&["gzip-min-length"], "it is `compress.min-size` of a site"),
    (&["fastcgi-param"], "parameters are `params` of [[site.fastcgi]]"),
    (&["stub-status"], "the status is at /status of `admin`"),
    (&["redir"], "redirects are [[site.redirect]] tables"),
    (&["respond"], "answers without a file are [[site.return]] tables"),
    (&["handle-errors"], "it is `error-page` of a site"),
    (&["import"], "more files are read by `include`"),
    (
        &["map", "set-var"],
        "there are no variables and conditions: `match` of the tables of a site takes patterns",
    ),
    (&["add-header", "more-set-headers"], "fields of answers are [[site.header]] tables"),
    (&["expires"], "how long answers may be kept is `cache-control` of a site"),
    (
        &["auth-basic", "basicauth", "basic-auth", "authuserfile"],
        "logins are `auth.file` of a site",
    ),
    (&["auth-basic-user-file"], "it is `auth.file` of a site"),
    (&["gzip", "brotli", "encode"], "compression is `compress.on` and its like, of a site"),
    (&["gzip-static", "brotli-static"], "it is `compress.precompressed` of a site"),
    (&["client-max-body-size", "limitrequestbody"], "the longest request body is `limit.body`"),
    (&["client-header-timeout"], "it is `timeout.head`"),
    (&["keepalive-timeout"], "it is `timeout.idle`"),
    (&["send-timeout"], "it is `timeout.send`"),
    (
        &["limit-conn"],
        "connections by client are `limit.connections-per-address`, for paths [[site.limit]]",
    ),
    (
        &["limit-req", "ratelimit"],
        "requests a second by client are `limit.requests-per-address`, for paths [[site.limit]]",
    ),
    (
        &["limit-rate", "rate", "speed"],
        "the rate of answers on a connection is `bandwidth`, in [[site.limit]] for paths and in \
         [limit] for all",
    ),
    (&["worker-processes"], "it is `workers`"),
    (&["worker-connections", "maxrequestworkers"], "it is `connections.max`"),
    (&["tcp-nodelay"], "it is `send.no-delay`"),
    (&["sendfile"], "it is `send.mode`"),
    (&["set-real-ip-from", "remoteipheader", "trusted-proxies"], "it is `client.trusted`"),
    (&["real-ip-header"], "it is `client.address`"),
    (&["customlog"], "it is `access-log`, in the form of `log.format`"),
    (&["error-log", "errorlog"], "what goes wrong is told on standard error, from `log.level` on"),
    (&["rewriterule"], "rewrites are [[site.rewrite]] tables, redirects [[site.redirect]]"),
    (&["disable-symlinks"], "it is `symlinks` of a site"),
    (&["default-type"], "types by extension are `types` of a site, by path [[site.type]] tables"),
];

/// What is said about a key that another server has.
pub(super) fn told(key: &str) -> Option<&'static str> {
    // `[server] listen` is as foreign as `server_name` by itself.
    let parts = [key.rsplit('.').next(), key.split('.').next()];
    parts.into_iter().flatten().find_map(|part| {
        let part = part.replace('_', "-").to_ascii_lowercase();
        let known = |(words, _): &&(&[&str], &str)| words.contains(&part.as_str());
        DIRECTIVES.iter().find(known).map(|(_, told)| *told)
    })
}

#[cfg(test)]
mod tests {
    use super::super::server::SETTINGS;
    use super::super::site::{SITE_SETTINGS, SITE_TABLES};
    use super::super::table::find;
    use super::*;

    #[test]
    fn what_is_called_otherwise_here_is_a_key_or_a_table() {
        let is_known = |name: &str| {
            let of_table = |name| {
                SITE_TABLES
                    .iter()
                    .any(|table| table.key == name || find(table.settings, name).is_some())
            };
            find(SETTINGS, name).is_some() || find(SITE_SETTINGS, name).is_some() || of_table(name)
        };
        for (words, told) in DIRECTIVES {
            for name in told.split('`').skip(1).step_by(2) {
                assert!(is_known(name), "{words:?}: {name}");
            }
            for table in told.split("[[site.").skip(1).filter_map(|text| text.split(']').next()) {
                assert!(is_known(table), "{words:?}: {table}");
            }
        }
    }

    #[test]
    fn no_key_of_ours_is_taken_for_another_servers() {
        let of_tables = SITE_TABLES.iter().flat_map(|table| table.settings).map(|s| s.key);
        let ours = SETTINGS.iter().map(|s| s.key).chain(SITE_SETTINGS.iter().map(|s| s.key));
        for key in ours.chain(of_tables).filter(|key| !key.contains('.')) {
            assert_eq!(told(key), None, "{key}");
        }
    }

    #[test]
    fn a_directive_is_known_however_it_is_written() {
        for key in ["proxy_pass", "ProxyPass", "reverse_proxy", "upstream.a"] {
            assert!(told(key).is_some_and(|told| told.contains("does not proxy")), "{key}");
        }
        assert_eq!(told("banana"), None);
    }
}
