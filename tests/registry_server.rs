//! A registry on this machine that keeps contents in memory, and lies as a test wants.

#![allow(dead_code, reason = "each test crate uses a part of it")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

/// Request as the server read it.
#[derive(Clone, Debug)]
pub(crate) struct AskedRequest {
    pub(crate) method: String,
    /// Path with its query.
    pub(crate) path: String,
    /// Names in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// Answer of the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenAnswer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// Length that the header says, if it is not that of the body.
    pub(crate) claimed: Option<usize>,
    pub(crate) pace: Pace,
}

/// How fast an answer is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pace {
    #[default]
    AtOnce,
    /// Nothing is sent until the client gives up.
    Never,
    /// The headers are sent, but not the body.
    HeadersOnly,
    /// A byte every 20 ms.
    Trickle,
}

impl GivenAnswer {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            body: body.into(),
            ..Self::default()
        }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.insert(name.to_owned(), value.into());
        self
    }
}

/// What changes the answers of an honest registry.
type Twist = dyn Fn(&AskedRequest, GivenAnswer) -> GivenAnswer + Send + Sync;

/// Contents of the registry.
#[derive(Default)]
struct Contents {
    blobs: BTreeMap<String, Vec<u8>>,
    /// Manifests by repository and digest.
    manifests: BTreeMap<(String, String), Vec<u8>>,
    /// Digests by repository and tag.
    tags: BTreeMap<(String, String), String>,
    asked: Vec<AskedRequest>,
}

/// Server that ends with the test.
pub(crate) struct TestRegistry {
    address: SocketAddr,
    contents: Arc<Mutex<Contents>>,
    ends: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digits = Sha256::digest(bytes);
    let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

impl TestRegistry {
    /// Starts an honest registry.
    pub(crate) fn start() -> Self {
        Self::with(|_, answer| answer)
    }

    /// Starts a registry whose answers `twist` changes.
    pub(crate) fn with(
        twist: impl Fn(&AskedRequest, GivenAnswer) -> GivenAnswer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let contents = Arc::<Mutex<Contents>>::default();
        let ends = Arc::<AtomicBool>::default();
        let (shared, stop, twist): (_, _, Arc<Twist>) =
            (Arc::clone(&contents), Arc::clone(&ends), Arc::new(twist));
        let server = thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let (shared, twist) = (Arc::clone(&shared), Arc::clone(&twist));
                // A client that goes away is part of some tests.
                thread::spawn(move || serve(stream.ok()?, &shared, &*twist));
            }
        });
        Self {
            address,
            contents,
            ends,
            server: Some(server),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the reference `path`, which has the repository and what follows it.
    pub(crate) fn reference(&self, path: &str) -> String {
        format!("oci://{}/{path}", self.address)
    }

    /// Forgets all contents and requests.
    pub(crate) fn reset(&self) {
        *self.contents.lock().unwrap() = Contents::default();
    }

    /// Returns the requests so far.
    pub(crate) fn asked(&self) -> Vec<AskedRequest> {
        self.contents.lock().unwrap().asked.clone()
    }

    /// Stores a component with a manifest that another program would write; returns the manifest's digest.
    pub(crate) fn store(&self, repository: &str, tag: &str, component: &[u8]) -> String {
        let layer = sha256(component);
        let manifest = format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.oci.empty.v1+json","digest":"{}","size":2}},
            "layers":[{{"mediaType":"application/vnd.wasm.content.layer.v1+wasm","digest":"{layer}","size":{}}}]}}"#,
            sha256(b"{}"),
            component.len()
        );
        self.contents
            .lock()
            .unwrap()
            .blobs
            .insert(layer, component.to_vec());
        self.store_manifest(repository, tag, manifest.as_bytes())
    }

    /// Stores a manifest under a tag; returns its digest.
    pub(crate) fn store_manifest(&self, repository: &str, tag: &str, manifest: &[u8]) -> String {
        let contents = &mut *self.contents.lock().unwrap();
        contents.store_manifest(repository, tag, manifest)
    }

    /// Returns the manifest of a tag.
    pub(crate) fn manifest(&self, repository: &str, tag: &str) -> Vec<u8> {
        let contents = self.contents.lock().unwrap();
        let named = (
            repository.to_owned(),
            contents.tags[&(repository.to_owned(), tag.to_owned())].clone(),
        );
        contents.manifests[&named].clone()
    }

    /// Returns a content by its digest.
    pub(crate) fn blob(&self, digest: &str) -> Vec<u8> {
        self.contents.lock().unwrap().blobs[digest].clone()
    }
}

impl Drop for TestRegistry {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Wakes the server up.
        let _ = TcpStream::connect(self.address);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

impl Contents {
    fn store_manifest(&mut self, repository: &str, name: &str, manifest: &[u8]) -> String {
        let digest = sha256(manifest);
        self.manifests
            .insert((repository.to_owned(), digest.clone()), manifest.to_vec());
        self.tags
            .insert((repository.to_owned(), name.to_owned()), digest.clone());
        digest
    }

    /// Answers as the specification of registries says.
    fn answer(&mut self, request: &AskedRequest) -> GivenAnswer {
        let unknown = |code: &str| {
            let text = format!(r#"{{"errors":[{{"code":"{code}","message":"not here"}}]}}"#);
            GivenAnswer::new(404, text)
        };
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let path = path.strip_prefix("/v2/").unwrap_or_default();
        let method = request.method.as_str();
        if let Some((repository, name)) = path.split_once("/manifests/") {
            if method == "PUT" {
                let digest = self.store_manifest(repository, name, &request.body);
                return GivenAnswer::new(201, "").with("docker-content-digest", digest);
            }
            let tagged = self.tags.get(&(repository.to_owned(), name.to_owned()));
            let digest = tagged.cloned().unwrap_or_else(|| name.to_owned());
            let found = self.manifests.get(&(repository.to_owned(), digest.clone()));
            return match found {
                None => unknown("MANIFEST_UNKNOWN"),
                Some(manifest) => GivenAnswer::new(200, manifest.clone())
                    .with("content-type", "application/vnd.oci.image.manifest.v1+json")
                    .with("docker-content-digest", digest),
            };
        }
        let Some((repository, name)) = path.split_once("/blobs/") else {
            return GivenAnswer::new(404, "");
        };
        match method {
            "POST" => GivenAnswer::new(202, "").with(
                "location",
                format!("/v2/{repository}/blobs/uploads/1?state=a%2Fb"),
            ),
            "PUT" => {
                let digest = query.rsplit("digest=").next().unwrap_or_default();
                let digest = digest.replace("%3A", ":");
                if digest != sha256(&request.body) || !query.contains("state=a%2Fb") {
                    return GivenAnswer::new(400, r#"{"errors":[{"code":"DIGEST_INVALID"}]}"#);
                }
                self.blobs.insert(digest, request.body.clone());
                GivenAnswer::new(201, "")
            }
            _ => match self.blobs.get(name) {
                Some(blob) => GivenAnswer::new(200, blob.clone()),
                None => unknown("BLOB_UNKNOWN"),
            },
        }
    }
}

/// Answers one request and closes the connection.
fn serve(mut stream: TcpStream, contents: &Mutex<Contents>, twist: &Twist) -> Option<()> {
    let request = read(&stream)?;
    let honest = {
        let mut contents = contents.lock().unwrap();
        contents.asked.push(request.clone());
        contents.answer(&request)
    };
    let answer = twist(&request, honest);
    let length = answer.claimed.unwrap_or(answer.body.len());
    let mut head = format!(
        "HTTP/1.1 {} X\r\nConnection: close\r\nContent-Length: {length}\r\n",
        answer.status
    );
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let has_body = request.method != "HEAD";
    match answer.pace {
        Pace::Never => wait(&mut stream, None),
        Pace::HeadersOnly => {
            stream.write_all(head.as_bytes()).ok()?;
            wait(&mut stream, None)
        }
        Pace::Trickle => {
            stream.write_all(head.as_bytes()).ok()?;
            for byte in &answer.body {
                stream.write_all(&[*byte]).ok()?;
                wait(&mut stream, Some(Duration::from_millis(20)))?;
            }
            Some(())
        }
        Pace::AtOnce => {
            stream.write_all(head.as_bytes()).ok()?;
            let body = if has_body { &answer.body[..] } else { &[] };
            stream.write_all(body).ok()
        }
    }
}

/// Waits for a time, or until the client closes the connection; `None` if it has.
fn wait(stream: &mut TcpStream, time: Option<Duration>) -> Option<()> {
    stream.set_read_timeout(time).ok()?;
    // A client sends nothing more, so this ends when it closes the connection, or when the time is over.
    match stream.read_exact(&mut [0]) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Some(()),
        _ => None,
    }
}

fn read(stream: &TcpStream) -> Option<AskedRequest> {
    let mut reader = BufReader::new(stream);
    // The first byte of a TLS connection, which is answered in plain text.
    if reader.fill_buf().ok()?.first() == Some(&0x16) {
        let _ = reader.into_inner().write_all(b"HTTP/1.1 400 X\r\n\r\n");
        return None;
    }
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .and_then(|text| text.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(AskedRequest {
        method,
        path,
        headers,
        body,
    })
}
