//! Folders on partition servers, which speak S3's protocol.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::{Certificate, ClientOptions};
use pbg_files::remote::{Patience, RemoteFolder};

use crate::connection::{client, retry};
use crate::error::io_error;
use crate::object_folder::ObjectFolder;
use crate::url::{ObjectUrl, Provider};

/// Time that a connection gets.
const CONNECT: Duration = Duration::from_secs(5);
/// Time that a request gets with its content, at most a part of a file.
const TRANSFER: Duration = Duration::from_secs(60);
/// Time without a byte of an answer.
const STALL: Duration = Duration::from_secs(10);

/// How the partition servers of a run are reached.
#[derive(Clone, Default)]
pub struct PartitionServerAccess {
    /// Name and secret of the key with which requests are signed; `None` if servers require none.
    pub key: Option<(String, String)>,
    /// Certificate (PEM) of the authority that has signed those of the servers; `None` if connections are not encrypted.
    pub authority: Option<String>,
}

impl fmt::Debug for PartitionServerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartitionServerAccess")
    }
}

/// Opens the bucket of the partition server at `address`, `host:port`. Requests that fail are repeated for a few seconds.
/// Nothing is asked yet.
///
/// # Errors
/// When the address or the certificate cannot be used.
pub fn open_server(
    address: &str,
    bucket: &str,
    access: &PartitionServerAccess,
) -> io::Result<Arc<dyn RemoteFolder>> {
    let url = ObjectUrl {
        provider: Provider::S3,
        bucket: bucket.to_owned(),
        folder: String::new(),
        is_partition_server: true,
    };
    let failed = |error| io_error(error, &url);
    let mut options: ClientOptions = client(Patience::Long)
        .with_connect_timeout(CONNECT)
        .with_timeout(TRANSFER)
        .with_read_timeout(STALL);
    let scheme = match &access.authority {
        None => {
            options = options.with_allow_http(true);
            "http"
        }
        Some(pem) => {
            let authority = Certificate::from_pem(pem.as_bytes()).map_err(failed)?;
            options = options.with_root_certificate(authority);
            "https"
        }
    };
    let builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_endpoint(format!("{scheme}://{address}"))
        .with_region("us-east-1")
        // Files have checksums of their own, which the ledger names.
        .with_unsigned_payload(true)
        .with_disable_bulk_delete(true)
        .with_client_options(options)
        .with_retry(retry(Patience::Brief));
    let builder = match &access.key {
        Some((id, secret)) => builder
            .with_access_key_id(id)
            .with_secret_access_key(secret),
        None => builder.with_skip_signature(true),
    };
    let store = Arc::new(builder.build().map_err(failed)?);
    Ok(Arc::new(ObjectFolder::of_store(url, store)))
}
