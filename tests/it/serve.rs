//! `serve`: answers over HTTP are those of the commands, and no client takes the server down.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::graph::{CONFIG, name};
use crate::support::{Running, Workplace, finish, with};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];

fn trained() -> Workplace {
    let place = Workplace::with_dataset(CONFIG);
    place.run(with(&TRAIN, &[])).succeeds();
    place
}

/// Starts the server, and returns it with its address.
fn serve(place: &Workplace, options: &[&str]) -> (Running, String) {
    let command = ["serve", "--listen", "127.0.0.1:0"];
    let mut server = place.start(command.iter().chain(options));
    let mut address = String::new();
    let is_up = server.wait_until(|| {
        let said = place.read("stderr.txt");
        let found = said
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split(',').next());
        address = found.unwrap_or_default().to_owned();
        !address.is_empty()
    });
    assert!(is_up, "{}", server.stderr());
    (server, address)
}

/// Reads one response: status and JSON.
fn response(stream: &mut TcpStream) -> (u16, Value) {
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.split("Content-Length: ").nth(1).unwrap();
    let length = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

/// Sends bytes on a new connection, and returns the response.
fn send(address: &str, bytes: &[u8]) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    // The server may answer and close before it has read everything.
    let _sent = stream.write_all(bytes);
    response(&mut stream)
}

fn request(method: &str, path: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn post(address: &str, path: &str, body: &Value) -> (u16, Value) {
    send(address, request("POST", path, &body.to_string()).as_bytes())
}

/// Returns the answer to a question that is answered.
fn ask(address: &str, path: &str, body: &Value) -> Value {
    let (status, answer) = post(address, path, body);
    assert_eq!(status, 200, "{path} {body}: {answer}");
    answer
}

/// Returns the first line of JSON that a command prints.
fn printed(place: &Workplace, command: &[&str]) -> Value {
    let found = place.run(command).succeeds().stdout;
    serde_json::from_str(&found).unwrap()
}

#[test]
fn answers_are_those_of_the_commands() {
    let place = trained();
    for options in [&[][..], &["--filter", "train"], &["--unfiltered"]] {
        let (server, address) = serve(&place, options);
        for index in 0..5 {
            let entity = name(index % 2, 7 * index);
            for (side, flag) in [("head", "--head"), ("tail", "--tail")] {
                let command = [
                    "predict",
                    flag,
                    &entity,
                    "--relation",
                    "near",
                    "--json",
                    "-k",
                    "7",
                ];
                let expected = printed(&place, &[&command, options].concat());
                let found = ask(
                    &address,
                    "/predict",
                    &json!({side: entity, "relation": "near", "k": 7}),
                );
                assert_eq!(
                    found["answers"], expected["answers"],
                    "{options:?} {entity} {side}"
                );
                assert_eq!(found["left_out"], expected["left_out"]);
                assert_eq!(found["approximate"], false);
            }
            let other = name(0, index + 3);
            let command = ["predict", "--head", &entity, "--tail", &other, "--json"];
            let expected = printed(&place, &[&command, options].concat());
            let found = ask(
                &address,
                "/predict",
                &json!({"head": entity, "tail": other}),
            );
            assert_eq!(found["answers"], expected["answers"]);
            let expected = printed(
                &place,
                &["neighbors", "pbg.toml", &entity, "--json", "-k", "4"],
            );
            let found = ask(&address, "/neighbors", &json!({"name": entity, "k": 4}));
            assert_eq!(found["answers"], expected);
        }
        let edges: Vec<Vec<String>> = place
            .read("test.tsv")
            .lines()
            .map(|line| line.split('\t').map(str::to_owned).collect())
            .collect();
        let mut command = place.command(["score"]);
        let scores = finish(command.stdin(File::open(place.path("test.tsv")).unwrap())).succeeds();
        let scores: Vec<f32> = scores
            .stdout
            .lines()
            .map(|line| line.parse().unwrap())
            .collect();
        let found = ask(&address, "/score", &json!({"edges": edges}));
        assert_eq!(
            serde_json::from_value::<Vec<f32>>(found["scores"].clone()).unwrap(),
            scores
        );
        let found = ask(
            &address,
            "/names",
            &json!({"entity_type": "place", "prefix": "süden 1", "k": 50}),
        );
        assert_eq!(found["names"].as_array().unwrap().len(), 11);
        server.signal("INT");
        server.finish().succeeds();
    }
}

#[test]
fn an_index_answers_as_it_does_for_the_command() {
    let place = trained();
    place.run(["index"]).succeeds();
    let (server, address) = serve(&place, &["--width", "60"]);
    assert!(
        server.stderr().contains("by the index, with width 60"),
        "{}",
        server.stderr()
    );
    let entity = name(1, 3);
    let command = [
        "predict",
        "--head",
        &entity,
        "--relation",
        "next",
        "--json",
        "--index",
        "--width",
        "60",
    ];
    let expected = printed(&place, &command);
    let found = ask(
        &address,
        "/predict",
        &json!({"head": entity, "relation": "next"}),
    );
    assert_eq!(
        (&found["answers"], &found["approximate"]),
        (&expected["answers"], &json!(true))
    );
    drop(server);
    // Another model has other embeddings, so its index is refused.
    place.run(with(&TRAIN, &["num_epochs=3"])).succeeds();
    place
        .run(["serve", "--listen", "127.0.0.1:0"])
        .fails(5, &["out of date", "pbg-host index"]);
    let (server, _) = serve(&place, &["--exact"]);
    server.signal("TERM");
    server.finish().succeeds();
}

#[test]
fn whatever_a_client_sends_is_answered_with_a_sentence() {
    let place = trained();
    let (server, address) = serve(&place, &[]);
    let good = json!({"head": name(0, 1), "relation": "next"});
    for (path, body, status, words) in [
        ("/predict", "{", 400, "not the JSON"),
        ("/predict", "\u{0}\u{ff}", 400, "not the JSON"),
        ("/predict", "[]", 400, "not the JSON"),
        ("/predict", r#"{"head": "a", "colour": 1}"#, 400, "colour"),
        ("/predict", r#"{"head": "a"}"#, 400, "no relation"),
        (
            "/predict",
            r#"{"head": "a", "relation": "b", "tail": "c"}"#,
            400,
            "nothing is open",
        ),
        (
            "/predict",
            r#"{"head": "nobody", "relation": "next"}"#,
            404,
            "`nobody`",
        ),
        (
            "/predict",
            r#"{"head": "a", "relation": "over"}"#,
            404,
            "`over`",
        ),
        (
            "/predict",
            r#"{"head": "a", "relation": "next", "k": 0}"#,
            400,
            "at least 1",
        ),
        (
            "/predict",
            r#"{"head": "a", "relation": "next", "k": 1001}"#,
            400,
            "1000",
        ),
        (
            "/predict",
            r#"{"head": "a", "relation": "next", "k": -1}"#,
            400,
            "not the JSON",
        ),
        (
            "/predict",
            r#"{"head": "a", "relation": "next", "k": 1e400}"#,
            400,
            "not the JSON",
        ),
        ("/score", r#"{"edges": []}"#, 400, "at least 1"),
        ("/score", r#"{"edges": [["a", "b"]]}"#, 400, "not the JSON"),
        (
            "/neighbors",
            r#"{"name": "x", "entity_type": "planet"}"#,
            404,
            "`planet`",
        ),
        ("/names", r#"{"entity_type": "planet"}"#, 404, "`planet`"),
        ("/nothing", "{}", 404, "openapi.json"),
        ("/health", "", 405, "GET"),
    ] {
        let (found, answer) = send(&address, request("POST", path, body).as_bytes());
        let error = answer["error"].as_str().unwrap();
        assert_eq!(found, status, "{path} {body}: {error}");
        assert!(error.contains(words), "{path} {body}: {error}");
    }
    let nested = "[".repeat(200_000);
    let head = |fields: &str| format!("POST /score HTTP/1.1\r\n{fields}\r\n\r\n");
    for (bytes, status) in [
        (request("POST", "/score", &nested), 400),
        ("no HTTP at all\r\n\r\n".to_owned(), 400),
        (head("Content-Length: 300000"), 413),
        (request("POST", "/score", &"x".repeat(1_000_000)), 413),
        (head("Content-Length: 99999999999999999999"), 400),
        (head("Content-Length: -1"), 400),
        (head("Content-Length: 2\r\nContent-Length: 3"), 400),
        (head("Transfer-Encoding: chunked"), 501),
        (head(&format!("X: {}", "y".repeat(20_000))), 431),
        (format!("GET /{} HTTP/1.1\r\n", "y".repeat(40_000)), 431),
        (head(&"A: b\r\n".repeat(100)), 431),
    ] {
        let (found, answer) = send(&address, bytes.as_bytes());
        assert_eq!(found, status, "{answer}");
        assert!(answer["error"].is_string());
    }
    // Slow clients are told so, and others are answered meanwhile.
    let mut slow = TcpStream::connect(&address).unwrap();
    slow.write_all(b"POST /score HTTP/1.1\r\nContent-Length: 10\r\n\r\n{")
        .unwrap();
    ask(&address, "/predict", &good);
    assert_eq!(response(&mut slow).0, 408);
    // Clients that send nothing or leave do not matter.
    let _silent = TcpStream::connect(&address).unwrap();
    drop(TcpStream::connect(&address).unwrap());
    // Two requests in one packet are two answers.
    let mut stream = TcpStream::connect(&address).unwrap();
    let both = request("POST", "/predict", &good.to_string()) + &request("GET", "/health", "");
    stream.write_all(both.as_bytes()).unwrap();
    assert_eq!(response(&mut stream).1, ask(&address, "/predict", &good));
    assert_eq!(response(&mut stream).1["status"], "ok");
    // Ctrl-C ends the server although connections are open.
    server.signal("INT");
    server.finish().succeeds();
}

#[test]
fn many_clients_are_answered_at_once_or_told_to_wait() {
    let place = trained();
    let (server, address) = serve(&place, &["--threads", "2", "--queue", "1"]);
    let expected = ask(
        &address,
        "/predict",
        &json!({"head": name(0, 1), "relation": "next"}),
    );
    let clients: Vec<_> = (0..16)
        .map(|_| {
            let (address, expected) = (address.clone(), expected.clone());
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                let question = json!({"head": name(0, 1), "relation": "next"}).to_string();
                let question = request("POST", "/predict", &question);
                let mut answered = 0;
                for _ in 0..50 {
                    stream.write_all(question.as_bytes()).unwrap();
                    match response(&mut stream) {
                        (200, answer) => {
                            assert_eq!(answer, expected);
                            answered += 1;
                        }
                        (status, answer) => assert_eq!(status, 503, "{answer}"),
                    }
                }
                answered
            })
        })
        .collect();
    let answered: usize = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .sum();
    assert!(answered > 0);
    ask(
        &address,
        "/predict",
        &json!({"head": name(0, 1), "relation": "next"}),
    );
    // More connections than the server takes are refused, and the others stay.
    let open: Vec<TcpStream> = (0..128)
        .map(|_| TcpStream::connect(&address).unwrap())
        .collect();
    let mut refused = TcpStream::connect(&address).unwrap();
    assert_eq!(response(&mut refused).0, 503);
    drop(open);
    server.signal("INT");
    server.finish().succeeds();
}

#[test]
fn the_interface_is_described_and_addresses_are_checked() {
    let place = trained();
    let (server, address) = serve(&place, &[]);
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let (_, about) = send(&address, request("GET", "/openapi.json", "").as_bytes());
    let paths: Vec<&String> = about["paths"].as_object().unwrap().keys().collect();
    assert_eq!(
        paths,
        [
            "/health",
            "/model",
            "/names",
            "/neighbors",
            "/openapi.json",
            "/predict",
            "/score"
        ]
    );
    let (_, model) = send(&address, request("GET", "/model", "").as_bytes());
    assert_eq!(
        model["entity_types"],
        json!([{"name": "place", "entities": 80}])
    );
    assert_eq!(model["relations"].as_array().unwrap().len(), 4);
    let taken = ["serve", "--listen", &address];
    place.run(taken).fails(8, &["cannot listen on", &address]);
    place
        .run(["serve", "--listen", "nowhere"])
        .fails(2, &["--listen"]);
    let check = place.run(["serve", "--check"]).succeeds();
    assert!(check.stdout.contains("known edges") && check.stdout.contains("embeddings"));
    let free = TcpListener::bind("0.0.0.0:0")
        .unwrap()
        .local_addr()
        .unwrap();
    drop(server);
    let mut open = place.start(["serve", "--listen", &free.to_string()]);
    assert!(open.wait_until(|| place.read("stderr.txt").contains("listening on")));
    assert!(open.stderr().contains("no password"), "{}", open.stderr());
    open.signal("INT");
    open.finish().succeeds();
}
