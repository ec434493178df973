//! What a registry asks of a user who is not logged in: the header `WWW-Authenticate`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;

use crate::credentials::UserPassword;
use crate::reference::is_loopback;

/// Way in which a registry wants the user to log in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// With a token of this service.
    Bearer {
        realm: String,
        service: Option<String>,
    },
    /// With user and password.
    Basic,
}

impl Challenge {
    /// Parses the header; `None` if it asks for something else.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service) = (None, None);
        for (key, value) in parameters(rest) {
            match key {
                "realm" => realm = Some(value.to_owned()),
                "service" => service = Some(value.to_owned()),
                _ => {}
            }
        }
        Some(Self::Bearer {
            realm: realm?,
            service,
        })
    }
}

/// Returns the parameters `key="value"` or `key=value` of a header, which commas separate.
fn parameters(mut text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    while let Some((key, rest)) = text.split_once('=') {
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                rest.split_at(end)
            }
        };
        found.push((key.trim_matches([' ', ',']), value));
        text = rest;
    }
    found
}

/// Returns the header `Authorization` with user and password.
pub(super) fn basic(user: &UserPassword) -> String {
    let UserPassword { user, password } = user;
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// Returns whether a token service is in the domain of its registry, as `auth.docker.io` is in that of
/// `registry-1.docker.io`, and `gitlab.com` in that of `registry.gitlab.com`.
pub(super) fn shares_domain(registry: &Url, service: &Url) -> bool {
    if is_loopback(registry) {
        return is_loopback(service);
    }
    let (Some(registry), Some(service)) = (registry.host_str(), service.host_str()) else {
        return false;
    };
    let is_name = registry.parse::<std::net::Ipv4Addr>().is_err() && !registry.starts_with('[');
    let parent = registry.split_once('.').map(|(_, parent)| parent);
    let parent = parent.filter(|parent| is_name && parent.contains('.'));
    let is_below = |parent: &str| {
        let rest = service.strip_suffix(parent);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    registry == service || parent.is_some_and(is_below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_registries_are_read() {
        let bearer = |realm: &str, service: Option<&str>| Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
        };
        for (header, expected) in [
            (
                "Bearer realm=\"https://ghcr.io/token\",service=\"ghcr.io\",scope=\"repository:a,b:pull\"",
                Some(bearer("https://ghcr.io/token", Some("ghcr.io"))),
            ),
            (
                "bearer realm=https://a/b, service=c",
                Some(bearer("https://a/b", Some("c"))),
            ),
            (
                "Bearer realm=\"https://a/b",
                Some(bearer("https://a/b", None)),
            ),
            ("Bearer service=\"c\"", None),
            ("Basic realm=\"Registry\"", Some(Challenge::Basic)),
            ("BASIC", Some(Challenge::Basic)),
            ("Digest realm=\"x\"", None),
            ("", None),
            ("Bearer ====", None),
        ] {
            assert_eq!(Challenge::parse(header), expected, "{header}");
        }
    }

    #[test]
    fn credentials_stay_in_the_domain() {
        let shares = |registry: &str, service: &str| {
            let url = |host: &str| Url::parse(&format!("https://{host}/")).unwrap();
            shares_domain(&url(registry), &url(service))
        };
        for (registry, service) in [
            ("ghcr.io", "ghcr.io"),
            ("registry-1.docker.io", "auth.docker.io"),
            ("registry.gitlab.com", "gitlab.com"),
            ("127.0.0.1:5000", "localhost:5001"),
        ] {
            assert!(shares(registry, service), "{registry} {service}");
        }
        for (registry, service) in [
            ("ghcr.io", "evil.io"),
            ("ghcr.io", "io"),
            ("registry-1.docker.io", "evildocker.io"),
            ("registry-1.docker.io", "docker.io.evil.org"),
            ("10.0.0.1", "10.0.0.2"),
            ("127.0.0.1:5000", "ghcr.io"),
            ("ghcr.io", "localhost"),
        ] {
            assert!(!shares(registry, service), "{registry} {service}");
        }
    }
}
