//! Requests to a registry: with repetitions, redirections and tokens, and answers that are read up to a limit.

mod challenge;

use std::io::Read as _;
use std::time::Duration;

use bytes::Bytes;
use reqwest::blocking::{Client, RequestBuilder, Response};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use reqwest::redirect::Policy;
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;

use self::challenge::{Challenge, shares_domain};
use crate::credentials::RegistryCredentials;
use crate::error::RegistryError;
use crate::reference::{RegistryReference, is_loopback};

/// Redirections that a request follows.
const REDIRECTIONS: usize = 5;
/// Longest pause (seconds) that a registry may ask for.
const LONGEST_PAUSE: u64 = 30;
/// Size of the largest answer of a token service.
const TOKEN_BYTES: u64 = 1 << 20;
/// Size of the largest description of an error that is read.
const REASON_BYTES: u64 = 1 << 16;
/// Bytes that are read at a time.
const CHUNK: usize = 1 << 16;

/// Codes of errors in the specification of registries. Others are not shown, since a server may write anything there.
const ERROR_CODES: [&str; 14] = [
    "BLOB_UNKNOWN",
    "BLOB_UPLOAD_INVALID",
    "BLOB_UPLOAD_UNKNOWN",
    "DENIED",
    "DIGEST_INVALID",
    "MANIFEST_BLOB_UNKNOWN",
    "MANIFEST_INVALID",
    "MANIFEST_UNKNOWN",
    "NAME_INVALID",
    "NAME_UNKNOWN",
    "SIZE_INVALID",
    "TOOMANYREQUESTS",
    "UNAUTHORIZED",
    "UNSUPPORTED",
];

/// How long requests may take, and how often they are repeated.
#[derive(Clone, Copy, Debug)]
pub struct RequestTimes {
    /// Until there is a connection.
    pub connect: Duration,
    /// Until an answer begins or goes on.
    pub stall: Duration,
    /// For a whole content, sent or received.
    pub transfer: Duration,
    /// Before each repetition.
    pub pauses: &'static [Duration],
}

impl RequestTimes {
    /// Times for registries in a network.
    pub const USUAL: Self = Self {
        connect: Duration::from_secs(10),
        stall: Duration::from_secs(60),
        transfer: Duration::from_secs(600),
        pauses: &[
            Duration::from_millis(500),
            Duration::from_secs(1),
            Duration::from_secs(2),
            Duration::from_secs(4),
        ],
    };
}

/// Request of the registry's interface.
pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// What is asked for or sent, for messages.
    pub(crate) what: &'static str,
    /// Media types of the answer.
    pub(crate) accept: Option<&'static str>,
    /// Media type and content to send.
    pub(crate) content: Option<(&'static str, Bytes)>,
}

impl ApiRequest {
    /// Creates a request without content.
    pub(crate) fn new(method: Method, url: Url, what: &'static str) -> Self {
        Self {
            method,
            url,
            what,
            accept: None,
            content: None,
        }
    }

    fn reads(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }
}

/// Connection to one registry for one repository.
pub(crate) struct RegistryExchange {
    http: Client,
    base: Url,
    credentials: RegistryCredentials,
    /// Rights to ask for.
    scope: String,
    authorization: Option<HeaderValue>,
    times: RequestTimes,
}

/// Answer of a token service.
#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

/// Descriptions of errors in an answer.
#[derive(Deserialize)]
struct ErrorAnswer {
    errors: Vec<ErrorCode>,
}

#[derive(Deserialize)]
struct ErrorCode {
    code: String,
}

impl RegistryExchange {
    /// Prepares requests to the registry of `reference`, with the right to pull.
    pub(crate) fn new(
        reference: &RegistryReference,
        credentials: RegistryCredentials,
        times: RequestTimes,
    ) -> Result<Self, RegistryError> {
        let base = reference.base()?;
        // Fails if a provider was chosen before, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(times.connect)
            .timeout(times.stall)
            .user_agent(concat!("pbg-host/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&base) {
            client = client.no_proxy();
        }
        let http = client.build().map_err(|error| {
            RegistryError::service(format!("cannot make connections: {}", cause_of(&error)))
        })?;
        Ok(Self {
            http,
            base,
            credentials,
            scope: format!("repository:{}:pull", reference.repository()),
            authorization: None,
            times,
        })
    }

    /// Also asks for the right to push from now on.
    pub(crate) fn ask_to_push(&mut self) {
        self.scope.push_str(",push");
        self.authorization = None;
    }

    /// Returns the address `path` in the registry's interface.
    pub(crate) fn url(&self, path: &str) -> Result<Url, RegistryError> {
        let joined = self.base.join(path);
        joined.map_err(|error| RegistryError::usage(format!("has no valid address: {error}")))
    }

    /// Sends a request; `None` if the registry does not have what it asks for.
    pub(crate) fn send(&mut self, request: &ApiRequest) -> Result<Option<Response>, RegistryError> {
        let mut url = request.url.clone();
        let (mut is_renewed, mut redirections) = (false, 0);
        loop {
            let response = self.repeated(|| self.prepared(request, &url), request.what)?;
            match response.status() {
                status if status.is_success() => return Ok(Some(response)),
                StatusCode::NOT_FOUND if request.reads() => return Ok(None),
                StatusCode::UNAUTHORIZED if !is_renewed && self.is_own(&url) => {
                    self.authorize(&response)?;
                    is_renewed = true;
                }
                status if status.is_redirection() && request.reads() => {
                    if redirections == REDIRECTIONS {
                        return Err(RegistryError::service(format!(
                            "the registry redirects {} more than {REDIRECTIONS} times",
                            request.what
                        )));
                    }
                    redirections += 1;
                    url = self.location(&url, &response, request.what)?;
                }
                _ => return Err(self.refused(response, request.what)),
            }
        }
    }

    /// Returns the address in an answer's header `Location`, which must be as safe as the registry's own.
    pub(crate) fn location(
        &self,
        from: &Url,
        response: &Response,
        what: &str,
    ) -> Result<Url, RegistryError> {
        let location = header(response, LOCATION).and_then(|text| from.join(text).ok());
        let Some(url) = location else {
            return Err(RegistryError::service(format!(
                "the registry does not say where {what} is: its answer has no valid `Location`"
            )));
        };
        self.check_encryption(&url, &format!("the registry redirects {what}"))?;
        Ok(url)
    }

    /// Reads an answer of at most `limit` bytes.
    pub(crate) fn read(
        &self,
        mut response: Response,
        limit: u64,
        what: &str,
    ) -> Result<Vec<u8>, RegistryError> {
        let too_large = || {
            RegistryError::content(format!(
                "the registry sends more than {limit} bytes for {what}, which is not read further"
            ))
        };
        if response
            .content_length()
            .is_some_and(|length| length > limit)
        {
            return Err(too_large());
        }
        let start = pbg_clock::now();
        let (mut bytes, mut chunk) = (Vec::new(), vec![0; CHUNK]);
        loop {
            let count = match response.read(&mut chunk) {
                Ok(0) => return Ok(bytes),
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(lost(&error, bytes.len(), what)),
            };
            bytes.extend_from_slice(&chunk[..count]);
            if bytes.len() as u64 > limit {
                return Err(too_large());
            }
            let elapsed = pbg_clock::elapsed(start);
            if elapsed > self.times.transfer {
                return Err(RegistryError::service(format!(
                    "the registry is too slow: {} bytes of {what} in {} s; try again later",
                    bytes.len(),
                    elapsed.as_secs()
                )));
            }
        }
    }

    fn prepared(&self, request: &ApiRequest, url: &Url) -> RequestBuilder {
        let mut prepared = self.http.request(request.method.clone(), url.clone());
        if let Some(accept) = request.accept {
            prepared = prepared.header(ACCEPT, accept);
        }
        if let Some((media_type, content)) = &request.content {
            prepared = prepared
                .header(CONTENT_TYPE, *media_type)
                .body(content.clone());
            prepared = prepared.timeout(self.times.transfer);
        }
        match &self.authorization {
            Some(value) if self.is_own(url) => prepared.header(AUTHORIZATION, value.clone()),
            _ => prepared,
        }
    }

    /// Sends a request, again after a pause if the registry is busy or the connection is lost.
    fn repeated(
        &self,
        prepare: impl Fn() -> RequestBuilder,
        what: &str,
    ) -> Result<Response, RegistryError> {
        let mut pauses = self.times.pauses.iter();
        loop {
            let sent = prepare().send();
            let wanted = match &sent {
                Ok(response) => pause_after(response),
                Err(error) if is_passing(error) => Some(None),
                Err(_) => None,
            };
            let Some((wanted, usual)) = wanted.and_then(|wanted| Some((wanted, pauses.next()?)))
            else {
                return sent.map_err(|error| self.unreachable(&error, what));
            };
            match wanted {
                None => pbg_clock::sleep(*usual),
                Some(seconds) if seconds <= LONGEST_PAUSE => {
                    pbg_clock::sleep(Duration::from_secs(seconds));
                }
                Some(seconds) => {
                    return Err(RegistryError::service(format!(
                        "the registry is busy and asks for {what} to be repeated after {seconds} s; try again then"
                    )));
                }
            }
        }
    }

    /// Obtains what the registry wants to see of the user.
    fn authorize(&mut self, response: &Response) -> Result<(), RegistryError> {
        let challenges = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let challenges = challenges.filter_map(|value| Challenge::parse(value.to_str().ok()?));
        let mut challenges: Vec<Challenge> = challenges.collect();
        // A token before a password.
        challenges.sort_by_key(|challenge| matches!(challenge, Challenge::Basic));
        let value = match challenges.first() {
            Some(Challenge::Bearer { realm, service }) => {
                let token = self.token(realm, service.as_deref())?;
                format!("Bearer {token}")
            }
            Some(Challenge::Basic) => match self.credentials.user() {
                Some(user) => challenge::basic(user),
                None => return Err(self.unauthorized()),
            },
            None => {
                return Err(RegistryError::service(
                    "the registry wants the user to log in, in no way that pbg-host knows (a token or a password)",
                ));
            }
        };
        let value = HeaderValue::from_str(&value).map(|mut value| {
            value.set_sensitive(true);
            value
        });
        self.authorization = Some(value.map_err(|_| {
            RegistryError::service(
                "the credentials or the token contain characters that HTTP does not allow",
            )
        })?);
        Ok(())
    }

    /// Asks a token service for a token.
    fn token(&self, realm: &str, service: Option<&str>) -> Result<String, RegistryError> {
        const WHAT: &str = "a token";
        let mut url = Url::parse(realm)
            .map_err(|_| RegistryError::service("the registry names no valid token service"))?;
        self.check_encryption(&url, "the registry names a token service")?;
        let user = self.credentials.user();
        if user.is_some() && !shares_domain(&self.base, &url) {
            return Err(RegistryError::service(
                "the registry names a token service in another domain, to which its credentials are not sent",
            )
            .advised("pull without credentials if the component is public, or use a registry with its own token service"));
        }
        let mut query = url.query_pairs_mut();
        if let Some(service) = service {
            query.append_pair("service", service);
        }
        query.append_pair("scope", &self.scope);
        drop(query);
        let prepare = || {
            let request = self.http.get(url.clone());
            match user {
                Some(user) => request.header(AUTHORIZATION, challenge::basic(user)),
                None => request,
            }
        };
        let response = self.repeated(prepare, WHAT)?;
        if !response.status().is_success() {
            return Err(self.refused(response, WHAT));
        }
        let answer = self.read(response, TOKEN_BYTES, WHAT)?;
        let answer: Option<TokenAnswer> = serde_json::from_slice(&answer).ok();
        let token = answer.and_then(|answer| answer.token.or(answer.access_token));
        token.ok_or_else(|| RegistryError::service("the registry's token service sends no token"))
    }

    /// Whether an address is the registry's own, to which the authorization is sent.
    fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    /// Checks that requests to an address that a server has named are encrypted, or stay on this machine.
    fn check_encryption(&self, url: &Url, what: &str) -> Result<(), RegistryError> {
        let is_local = || url.scheme() == "http" && is_loopback(url) && is_loopback(&self.base);
        match url.scheme() == "https" || is_local() {
            true => Ok(()),
            false => Err(RegistryError::service(format!(
                "{what} to an address that is not encrypted; only https:// is followed, and http:// from and to this \
                 machine"
            ))),
        }
    }

    fn unauthorized(&self) -> RegistryError {
        let text = match self.credentials.user() {
            Some(_) => "the registry does not accept the credentials (401)",
            None => "the registry wants credentials, or has no such component (401)",
        };
        RegistryError::service(text).advised(self.credentials.advice())
    }

    fn unreachable(&self, error: &reqwest::Error, what: &str) -> RegistryError {
        if error.is_timeout() && !error.is_connect() {
            return RegistryError::service(format!(
                "the registry does not answer in time when asked for {what}; try again later"
            ));
        }
        let cause = cause_of(error);
        let is_local = is_loopback(&self.base);
        let failed = match (error.is_connect(), is_local) {
            (false, _) => format!("the connection to the registry is lost ({cause})"),
            (true, true) => format!("the registry cannot be reached ({cause})"),
            (true, false) => format!("the registry cannot be reached over HTTPS ({cause})"),
        };
        RegistryError::service(failed).advised(match is_local {
            true => "check the port, and that the registry runs; on this machine it is asked without encryption",
            false => {
                "check the host and the network; a registry that is not on this machine needs HTTPS, with a certificate \
                 that this machine trusts"
            }
        })
    }

    /// Returns the error for an answer that refuses a request.
    fn refused(&self, response: Response, what: &str) -> RegistryError {
        let status = response.status();
        let answer = self.read(response, REASON_BYTES, what).unwrap_or_default();
        let answer: Option<ErrorAnswer> = serde_json::from_slice(&answer).ok();
        let found = answer.and_then(|answer| answer.errors.into_iter().next());
        let code = ERROR_CODES
            .into_iter()
            .find(|code| found.as_ref().is_some_and(|found| found.code == *code));
        let shown = match code {
            Some(code) => format!("{} {code}", status.as_u16()),
            None => status.as_u16().to_string(),
        };
        match status {
            StatusCode::UNAUTHORIZED => self.unauthorized(),
            StatusCode::FORBIDDEN => {
                RegistryError::service(format!("the registry denies access to {what} ({shown})"))
                    .advised(self.credentials.advice())
            }
            StatusCode::NOT_FOUND => {
                RegistryError::content(format!("the registry has no such repository ({shown})"))
            }
            StatusCode::PAYLOAD_TOO_LARGE => RegistryError::service(format!(
                "the registry does not store {what}, which is too large for it ({shown})"
            )),
            status if is_busy(status) => RegistryError::service(format!(
                "the registry is busy or out of order ({shown} for {what}, asked {} times); try again later",
                self.times.pauses.len() + 1
            )),
            _ => RegistryError::service(format!("the registry answers {shown} for {what}")),
        }
    }
}

/// Returns the text of a header.
pub(crate) fn header(response: &Response, name: impl Into<HeaderName>) -> Option<&str> {
    response.headers().get(name.into())?.to_str().ok()
}

fn is_busy(status: StatusCode) -> bool {
    [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ]
    .contains(&status)
}

/// Returns whether a request is to be repeated, and the pause (seconds) that the registry asks for.
fn pause_after(response: &Response) -> Option<Option<u64>> {
    let wanted = || header(response, RETRY_AFTER)?.trim().parse().ok();
    is_busy(response.status()).then(wanted)
}

/// Returns whether a connection was lost that had been made.
fn is_passing(error: &reqwest::Error) -> bool {
    error.is_request() && !error.is_connect() && !error.is_timeout()
}

/// Returns the innermost cause; the others repeat it and name addresses.
fn cause_of(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match std::ptr::addr_eq(cause, error) {
        true => "no reason is given".to_owned(),
        false => cause.to_string(),
    }
}

/// Returns the error for an answer that does not end.
fn lost(error: &std::io::Error, bytes: usize, what: &str) -> RegistryError {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<reqwest::Error>());
    RegistryError::service(match inner.is_some_and(reqwest::Error::is_timeout) {
        true => format!("the registry stops sending {what} after {bytes} bytes; try again later"),
        false => format!("the connection ends after {bytes} bytes of {what}; try again"),
    })
}
