//! Fuzzing of partition servers: of requests to a server, and of the answers of one. Messages are those of the trainers'
//! client and a real server, changed on their way.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pbg_files::remote::RemoteFolder;
use pbg_fuzz::{Dice, bytes};
use pbg_objects::{PartitionServerAccess, open_server};
use pbg_partition_server::{AccessKey, MemoryServer, MemoryServerOptions};

use crate::{fuzz, turn};

const MEMORY: u64 = 1 << 20;
const STALL: Duration = Duration::from_secs(30);

fn server(key: Option<AccessKey>) -> MemoryServer {
    MemoryServer::start(MemoryServerOptions {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        bucket: "bucket".to_owned(),
        memory: MEMORY,
        key,
        tls: None,
    })
    .unwrap()
}

fn open(address: SocketAddr, is_signed: bool) -> Arc<dyn RemoteFolder> {
    let key = is_signed.then(|| ("run".to_owned(), "secret".to_owned()));
    let access = PartitionServerAccess {
        key,
        authority: None,
    };
    open_server(&address.to_string(), "bucket", &access).unwrap()
}

/// Reads a message of HTTP: its head and as much content as the head announces.
fn message(stream: &mut TcpStream, is_answer_to_head: bool) -> Vec<u8> {
    let mut message = Vec::new();
    let mut byte = [0];
    while !message.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => message.push(byte[0]),
            _ => return message,
        }
    }
    let head = String::from_utf8_lossy(&message).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length = length.map_or(0, |text| text.trim().parse().unwrap());
    if !is_answer_to_head {
        let mut content = vec![0; length];
        stream.read_exact(&mut content).unwrap();
        message.extend(content);
    }
    message
}

/// Passes messages on between a client and a server, and changes answers.
struct Changer {
    address: SocketAddr,
    state: Arc<Mutex<ChangerState>>,
}

struct ChangerState {
    dice: Dice,
    requests: Vec<Vec<u8>>,
    changes: bool,
}

impl Changer {
    fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(ChangerState {
            dice: Dice::new(0),
            requests: Vec::new(),
            changes: false,
        }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || pass_on(stream.unwrap(), to, &shared));
            }
        });
        Self { address, state }
    }
}

fn pass_on(mut client: TcpStream, to: SocketAddr, state: &Mutex<ChangerState>) {
    client.set_read_timeout(Some(STALL)).unwrap();
    let request = message(&mut client, false);
    if request.is_empty() {
        return;
    }
    let mut server = TcpStream::connect(to).unwrap();
    server.set_read_timeout(Some(STALL)).unwrap();
    server.write_all(&request).unwrap();
    let mut answer = message(&mut server, request.starts_with(b"HEAD"));
    {
        let mut state = state.lock().unwrap();
        let state = &mut *state;
        if state.changes {
            answer = changed(&mut state.dice, &answer);
        } else {
            state.requests.push(request);
        }
    }
    // The client may have given up.
    client.write_all(&answer).ok();
    client.shutdown(Shutdown::Both).ok();
}

/// Changes an answer. Its status stays, since the client repeats requests that fail.
fn changed(dice: &mut Dice, answer: &[u8]) -> Vec<u8> {
    let at = |end: &[u8]| {
        answer
            .windows(end.len())
            .position(|part| part == end)
            .unwrap()
            + end.len()
    };
    let (line, head) = (at(b"\r\n"), at(b"\r\n\r\n"));
    let other = b"Content-Length: 7\r\n<NextContinuationToken>x</NextContinuationToken><Size>18446744073709551615</Size>";
    match dice.below(4) {
        0 => answer.to_vec(),
        1 => {
            let changed = bytes(dice, &answer[line..head - 4], other);
            [&answer[..line], &changed, &answer[head - 4..]].concat()
        }
        _ => {
            let content = bytes(dice, &answer[head..], other);
            let head = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
            let lines = head
                .trim_end()
                .split("\r\n")
                .filter(|line| !line.starts_with("content-length"));
            let lines: Vec<&str> = lines.collect();
            let length = content.len();
            let head = format!("{}\r\ncontent-length: {length}\r\n\r\n", lines.join("\r\n"));
            // The name and version of the protocol are not of any case.
            let head = head.replacen("http/1.1", "HTTP/1.1", 1);
            [head.as_bytes(), &content].concat()
        }
    }
}

/// Makes every kind of request. Returns how many of them succeed.
fn ask(folder: &dyn RemoteFolder, content: &[u8]) -> usize {
    let name = "embeddings_a b_0.v1.safetensors";
    let mut done = usize::from(folder.put(name, content).is_ok());
    if let Ok(file) = folder.look_up(name) {
        done += 1;
        // A caller knows the size of the file that it wants.
        let wanted = pbg_files::remote::RemoteFile {
            size: content.len() as u64,
            ..file
        };
        let mut read = Vec::new();
        let mut reader = folder.reader(&wanted).unwrap();
        if reader.read_to_end(&mut read).is_ok() {
            assert_eq!(read.len(), content.len());
            done += 1;
        }
    }
    if let Ok(found) = folder.read(name, 100) {
        assert!(found.bytes.len() <= 100);
        done += 1;
    }
    done += usize::from(folder.list_here().is_ok());
    done += usize::from(folder.create("new", b"1").is_ok());
    done += usize::from(folder.remove("new").is_ok());
    done
}

/// Returns requests of the trainers' client.
fn requests(server: &MemoryServer, is_signed: bool) -> Vec<Vec<u8>> {
    let changer = Changer::start(server.address());
    let folder = open(changer.address, is_signed);
    assert!(ask(&*folder, b"content") > 5);
    let mut writer = folder.writer("large").unwrap();
    writer.write_all(&[1; 100]).unwrap();
    writer.finish().unwrap();
    let mut state = changer.state.lock().unwrap();
    let mut requests = std::mem::take(&mut state.requests);
    let line = |text: &str| {
        let host = server.address();
        format!("{text} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n\r\n12345").into_bytes()
    };
    for text in [
        "POST /bucket/large?uploads",
        "PUT /bucket/large?uploadId=1&partNumber=1",
        "POST /bucket/large?uploadId=1",
        "DELETE /bucket/large?uploadId=1",
        "GET /bucket?list-type=2&prefix=a&start-after=b&continuation-token=c&delimiter=%2F",
        "PUT /bucket/x",
    ] {
        requests.push(line(text));
    }
    let host = server.address();
    requests.push(
        format!("GET /bucket/large HTTP/1.1\r\nHost: {host}\r\nRange: bytes=5-50\r\nIf-Match: \"1\"\r\n\r\n")
            .into_bytes(),
    );
    requests
}

#[test]
fn server_requests() {
    let turn = turn();
    let key = AccessKey {
        id: "run".to_owned(),
        secret: "secret".to_owned(),
    };
    let servers = [server(None), server(Some(key))];
    let valid = [requests(&servers[0], false), requests(&servers[1], true)];
    fuzz(turn, "server_requests", 500, 64 << 20, |dice, _| {
        let which = dice.below(2);
        let mut stream = TcpStream::connect(servers[which].address()).unwrap();
        stream.set_read_timeout(Some(STALL)).unwrap();
        let mut sent = Vec::new();
        for _ in 0..dice.from(1, 6) {
            let (one, other) = (dice.pick(&valid[which]), dice.pick(&valid[which]));
            sent.extend(match dice.once_in(3) {
                true => one.clone(),
                false => bytes(dice, one, other),
            });
        }
        // The server ends the connection at a message that is not HTTP.
        stream.write_all(&sent).ok();
        stream.shutdown(Shutdown::Write).ok();
        let mut answers = Vec::new();
        stream.read_to_end(&mut answers).ok();
        assert!(answers.is_empty() || answers.starts_with(b"HTTP/1."));
        assert!(servers[which].held() <= MEMORY);
        String::from_utf8_lossy(&answers).contains(" 200 OK\r\n")
    });
}

#[test]
fn server_answers() {
    let turn = turn();
    let server = server(None);
    let changer = Changer::start(server.address());
    let folder = open(changer.address, false);
    fuzz(turn, "server_answers", 30, 256 << 20, |dice, _| {
        {
            let mut state = changer.state.lock().unwrap();
            (state.dice, state.changes) = (Dice::new(dice.bits()), true);
        }
        let content = vec![7; dice.below(300)];
        ask(&*folder, &content) > 0
    });
}
