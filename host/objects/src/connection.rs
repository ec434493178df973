//! Connection to an object store: its address and credentials, the runtime of its requests.

use std::env;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use tokio::runtime::{Builder, Runtime};

use pbg_files::remote::Patience;

use crate::error::io_error;
use crate::url::{ObjectUrl, Provider};

/// Time that a connection gets.
const CONNECT: Duration = Duration::from_secs(10);
/// Time without a byte of an answer.
const STALL: Duration = Duration::from_secs(60);
/// Time that a small request gets.
const ANSWER: Duration = Duration::from_secs(5);
/// Time that a request gets with its content, enough for four parts at a time over a slow line.
const REQUEST: Duration = Duration::from_secs(600);

/// How often a request is repeated, with pauses that grow to ten seconds: about a minute in all.
const REPETITIONS: usize = 9;
/// How often a request is repeated whose failure the caller handles.
const FEW_REPETITIONS: usize = 3;

/// Addresses and credentials of stores: variables of the environment whose names begin with `AWS_`, `GOOGLE_` or
/// `AZURE_`, as other programs use them.
#[derive(Clone, Default)]
pub struct StoreSettings(Vec<(String, String)>);

impl fmt::Debug for StoreSettings {
    /// Shows the names only: some of the values are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

impl StoreSettings {
    /// Returns those of this process.
    #[must_use]
    pub fn of_environment() -> Self {
        env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// Returns the settings of one provider, by the names that its builder parses.
    fn of<K: FromStr>(&self, prefix: &str) -> Vec<(K, &str)> {
        let settings = self.0.iter().filter(|(name, _)| name.starts_with(prefix));
        let parsed = settings.filter_map(|(name, value)| {
            Some((name.to_ascii_lowercase().parse().ok()?, value.as_str()))
        });
        parsed.collect()
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns advice about credentials if the settings have none for `provider`. A machine in the cloud may have a role
    /// instead.
    pub(crate) fn credentials_advice(&self, provider: Provider) -> Option<String> {
        let keys: &[&str] = match provider {
            Provider::S3 => &["AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE"],
            Provider::Google => &["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT"],
            Provider::Azure => &["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"],
        };
        let is_missing = keys.iter().all(|key| self.get(key).is_none());
        is_missing.then(|| {
            format!(
                "no credentials are set: the environment has neither {}",
                keys.join(" nor ")
            )
        })
    }

    /// Returns whether requests may be unencrypted, which they may on this machine, and elsewhere if the user allows it.
    fn allows_unencrypted(&self, provider: Provider) -> io::Result<bool> {
        let (prefix, allow) = match provider {
            Provider::S3 => ("AWS_", "AWS_ALLOW_HTTP"),
            Provider::Google => ("GOOGLE_", "GOOGLE_ALLOW_HTTP"),
            Provider::Azure => ("AZURE_", "AZURE_ALLOW_HTTP"),
        };
        if self.get(allow) == Some("true") {
            return Ok(true);
        }
        let mut is_local = false;
        for name in ADDRESSES.iter().filter(|name| name.starts_with(prefix)) {
            let Some(address) = self.get(name) else {
                continue;
            };
            let Some(rest) = address.strip_prefix("http://") else {
                continue;
            };
            if !is_loopback(rest) {
                return Err(io::Error::other(format!(
                    "{name}={address} is not encrypted; use https://, or set {allow}=true"
                )));
            }
            is_local = true;
        }
        Ok(is_local)
    }
}

impl FromIterator<(String, String)> for StoreSettings {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        const PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
        let is_one = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let variables = variables.into_iter().filter(|(name, _)| is_one(name));
        Self(variables.collect())
    }
}

/// Environment variables that give a store's address.
const ADDRESSES: [&str; 5] = [
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT",
    "GOOGLE_BASE_URL",
    "AZURE_STORAGE_ENDPOINT",
];

/// Opens the bucket of `url`.
///
/// # Errors
/// When the settings name a wrong or an unencrypted address, or lack credentials.
pub(crate) fn connect(
    url: &ObjectUrl,
    settings: &StoreSettings,
    patience: Patience,
) -> io::Result<Arc<dyn ObjectStore>> {
    let client = client(patience).with_allow_http(settings.allows_unencrypted(url.provider)?);
    let retry = retry(patience);
    let bucket = &url.bucket;
    let opened: object_store::Result<Arc<dyn ObjectStore>> = match url.provider {
        Provider::S3 => {
            let mut builder = AmazonS3Builder::new().with_bucket_name(bucket);
            for (key, value) in settings.of::<AmazonS3ConfigKey>("AWS_") {
                builder = builder.with_config(key, value);
            }
            let builder = builder.with_client_options(client).with_retry(retry);
            builder.build().map(|store| Arc::new(store) as _)
        }
        Provider::Google => {
            let mut builder = GoogleCloudStorageBuilder::new().with_bucket_name(bucket);
            for (key, value) in settings.of::<GoogleConfigKey>("GOOGLE_") {
                builder = builder.with_config(key, value);
            }
            let builder = builder.with_client_options(client).with_retry(retry);
            builder.build().map(|store| Arc::new(store) as _)
        }
        Provider::Azure => {
            let mut builder = MicrosoftAzureBuilder::new().with_container_name(bucket);
            for (key, value) in settings.of::<AzureConfigKey>("AZURE_") {
                builder = builder.with_config(key, value);
            }
            let builder = builder.with_client_options(client).with_retry(retry);
            builder.build().map(|store| Arc::new(store) as _)
        }
    };
    opened.map_err(|error| io_error(error, url))
}

/// Returns the settings of a client whose requests are given up after a time that `patience` decides.
pub(crate) fn client(patience: Patience) -> ClientOptions {
    // Fails if a provider was chosen before, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    ClientOptions::new()
        .with_connect_timeout(CONNECT)
        .with_timeout(match patience {
            Patience::Brief => ANSWER,
            Patience::Long => REQUEST,
        })
        .with_read_timeout(STALL)
}

/// Returns how often requests that fail are repeated.
pub(crate) fn retry(patience: Patience) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(10),
            base: 2.0,
        },
        max_retries: match patience {
            Patience::Brief => FEW_REPETITIONS,
            Patience::Long => REPETITIONS,
        },
        retry_timeout: match patience {
            Patience::Brief => 2 * ANSWER,
            Patience::Long => REQUEST,
        },
    }
}

/// Returns whether the host of an address without its scheme is this machine.
fn is_loopback(address: &str) -> bool {
    let authority = address.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost"
        || host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Waits before a request is repeated.
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Carries out requests, and waits for the last one.
///
/// # Errors
/// When the runtime cannot start, or the request's own error.
pub(crate) fn block<T>(future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    runtime()?.block_on(future)
}

/// Waits for the end of work that consists of any number of requests, at most for the time `within`.
pub(crate) fn block_within<T>(
    within: Duration,
    future: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    block(async {
        let ended = tokio::time::timeout(within, future).await;
        ended.map_err(|_| {
            let what = format!("it did not end within {} s", within.as_secs());
            io::Error::new(io::ErrorKind::TimedOut, what)
        })?
    })
}

/// Begins a request. The result is that of the request, or the reason for which it has none.
pub(crate) async fn spawn<T: Send + 'static>(
    future: impl Future<Output = io::Result<T>> + Send + 'static,
) -> io::Result<T> {
    match runtime()?.spawn(future).await {
        Ok(done) => done,
        Err(error) => Err(io::Error::other(error)),
    }
}

fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let start = || {
        let mut builder = Builder::new_multi_thread();
        let builder = builder
            .worker_threads(2)
            .thread_name("objects")
            .enable_all();
        builder.build().map_err(|error| error.to_string())
    };
    let runtime = RUNTIME.get_or_init(start).as_ref();
    runtime.map_err(|why| io::Error::other(format!("cannot start its threads: {why}")))
}

#[cfg(test)]
mod tests {
    use super::{StoreSettings, is_loopback};

    #[test]
    fn values_are_not_shown() {
        let variables = [("AWS_SECRET_ACCESS_KEY", "hidden"), ("OTHER", "x")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings: StoreSettings = variables.into_iter().collect();
        assert_eq!(format!("{settings:?}"), "[\"AWS_SECRET_ACCESS_KEY\"]");
    }

    #[test]
    fn this_machine_is_recognised() {
        for address in [
            "localhost:8333",
            "127.0.0.1",
            "127.0.0.2:80/x",
            "[::1]:8333/",
        ] {
            assert!(is_loopback(address), "{address}");
        }
        for address in [
            "example.org",
            "localhost.example.org:80",
            "10.0.0.1:8333",
            "127.0.0.1.example.org",
            "user@127.0.0.1",
            "[2001:db8::1]:80",
        ] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
