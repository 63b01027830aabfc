// SPDX-License-Identifier: Apache-2.0

//! hyper as a subject of the http suite: hyper_peer computed|lookup CSV THREADS, or hyper_peer version.
//!
//! The last part of the path is an id. computed: user and name follow from it by arithmetic (../../../computed.hpp). lookup: they are
//! those of CSV ("id,user,name" a line), found in a HashMap.
//! Each thread has a runtime and a listener of its own (SO_REUSEPORT), so that no request crosses threads.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, CACHE_CONTROL, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use socket2::{Domain, Socket, Type};

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Record {
    user: u64,
    name: String,
}

enum Answers {
    Computed,
    Lookup(HashMap<u64, Record>),
}

fn load(path: &str) -> Result<HashMap<u64, Record>, Failure> {
    let mut records = HashMap::new();
    for line in std::fs::read_to_string(path)?.lines() {
        let mut parts = line.splitn(3, ',');
        let (id, user, name) = match (parts.next(), parts.next(), parts.next()) {
            (Some(id), Some(user), Some(name)) => (id, user, name),
            _ => return Err(format!("{}: {:?} is no record", path, line).into()),
        };
        records.insert(id.parse()?, Record { user: user.parse()?, name: name.to_string() });
    }
    Ok(records)
}

fn json(id: u64, user: u64, name: &str) -> Option<Bytes> {
    let mut body = Vec::with_capacity(96);
    write!(body, "{{\"id\":{},\"user\":{},\"name\":{:?}}}", id, user, name).ok()?;
    Some(Bytes::from(body))
}

impl Answers {
    fn find(&self, path: &str) -> Option<Bytes> {
        let id: u64 = path[path.rfind('/')? + 1..].parse().ok()?;
        match self {
            Answers::Computed => {
                let mixed = id.wrapping_mul(0x9E3779B97F4A7C15);
                let mut letters = [0u8; 8];
                let count = 3 + ((mixed >> 61) % 6) as usize;
                let mut rest = mixed >> 20;
                for letter in &mut letters[..count] {
                    *letter = b'a' + (rest % 26) as u8;
                    rest /= 26;
                }
                json(id, mixed >> 32, std::str::from_utf8(&letters[..count]).ok()?)
            }
            Answers::Lookup(records) => records.get(&id).and_then(|found| json(id, found.user, &found.name)),
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        match self.find(request.uri().path()) {
            Some(body) => {
                let mut response = Response::new(Full::new(body));
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                response
            }
            None => {
                let mut response = Response::new(Full::default());
                *response.status_mut() = StatusCode::NOT_FOUND;
                response
            }
        }
    }
}

fn listen(address: SocketAddr) -> Result<std::net::TcpListener, Failure> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}

fn serve(listener: std::net::TcpListener, answers: Arc<Answers>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(_) => continue,
            };
            stream.set_nodelay(true)?;
            let answers = answers.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let response = answers.answer(&request);
                    async move { Ok::<_, Infallible>(response) }
                });
                // A client that leaves is no event worth a word.
                let _ = http1::Builder::new().pipeline_flush(true).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

/// The locked version of a package this was built with.
fn locked(name: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let entry = format!("name = \"{}\"\nversion = \"", name);
    lock.split_once(entry.as_str()).and_then(|(_, rest)| rest.split_once('"')).map_or("unknown", |(version, _)| version)
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().collect();
    if words.len() == 2 && words[1] == "version" {
        println!("hyper {} on tokio {}, {}", locked("hyper"), locked("tokio"), env!("PEER_RUSTC"));
        return Ok(());
    }
    if words.len() != 4 {
        return Err("usage: hyper_peer computed|lookup CSV THREADS, or hyper_peer version".into());
    }
    let answers = Arc::new(match words[1].as_str() {
        "lookup" => Answers::Lookup(load(&words[2])?),
        _ => Answers::Computed,
    });
    let first = listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..words[3].parse::<usize>()? {
        listeners.push(listen(address)?);
    }
    println!("listening {}", address.port());
    std::io::stdout().flush()?;
    let threads: Vec<_> = listeners
        .into_iter()
        .map(|listener| {
            let answers = answers.clone();
            std::thread::spawn(move || serve(listener, answers))
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread ended")??;
    }
    Ok(())
}
