//! Credentials of registries: from the environment, or from the configuration of Docker.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::error::RegistryError;
use crate::reference::RegistryReference;

/// Environment variables of one registry's credentials: its host, the user, the password.
const VARIABLES: [&str; 3] = ["PBG_REGISTRY", "PBG_REGISTRY_USER", "PBG_REGISTRY_PASSWORD"];
/// Size of the largest configuration of Docker that is read.
const DOCKER_BYTES: u64 = 1 << 20;
/// Name of Docker's own registry in its configuration.
const DOCKER_HUB: &str = "index.docker.io";

/// User and password of one registry, or why there are none.
pub struct RegistryCredentials {
    found: Option<UserPassword>,
    /// Advice for when the registry wants credentials.
    advice: String,
}

/// User and password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct UserPassword {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl fmt::Debug for RegistryCredentials {
    /// Shows whether there are any, and no secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = &self.found.is_some();
        f.debug_struct("RegistryCredentials")
            .field("found", found)
            .finish()
    }
}

/// The part of Docker's configuration that says how to log in.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DockerConfig {
    auths: BTreeMap<String, DockerLogin>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

/// Entry of a registry in Docker's configuration.
#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerLogin {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl RegistryCredentials {
    /// Finds the credentials of the registry of `reference`: those of `PBG_REGISTRY_USER` and `PBG_REGISTRY_PASSWORD` if
    /// `PBG_REGISTRY` is its host, otherwise those of Docker's configuration.
    ///
    /// # Errors
    /// When only some of the variables are set, or the configuration of Docker cannot be read.
    pub fn of_environment(reference: &RegistryReference) -> Result<Self, RegistryError> {
        let host = host_of(reference.host());
        let variables = VARIABLES.map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
        if let Some(found) = of_variables(&host, variables)? {
            return Ok(Self::of_user(found));
        }
        let Some(path) = docker_config() else {
            return Ok(Self::none(&host, None));
        };
        let text = read(&path).map_err(|error| {
            RegistryError::usage(format!("cannot read {}: {error}", path.display()))
        })?;
        let Some(text) = text else {
            return Ok(Self::none(&host, None));
        };
        // Without the reason of the parser, which quotes the text.
        let config: DockerConfig = serde_json::from_slice(&text).map_err(|error| {
            RegistryError::usage(format!(
                "{}, line {}: is not a configuration of Docker; correct it, or name another folder with DOCKER_CONFIG",
                path.display(),
                error.line()
            ))
        })?;
        of_docker(&host, &config).map_err(|what| {
            RegistryError::usage(format!("{}: {what}", path.display()))
                .advised(format!("`docker login {host}` writes it again"))
        })
    }

    /// Creates credentials of a user and a password.
    #[must_use]
    pub fn of_password(user: &str, password: &str) -> Self {
        Self::of_user(UserPassword {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }

    /// Creates credentials of this user.
    pub(crate) fn of_user(found: UserPassword) -> Self {
        let advice = "check user and password, and the rights of this account".to_owned();
        Self {
            found: Some(found),
            advice,
        }
    }

    /// Creates a value without credentials; `helper` is the program that Docker would ask.
    fn none(host: &str, helper: Option<&str>) -> Self {
        let [registry, user, password] = VARIABLES;
        let set = format!("set {registry}={host}, {user} and {password}");
        let advice = match helper {
            // A name from a file; only what a program's name may have is shown.
            Some(helper) => format!(
                "Docker's configuration leaves the credentials of {host} to the program docker-credential-{}, which \
                 pbg-host does not start; {set}",
                helper.escape_default()
            ),
            None => {
                format!("there are no credentials for {host}: {set}, or use `docker login {host}`")
            }
        };
        Self {
            found: None,
            advice,
        }
    }

    /// Returns user and password.
    pub(crate) fn user(&self) -> Option<&UserPassword> {
        self.found.as_ref()
    }

    /// Returns advice for when the registry wants credentials or other ones.
    pub(crate) fn advice(&self) -> &str {
        &self.advice
    }
}

/// Returns the host of a registry as credentials name it.
fn host_of(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "docker.io" | "registry-1.docker.io" => DOCKER_HUB.to_owned(),
        _ => name,
    }
}

fn of_variables(
    host: &str,
    [registry, user, password]: [Option<String>; 3],
) -> Result<Option<UserPassword>, RegistryError> {
    match (registry, user, password) {
        (None, None, None) => Ok(None),
        (Some(registry), _, _) if host_of(&registry) != host => Ok(None),
        (Some(_), Some(user), Some(password)) => Ok(Some(UserPassword { user, password })),
        _ => {
            let [registry, user, password] = VARIABLES;
            Err(RegistryError::usage(format!(
                "only some of {registry}, {user} and {password} are set; set all three, or none; {registry} is the host \
                 to which the others are sent"
            )))
        }
    }
}

/// Returns where Docker's configuration is.
fn docker_config() -> Option<PathBuf> {
    let named = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let folder = named("DOCKER_CONFIG").or_else(|| Some(named("HOME")?.join(".docker")))?;
    Some(folder.join("config.json"))
}

/// Reads a small file; `None` if there is none.
fn read(path: &PathBuf) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(DOCKER_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > DOCKER_BYTES {
        true => Err(io::Error::other(format!(
            "it is larger than {DOCKER_BYTES} bytes"
        ))),
        false => Ok(Some(bytes)),
    }
}

/// Finds the credentials of `host` in Docker's configuration.
///
/// # Errors
/// What is wrong with its entry, without what it contains.
fn of_docker(host: &str, config: &DockerConfig) -> Result<RegistryCredentials, String> {
    let is_this = |key: &str| {
        let key = key.strip_prefix("https://").unwrap_or(key);
        let key = key.strip_prefix("http://").unwrap_or(key);
        let key = key.split('/').next().unwrap_or_default();
        host_of(key) == host
    };
    let mut helpers = config.cred_helpers.iter();
    if let Some((_, helper)) = helpers.find(|(key, _)| is_this(key)) {
        return Ok(RegistryCredentials::none(host, Some(helper)));
    }
    let helper = config.creds_store.as_deref();
    let mut logins = config.auths.iter();
    let Some((_, login)) = logins.find(|(key, _)| is_this(key)) else {
        return Ok(RegistryCredentials::none(host, helper));
    };
    // Beside an identity token, `auth` has a user without a password.
    if login
        .identitytoken
        .as_deref()
        .is_some_and(|token| !token.is_empty())
    {
        return Err(format!(
            "{host} has an identity token, which pbg-host does not use; give it a user and a password or an access token"
        ));
    }
    if let (Some(user), Some(password)) = (&login.username, &login.password) {
        let (user, password) = (user.clone(), password.clone());
        return Ok(RegistryCredentials::of_user(UserPassword {
            user,
            password,
        }));
    }
    match login.auth.as_deref().filter(|auth| !auth.is_empty()) {
        Some(auth) => {
            let decoded = STANDARD.decode(auth.trim()).ok();
            let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
            let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
            let (user, password) = pair.ok_or_else(|| {
                format!("the `auth` of {host} is not the Base64 form of USER:PASSWORD")
            })?;
            Ok(RegistryCredentials::of_user(UserPassword {
                user: user.to_owned(),
                password: password.to_owned(),
            }))
        }
        None => Ok(RegistryCredentials::none(host, helper)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(host: &str, config: &str) -> Result<RegistryCredentials, String> {
        of_docker(&host_of(host), &serde_json::from_str(config).unwrap())
    }

    #[test]
    fn logins_are_found_by_host() {
        // user:pass:word
        let auth = r#"{"auth": "dXNlcjpwYXNzOndvcmQ="}"#;
        for (host, key) in [
            ("ghcr.io", "ghcr.io"),
            ("GHCR.io", "https://ghcr.io/v2/"),
            ("docker.io", "https://index.docker.io/v1/"),
            ("localhost:5000", "http://localhost:5000"),
        ] {
            let config = format!(r#"{{"auths": {{"{key}": {auth}, "other": {{}}}}}}"#);
            let credentials = found(host, &config).unwrap();
            let user = credentials.user().unwrap();
            assert_eq!(
                (user.user.as_str(), user.password.as_str()),
                ("user", "pass:word")
            );
            assert!(!format!("{credentials:?}").contains("word"));
        }
    }

    #[test]
    fn logins_of_other_hosts_are_not_used() {
        let config = r#"{"auths": {"ghcr.io": {"auth": "dXNlcjpwYXNz"}, "localhost:5001": {"auth": "dXNlcjpwYXNz"}}}"#;
        for host in [
            "localhost:5000",
            "localhost",
            "evil.ghcr.io",
            "ghcr.io.evil.org",
            "ghcr.io:444",
        ] {
            assert!(found(host, config).unwrap().user().is_none(), "{host}");
        }
    }

    #[test]
    fn helpers_are_named() {
        for config in [
            r#"{"credsStore": "desktop"}"#,
            r#"{"credsStore": "desktop", "auths": {"ghcr.io": {}}}"#,
            r#"{"credHelpers": {"ghcr.io": "desktop"}, "auths": {"ghcr.io": {"auth": "dXNlcjpwYXNz"}}}"#,
        ] {
            let credentials = found("ghcr.io", config).unwrap();
            assert!(credentials.user().is_none());
            assert!(credentials.advice().contains("docker-credential-desktop"));
        }
    }

    #[test]
    fn unusable_logins_are_refused_without_their_content() {
        for login in [
            r#"{"auth": "hidden!"}"#,
            r#"{"auth": "aGlkZGVu"}"#,
            r#"{"identitytoken": "hidden"}"#,
            r#"{"auth": "aGlkZGVuOg==", "identitytoken": "hidden"}"#,
        ] {
            let config = format!(r#"{{"auths": {{"ghcr.io": {login}}}}}"#);
            let what = found("ghcr.io", &config).unwrap_err();
            assert!(
                what.contains("ghcr.io") && !what.contains("hidden"),
                "{what}"
            );
        }
    }

    #[test]
    fn variables_are_for_one_host() {
        let given =
            |values: [&str; 3]| values.map(|value| (!value.is_empty()).then(|| value.to_owned()));
        let found = |host, values| of_variables(host, given(values));
        assert!(
            found("ghcr.io", ["ghcr.io", "me", "hidden"])
                .unwrap()
                .is_some()
        );
        assert!(
            found("quay.io", ["ghcr.io", "me", "hidden"])
                .unwrap()
                .is_none()
        );
        assert!(found("quay.io", ["", "", ""]).unwrap().is_none());
        for values in [
            ["", "me", "hidden"],
            ["ghcr.io", "", "hidden"],
            ["ghcr.io", "me", ""],
        ] {
            let error = found("ghcr.io", values).map(|_| ()).unwrap_err();
            assert!(!error.to_string().contains("hidden"), "{error}");
        }
    }
}
