//! What a client does when its registry is slow, busy, or not what it seems.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::credentials::{RegistryCredentials, UserPassword};
use crate::exchange::RequestTimes;
use crate::manifest::ComponentDescription;
use crate::test_registry::{AskedRequest, GivenAnswer, Pace, TestRegistry, sha256};
use crate::{
    ContentDigest, PulledComponent, RegistryClient, RegistryError, RegistryErrorKind,
    RegistryReference, TagState,
};

/// Times that a test can wait for.
const SHORT: RequestTimes = RequestTimes {
    connect: Duration::from_secs(5),
    stall: Duration::from_millis(300),
    transfer: Duration::from_millis(300),
    pauses: &[Duration::from_millis(1), Duration::from_millis(1)],
};
/// Times of tests that wait for nothing.
const PATIENT: RequestTimes = RequestTimes {
    stall: Duration::from_secs(60),
    transfer: Duration::from_secs(60),
    ..SHORT
};
const COMPONENT: &[u8] = b"as good as a component";
const SECRET: &str = "hidden";

fn client(registry: &TestRegistry, path: &str, times: RequestTimes) -> RegistryClient {
    let reference = RegistryReference::parse(&registry.reference(path)).unwrap();
    let credentials = RegistryCredentials::of_user(UserPassword {
        user: "me".to_owned(),
        password: SECRET.to_owned(),
    });
    RegistryClient::with_times(reference, credentials, times).unwrap()
}

/// Pulls the component `o` from a registry with these answers.
fn pull(
    twist: impl Fn(&AskedRequest, GivenAnswer) -> GivenAnswer + Send + Sync + 'static,
    times: RequestTimes,
) -> Result<PulledComponent, RegistryError> {
    let registry = TestRegistry::with(twist);
    registry.store("o", "1", COMPONENT);
    client(&registry, "o:1", times).pull(1000)
}

/// Pulls the component `o` from a registry that changes answers for the component itself.
fn pull_blob(
    twist: impl Fn(GivenAnswer) -> GivenAnswer + Send + Sync + 'static,
    times: RequestTimes,
) -> Result<PulledComponent, RegistryError> {
    let twist = move |request: &AskedRequest, answer| match request.path.contains("/blobs/") {
        true => twist(answer),
        false => answer,
    };
    pull(twist, times)
}

#[track_caller]
fn fails(found: Result<PulledComponent, RegistryError>, kind: RegistryErrorKind, words: &str) {
    let error = found.unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
    assert!(error.to_string().contains("oci://127.0.0.1:"), "{error}");
    assert!(!error.to_string().contains(SECRET), "{error}");
    assert_eq!(error.kind(), kind, "{error}");
}

#[test]
fn a_component_is_pulled_as_it_was_pushed() {
    let registry = TestRegistry::start();
    let described = ComponentDescription::default();
    let pushed = client(&registry, "a/b:1", PATIENT).push(COMPONENT.to_vec(), &described);
    let pushed = pushed.unwrap();
    assert_eq!(pushed.replaced, None);
    let pulled = client(&registry, "a/b:1", PATIENT).pull(1000).unwrap();
    assert_eq!(
        (&pulled.bytes[..], &pulled.reference),
        (COMPONENT, &pushed.reference)
    );
    assert_eq!(pulled.tag, Some(TagState::Pulled));
    let again = client(&registry, "a/b:1", PATIENT).push(COMPONENT.to_vec(), &described);
    assert_eq!(again.unwrap().reference, pushed.reference);
    let other = client(&registry, "a/b:1", PATIENT).push(b"other".to_vec(), &described);
    assert_eq!(other.unwrap().replaced.as_ref(), pushed.reference.digest());
    let path = pushed.reference.to_string();
    let path = path.split_once("/a/").unwrap().1;
    let pulled = client(&registry, &format!("a/{path}"), PATIENT)
        .pull(1000)
        .unwrap();
    assert_eq!(pulled.bytes, COMPONENT);
    assert!(matches!(pulled.tag, Some(TagState::Other(_))));
}

#[test]
fn what_a_registry_sends_is_not_believed() {
    use RegistryErrorKind::{Content, Service};
    let other = |answer: GivenAnswer| GivenAnswer {
        body: b"as bad as a component.".to_vec(),
        ..answer
    };
    fails(
        pull_blob(other, PATIENT),
        Content,
        "another component than the manifest names",
    );
    let longer = |answer: GivenAnswer| GivenAnswer {
        body: vec![0; 100_000],
        ..answer
    };
    fails(
        pull_blob(longer, PATIENT),
        Content,
        "sends more than 22 bytes for the component",
    );
    let shorter = |answer: GivenAnswer| GivenAnswer::new(answer.status, &COMPONENT[..5]);
    fails(
        pull_blob(shorter, PATIENT),
        Content,
        "sends 5 bytes for the component instead of 22",
    );
    let broken = |answer: GivenAnswer| GivenAnswer {
        claimed: Some(22),
        body: COMPONENT[..5].to_vec(),
        ..answer
    };
    fails(
        pull_blob(broken, PATIENT),
        Service,
        "the connection ends after 5 bytes",
    );
    let lost = |_| GivenAnswer::new(404, "");
    fails(
        pull_blob(lost, PATIENT),
        Content,
        "not the component that it names",
    );
    let large = |request: &AskedRequest, answer| match request.path.contains("/manifests/") {
        true => GivenAnswer::new(200, vec![b' '; 5 << 20]),
        false => answer,
    };
    fails(
        pull(large, PATIENT),
        Content,
        "more than 4194304 bytes for the manifest",
    );
    let swapped =
        |_: &AskedRequest, answer: GivenAnswer| answer.with("docker-content-digest", sha256(b""));
    fails(
        pull(swapped, PATIENT),
        Content,
        "another manifest than that of sha256:e3b0",
    );
}

#[test]
fn a_digest_is_checked_whatever_the_registry_says() {
    let registry =
        TestRegistry::with(
            |request, answer| match request.path.contains("/manifests/") {
                true => GivenAnswer::new(200, r#"{"schemaVersion":2,"layers":[]}"#),
                false => answer,
            },
        );
    let digest = ContentDigest::of(b"wanted");
    let found = client(&registry, &format!("o@{digest}"), PATIENT).pull(1000);
    fails(
        found,
        RegistryErrorKind::Content,
        &format!("than that of {digest}"),
    );
}

#[test]
fn components_over_the_limit_are_not_asked_for() {
    let registry = TestRegistry::start();
    registry.store("o", "1", COMPONENT);
    let found = client(&registry, "o:1", PATIENT).pull(21);
    fails(
        found,
        RegistryErrorKind::Content,
        "has 22 bytes, more than the 21",
    );
    assert!(
        registry
            .asked()
            .iter()
            .all(|asked| !asked.path.contains("/blobs/"))
    );
}

#[test]
fn slow_registries_are_given_up() {
    let paced = |pace| move |answer| GivenAnswer { pace, ..answer };
    for (pace, words) in [
        (Pace::Never, "does not answer in time"),
        (
            Pace::HeadersOnly,
            "stops sending the component after 0 bytes",
        ),
        (Pace::Trickle, "is too slow"),
    ] {
        fails(
            pull_blob(paced(pace), SHORT),
            RegistryErrorKind::Service,
            words,
        );
    }
}

#[test]
fn busy_registries_are_asked_again_a_few_times() {
    for (status, refusals, succeeds) in [
        (429, 2, true),
        (503, 2, true),
        (503, 3, false),
        (500, 3, false),
    ] {
        let count = Arc::new(AtomicUsize::new(0));
        let asked = Arc::clone(&count);
        let found = pull_blob(
            move |answer| match asked.fetch_add(1, Ordering::SeqCst) < refusals {
                true => GivenAnswer::new(status, "busy"),
                false => answer,
            },
            PATIENT,
        );
        assert_eq!(count.load(Ordering::SeqCst), 3);
        match succeeds {
            true => assert_eq!(found.unwrap().bytes, COMPONENT),
            false => fails(found, RegistryErrorKind::Service, "busy or out of order"),
        }
    }
    let long = |_| GivenAnswer::new(429, "").with("retry-after", "100000");
    fails(
        pull_blob(long, PATIENT),
        RegistryErrorKind::Service,
        "repeated after 100000 s",
    );
}

#[test]
fn refusals_say_what_to_do_and_repeat_nothing() {
    use RegistryErrorKind::{Content, Service};
    for (status, kind, words) in [
        (401, Service, "log in"),
        (403, Service, "denies access to the component (403 DENIED)"),
        (418, Service, "answers 418 DENIED for the component"),
    ] {
        let text = format!(r#"{{"errors":[{{"code":"DENIED","message":"{SECRET}"}}]}}"#);
        let refused = move |_| GivenAnswer::new(status, text.clone());
        fails(pull_blob(refused, PATIENT), kind, words);
    }
    let repeated = |_| GivenAnswer::new(400, format!(r#"{{"errors":[{{"code":"{SECRET}"}}]}}"#));
    fails(
        pull_blob(repeated, PATIENT),
        Service,
        "answers 400 for the component",
    );
    let missing = |_: &AskedRequest, _| GivenAnswer::new(404, "");
    fails(pull(missing, PATIENT), Content, "has no such component");
    let index = r#"{"schemaVersion":2,"manifests":[]}"#;
    let list = move |_: &AskedRequest, _| GivenAnswer::new(200, index);
    fails(pull(list, PATIENT), Content, "a list of manifests");
}

#[test]
fn redirections_are_followed_without_the_credentials() {
    let storage = TestRegistry::with(|_, _| GivenAnswer::new(200, COMPONENT));
    let target = format!("http://127.0.0.1:{}/stored", storage.port());
    let registry = TestRegistry::with(move |request, answer| {
        if !request.headers.contains_key("authorization") {
            return GivenAnswer::new(401, "").with("www-authenticate", "Basic realm=\"x\"");
        }
        match request.path.contains("/blobs/") {
            true => GivenAnswer::new(307, "").with("location", &target),
            false => answer,
        }
    });
    registry.store("o", "1", COMPONENT);
    let pulled = client(&registry, "o:1", PATIENT).pull(1000).unwrap();
    assert_eq!(pulled.bytes, COMPONENT);
    assert!(
        registry
            .asked()
            .iter()
            .any(|asked| asked.headers.contains_key("authorization"))
    );
    let asked = storage.asked();
    assert_eq!(asked.len(), 1);
    assert!(!asked[0].headers.contains_key("authorization"), "{asked:?}");
}

#[test]
fn redirections_to_other_schemes_are_refused() {
    for (location, words) in [
        ("http://example.org/x", "not encrypted"),
        ("ftp://127.0.0.1/x", "not encrypted"),
        ("file:///etc/passwd", "not encrypted"),
        ("http://", "no valid `Location`"),
    ] {
        let moved = move |_| GivenAnswer::new(302, "").with("location", location);
        fails(pull_blob(moved, PATIENT), RegistryErrorKind::Service, words);
    }
    let nowhere = |_| GivenAnswer::new(302, "");
    fails(
        pull_blob(nowhere, PATIENT),
        RegistryErrorKind::Service,
        "no valid `Location`",
    );
    let circle =
        |request: &AskedRequest, _| GivenAnswer::new(302, "").with("location", &request.path);
    fails(
        pull(circle, PATIENT),
        RegistryErrorKind::Service,
        "more than 5 times",
    );
}

/// Returns a registry that wants a token of the service at `realm`.
fn with_tokens(realm: impl Fn(&AskedRequest) -> String + Send + Sync + 'static) -> TestRegistry {
    TestRegistry::with(move |request, answer| {
        let authorization = request.headers.get("authorization");
        if request.path.starts_with("/token?") {
            return match authorization {
                Some(basic) if basic.starts_with("Basic ") => {
                    GivenAnswer::new(200, r#"{"token":"t0ken"}"#)
                }
                _ => GivenAnswer::new(401, ""),
            };
        }
        match authorization.is_some_and(|value| value == "Bearer t0ken") {
            true => answer,
            false => {
                let header = format!("Bearer realm=\"{}\",service=\"s\"", realm(request));
                GivenAnswer::new(401, "").with("www-authenticate", header)
            }
        }
    })
}

#[test]
fn tokens_are_asked_for_with_the_rights_that_are_needed() {
    let registry = with_tokens(|request| format!("http://{}/token", request.headers["host"]));
    let described = ComponentDescription::default();
    client(&registry, "o:1", PATIENT)
        .push(COMPONENT.to_vec(), &described)
        .unwrap();
    client(&registry, "o:1", PATIENT).pull(1000).unwrap();
    let asked: Vec<String> = registry
        .asked()
        .into_iter()
        .map(|asked| asked.path)
        .collect();
    let tokens: Vec<&String> = asked
        .iter()
        .filter(|path| path.starts_with("/token"))
        .collect();
    assert_eq!(
        tokens,
        [
            "/token?service=s&scope=repository%3Ao%3Apull%2Cpush",
            "/token?service=s&scope=repository%3Ao%3Apull"
        ]
    );
}

#[test]
fn credentials_are_not_sent_to_other_token_services() {
    for (realm, words) in [
        (
            "https://example.org/token",
            "token service in another domain",
        ),
        ("http://example.org/token", "not encrypted"),
        ("nowhere", "no valid token service"),
    ] {
        let registry = with_tokens(|_| realm.to_owned());
        let found = client(&registry, "o:1", PATIENT).pull(1000);
        fails(found, RegistryErrorKind::Service, words);
    }
}

#[test]
fn a_registry_that_is_not_there_is_said_to_be_unreachable() {
    let registry = TestRegistry::start();
    let client = client(&registry, "o:1", PATIENT);
    drop(registry);
    let mut client = client;
    fails(
        client.pull(1000),
        RegistryErrorKind::Service,
        "cannot be reached",
    );
}
