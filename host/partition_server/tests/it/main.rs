//! The server with the client that trainers use.

use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::sync::Arc;

use pbg_files::remote::RemoteFolder;
use pbg_objects::{PART, PartitionServerAccess, open_server};
use pbg_partition_server::{AccessKey, MemoryServer, MemoryServerOptions};

const MEMORY: u64 = 64 << 20;

fn options() -> MemoryServerOptions {
    MemoryServerOptions {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        bucket: "bucket".to_owned(),
        memory: MEMORY,
        key: Some(AccessKey {
            id: "run".to_owned(),
            secret: "secret".to_owned(),
        }),
        tls: None,
    }
}

fn access(secret: &str) -> PartitionServerAccess {
    PartitionServerAccess {
        key: Some(("run".to_owned(), secret.to_owned())),
        authority: None,
    }
}

fn open(server: &MemoryServer, secret: &str) -> Arc<dyn RemoteFolder> {
    open_server(&server.address().to_string(), "bucket", &access(secret))
        .expect("the address is valid")
}

fn write(folder: &dyn RemoteFolder, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut writer = folder.writer(name)?;
    // Not the parts of the upload.
    for piece in bytes.chunks(1_000_003) {
        writer.write_all(piece)?;
    }
    writer.finish()
}

fn read(folder: &dyn RemoteFolder, name: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    folder
        .reader(&folder.look_up(name)?)?
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns bytes that differ from one position to the next.
fn bytes(count: u64) -> Vec<u8> {
    (0..count)
        .map(|n| ((n * 2_654_435_761) >> 13) as u8)
        .collect()
}

#[test]
fn what_is_written_is_read() {
    let server = MemoryServer::start(options()).unwrap();
    let folder = open(&server, "secret");
    for size in [
        0,
        1,
        1000,
        PART - 1,
        PART,
        PART + 1,
        3 * PART,
        3 * PART + 17,
    ] {
        let name = "embeddings_a b+ü_0.v1.safetensors";
        write(&*folder, name, &bytes(size)).unwrap();
        assert!(read(&*folder, name).unwrap() == bytes(size), "{size} bytes");
        assert_eq!(server.held(), size);
        let listed = folder.list_here().unwrap();
        assert_eq!(listed, [folder.look_up(name).unwrap()], "{size} bytes");
        folder.remove(name).unwrap();
        folder.remove(name).unwrap();
        let kind = read(&*folder, name).unwrap_err().kind();
        assert_eq!(kind, std::io::ErrorKind::NotFound);
        assert_eq!(server.held(), 0);
    }
}

#[test]
fn a_listing_has_as_many_pages_as_it_needs() {
    let server = MemoryServer::start(options()).unwrap();
    let folder = open(&server, "secret");
    let names: Vec<String> = (0..2003).map(|n| format!("{n:04}&<")).collect();
    names
        .iter()
        .for_each(|name| folder.put(name, b"1").unwrap());
    folder.put("below/1", b"1").unwrap();
    let listed = folder.list_here().unwrap();
    let listed: Vec<String> = listed.into_iter().map(|file| file.name).collect();
    assert_eq!(listed, names);
    assert_eq!(folder.list().unwrap().len(), names.len() + 1);
}

#[test]
fn memory_that_is_full_refuses_and_keeps_what_it_has() {
    let server = MemoryServer::start(options()).unwrap();
    let folder = open(&server, "secret");
    let large = bytes(MEMORY - 2 * PART);
    write(&*folder, "large", &large).unwrap();
    for size in [3 * PART, 10 * PART, 100 * PART] {
        let error = write(&*folder, "too large", &bytes(size)).unwrap_err();
        assert!(error.to_string().contains("is full"), "{error}");
    }
    write(&*folder, "small", &bytes(PART)).unwrap();
    assert!(read(&*folder, "large").unwrap() == large);
    folder.remove("large").unwrap();
    write(&*folder, "large", &large).unwrap();
}

#[test]
fn only_the_key_of_the_run_opens_it() {
    let server = MemoryServer::start(options()).unwrap();
    open(&server, "secret").put("name", b"content").unwrap();
    let address = server.address().to_string();
    let unsigned = open_server(&address, "bucket", &PartitionServerAccess::default()).unwrap();
    for folder in [open(&server, "another"), unsigned] {
        for error in [
            folder.read("name", 100).unwrap_err(),
            folder.put("name", b"other").unwrap_err(),
            folder.list().unwrap_err(),
            folder.remove("name").unwrap_err(),
        ] {
            assert!(
                error.to_string().contains("check PBG_HOST_SECRET"),
                "{error}"
            );
        }
    }
    let content = open(&server, "secret").read("name", 100).unwrap();
    assert_eq!(content.bytes, b"content");
}

#[test]
fn a_server_that_was_started_again_has_nothing_of_the_first() {
    let server = MemoryServer::start(options()).unwrap();
    let folder = open(&server, "secret");
    folder.put("name", b"content").unwrap();
    let listen = server.address();
    drop(server);
    let bucket = "another".to_owned();
    let _server = MemoryServer::start(MemoryServerOptions {
        listen,
        bucket,
        ..options()
    })
    .unwrap();
    let kind = folder.look_up("name").unwrap_err().kind();
    assert_eq!(kind, std::io::ErrorKind::NotFound);
    folder.put("name", b"content").unwrap_err();
}

#[test]
fn requests_that_are_wrong_get_a_status() {
    let server = MemoryServer::start(MemoryServerOptions {
        key: None,
        ..options()
    })
    .unwrap();
    let long = format!(
        "PUT /bucket/{} HTTP/1.1\r\nContent-Length: 0",
        "a".repeat(1025)
    );
    for (request, status) in [
        ("GET /other/name HTTP/1.1", "404"),
        ("GET /bucket/name HTTP/1.1", "404"),
        ("GET /bucket/%ff HTTP/1.1", "400"),
        ("GET /bucket/%00 HTTP/1.1", "400"),
        ("PUT /bucket/name HTTP/1.1", "411"),
        (
            "PUT /bucket/name HTTP/1.1\r\nContent-Length: 99999999999",
            "413",
        ),
        (
            "PUT /bucket/name?uploadId=7&partNumber=1 HTTP/1.1\r\nContent-Length: 0",
            "404",
        ),
        (
            "PUT /bucket/name?uploadId=x HTTP/1.1\r\nContent-Length: 0",
            "404",
        ),
        (
            "PUT /bucket/name HTTP/1.1\r\nx-amz-copy-source: a\r\nContent-Length: 0",
            "501",
        ),
        ("POST /bucket/name HTTP/1.1\r\nContent-Length: 0", "400"),
        (
            "POST /bucket/name?uploadId=9 HTTP/1.1\r\nContent-Length: 99999999",
            "400",
        ),
        (&long, "400"),
        ("DELETE /bucket HTTP/1.1", "405"),
        ("PATCH /bucket/name HTTP/1.1", "405"),
        ("nonsense", "400"),
    ] {
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        let text = format!("{request}\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let found = answer.split(' ').nth(1);
        assert_eq!(found, Some(status), "{request}: {answer}");
    }
    assert_eq!(server.held(), 0);
}

#[test]
fn a_refused_content_is_read_to_its_end_so_that_the_answer_is_read_as_well() {
    let server = MemoryServer::start(MemoryServerOptions {
        memory: 1000,
        key: None,
        ..options()
    })
    .unwrap();
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    let content = bytes(PART);
    for (path, status) in [
        ("/bucket/too-large", "413"),
        ("/other/name", "404"),
        ("/bucket/name?uploadId=7&partNumber=1", "413"),
    ] {
        let head = format!("PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {PART}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // The server has long decided when the last piece is sent.
        for piece in content.chunks(1 << 20) {
            stream.write_all(piece).unwrap();
        }
        let mut answer = vec![0; 4096];
        let length = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]);
        assert_eq!(answer.split(' ').nth(1), Some(status), "{path}: {answer}");
        assert!(answer.contains("</Error>"), "{answer}");
    }
}
