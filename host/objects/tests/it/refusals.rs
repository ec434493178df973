//! Messages for stores that refuse, do not answer, or are not there.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use pbg_files::remote::{ObjectStores, Patience};
use pbg_objects::StoreSettings;

use crate::copies;
use crate::object_store::TestStore;

/// Returns the error of opening a folder with `changes` to the environment.
fn refused(settings: StoreSettings, url: &str) -> String {
    let (copies, _) = copies(Path::new("unused"), settings);
    copies.open(url, Patience::Long).unwrap_err().to_string()
}

fn of(variables: &[(&str, &str)]) -> StoreSettings {
    let pairs = variables.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn a_wrong_key_is_named() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let [(_, address), ..] = store.environment();
    let wrong = of(&[
        ("AWS_ENDPOINT_URL", &address),
        ("AWS_ACCESS_KEY_ID", "nobody"),
        ("AWS_SECRET_ACCESS_KEY", "guess"),
    ]);
    let error = refused(wrong, "s3://tests/copies/x");
    assert!(
        error.contains("denies access; check AWS_ACCESS_KEY_ID"),
        "{error}"
    );
}

#[test]
fn a_store_that_is_not_there_is_reported_soon() {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let address = format!("http://127.0.0.1:{port}");
    let nobody = of(&[
        ("AWS_ENDPOINT_URL", &address),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ]);
    let error = refused(nobody, "s3://tests/copies/x");
    assert!(error.contains("refused"), "{error}");
}

#[test]
fn addresses_elsewhere_are_encrypted() {
    let error = refused(
        of(&[("AWS_ENDPOINT_URL", "http://store.example")]),
        "s3://tests/copies/x",
    );
    let expected = "AWS_ENDPOINT_URL=http://store.example is not encrypted; use https://, or set AWS_ALLOW_HTTP=true";
    assert_eq!(error, expected);
}

#[test]
fn a_bucket_that_is_not_there_is_named() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let error = refused(crate::settings(&store), "s3://nowhere/x");
    assert_eq!(error, "there is no bucket `nowhere`");
}

#[test]
fn missing_credentials_are_named() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let [(_, address), ..] = store.environment();
    // Without keys, the address that gives a machine's role is asked, which is not there.
    let settings = of(&[
        ("AWS_ENDPOINT_URL", &address),
        ("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9"),
    ]);
    let error = refused(settings, "s3://tests/x");
    let advice = "no credentials are set: the environment has neither AWS_ACCESS_KEY_ID nor AWS_SKIP_SIGNATURE";
    assert!(error.ends_with(advice), "{error}");
}
