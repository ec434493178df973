//! Fuzzing of the answers of an OCI registry: manifests, contents, tokens, headers and redirections, as a registry on this
//! machine that lies sends them.

#[path = "../registry_server.rs"]
mod registry_server;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pbg_fuzz::{Dice, bytes, json, text};
use pbg_registry::{
    ComponentDescription, RegistryClient, RegistryCredentials, RegistryError, RegistryReference,
    RequestTimes,
};

use crate::{fuzz, turn};
use registry_server::{AskedRequest, GivenAnswer, TestRegistry, sha256};

const COMPONENT: &[u8] = b"as good as a component";
/// Beginning of every component that is pushed.
const OWN: &[u8] = b"a component of its own, number ";
/// Size of the largest component that is pulled.
const LIMIT: u64 = 1 << 16;
const PASSWORD: &str = "hidden-from-everyone";
/// Word in everything that the registry sends, which no message may repeat.
const ECHO: &str = "said-by-the-server";
const TIMES: RequestTimes = RequestTimes {
    connect: Duration::from_secs(10),
    stall: Duration::from_secs(60),
    transfer: Duration::from_secs(60),
    pauses: &[Duration::from_millis(1)],
};

/// Headers that a client reads.
const HEADERS: [&str; 5] = [
    "location",
    "www-authenticate",
    "docker-content-digest",
    "retry-after",
    "content-type",
];

/// What a registry may send and a client must not follow far: addresses, and ways to log in. `HERE` is the registry.
const VALUES: [&str; 16] = [
    "/v2/o/manifests/1",
    "HERE/v2/o/manifests/1?said-by-the-server",
    "../../..",
    "https://127.0.0.1:1/said-by-the-server",
    "http://registry.invalid/said-by-the-server",
    "file:///etc/passwd",
    "http://[::1",
    "",
    "Bearer realm=\"HERE/token\",service=\"said-by-the-server\"",
    "Bearer realm=\"HERE/token",
    "Bearer realm=http://registry.invalid/token",
    "Bearer service=\"x\"",
    "Basic realm=\"said-by-the-server\"",
    "Digest realm=\"HERE\"",
    "sha256:0000000000000000000000000000000000000000000000000000000000000000",
    "18446744073709551615",
];

/// Changes some answers of an honest registry that wants a token.
fn lie(dice: &mut Dice, here: &str, request: &AskedRequest, honest: GivenAnswer) -> GivenAnswer {
    let mut answer = match request.path.starts_with("/token") {
        true => GivenAnswer::new(
            200,
            format!(r#"{{"token":"t","expires_in":60,"by":"{ECHO}"}}"#),
        ),
        false if request.headers.contains_key("authorization") || dice.once_in(3) => honest,
        false => GivenAnswer::new(401, format!(r#"{{"errors":[{{"code":"{ECHO}"}}]}}"#)).with(
            "www-authenticate",
            format!("Bearer realm=\"http://{here}/token\",service=\"{ECHO}\""),
        ),
    };
    if dice.once_in(2) {
        return answer;
    }
    match dice.below(6) {
        0 => answer.body = bytes(dice, &answer.body, COMPONENT),
        1 | 2 => answer.body = document(dice, &answer.body),
        3 => answer.status = *dice.pick(&[200, 204, 206, 301, 307, 308, 400, 401, 404, 429, 503]),
        4 => answer.claimed = Some(*dice.pick(&[0, 1, 1 << 20, usize::MAX >> 1])),
        _ => {}
    }
    let to_change = *dice.pick(&HEADERS);
    let value = match dice.below(4) {
        0 => return answer,
        1 => {
            // Lines would end the header.
            let known = answer.headers.get(to_change).cloned();
            let changed = text(dice, &known.unwrap_or_default(), ECHO);
            changed.replace(['\r', '\n'], " ")
        }
        _ => dice
            .pick(&VALUES)
            .replace("HERE", &format!("http://{here}")),
    };
    if to_change == "location" && answer.status == 200 {
        answer.status = 307;
    }
    answer.with(to_change, value)
}

/// Changes values of a document, if it is one.
fn document(dice: &mut Dice, body: &[u8]) -> Vec<u8> {
    match serde_json::from_slice(body) {
        Ok(mut document) => {
            json(dice, &mut document);
            document.to_string().into_bytes()
        }
        Err(_) => bytes(
            dice,
            body,
            b"{\"layers\":[{\"size\":18446744073709551615}]}",
        ),
    }
}

fn assert_told(error: &RegistryError) {
    let told = format!("{error} {}", error.help().unwrap_or_default());
    assert!(!told.contains(PASSWORD), "{told}");
    assert!(!told.contains(ECHO), "{told}");
    assert!(told.len() < 2000, "{told}");
}

#[test]
fn registry_answers() {
    let turn = turn();
    let state = Arc::new(Mutex::new((Dice::new(0), String::new())));
    let shared = Arc::clone(&state);
    let uploads = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&uploads);
    let registry = TestRegistry::with(move |request, honest| {
        let (dice, here) = &mut *shared.lock().unwrap();
        let is_stored = request.method == "PUT" && honest.status == 201;
        if is_stored && request.body.starts_with(OWN) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        lie(dice, here, request, honest)
    });
    let here = format!("127.0.0.1:{}", registry.port());
    state.lock().unwrap().1.clone_from(&here);
    fuzz(turn, "registry_answers", 150, 64 << 20, |dice, _| {
        // What an earlier input has stored would answer this one.
        registry.reset();
        let digest = registry.store("o", "1", COMPONENT);
        state.lock().unwrap().0 = Dice::new(dice.bits());
        let by_digest = dice.once_in(2);
        let path = match by_digest {
            true => format!("o:1@{digest}"),
            false => "o:1".to_owned(),
        };
        let client = |path: &str| {
            let reference = RegistryReference::parse(&registry.reference(path)).unwrap();
            let credentials = RegistryCredentials::of_password("me", PASSWORD);
            RegistryClient::with_times(reference, credentials, TIMES).unwrap()
        };
        let pulled = match client(&path).pull(LIMIT) {
            Ok(pulled) => {
                assert!(pulled.bytes.len() as u64 <= LIMIT);
                assert_eq!(sha256(&pulled.bytes), pulled.digest.to_string());
                // A digest names one component, whatever the registry says.
                assert!(!by_digest || pulled.bytes == COMPONENT);
                true
            }
            Err(error) => {
                assert_told(&error);
                false
            }
        };
        let described = ComponentDescription {
            name: "mine".to_owned(),
            ..ComponentDescription::default()
        };
        // The registry has the first component already, and would not have it sent.
        let own = [OWN, dice.bits().to_string().as_bytes()].concat();
        let pushed = client("pushed:1").push(own, &described);
        pushed.as_ref().err().into_iter().for_each(assert_told);
        pulled || pushed.is_ok()
    });
    let stored = uploads.load(Ordering::Relaxed);
    assert!(
        stored > 0 || std::env::var("PBG_FUZZ").is_ok(),
        "nothing was uploaded"
    );
}
