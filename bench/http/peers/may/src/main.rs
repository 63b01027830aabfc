// SPDX-License-Identifier: Apache-2.0

//! may_minihttp as a subject of the http suite: may_peer computed|lookup CSV PORT THREADS, or may_peer version.
//!
//! The last part of the path is an id. computed: user and name follow from it by arithmetic (../../../computed.hpp). lookup: they are
//! those of CSV ("id,user,name" a line), found in a HashMap.
//! Coroutines of may on so many threads of the system; all take from one listener, the library has no other way.

use std::collections::HashMap;
use std::fmt::Write;
use std::io;
use std::sync::Arc;

use may_minihttp::{HttpServer, HttpService, Request, Response};

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Record {
    user: u64,
    name: String,
}

#[derive(Clone)]
enum Answers {
    Computed,
    Lookup(Arc<HashMap<u64, Record>>),
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

fn write_json(to: &mut Response, id: u64, user: u64, name: &str) -> Option<()> {
    to.header("Content-Type: application/json").header("Cache-Control: no-store");
    write!(to.body_mut(), "{{\"id\":{},\"user\":{},\"name\":{:?}}}", id, user, name).ok()
}

impl Answers {
    fn answer(&self, path: &str, to: &mut Response) -> Option<()> {
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
                write_json(to, id, mixed >> 32, std::str::from_utf8(&letters[..count]).ok()?)
            }
            Answers::Lookup(records) => {
                let found = records.get(&id)?;
                write_json(to, id, found.user, &found.name)
            }
        }
    }
}

impl HttpService for Answers {
    fn call(&mut self, request: Request, response: &mut Response) -> io::Result<()> {
        if self.answer(request.path(), response).is_none() {
            response.status_code(404, "Not Found");
        }
        Ok(())
    }
}

/// The locked version of a package this was built with.
fn locked(name: &str) -> &'static str {
    let lock = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"));
    let entry = format!("name = \"{}\"\nversion = \"", name);
    lock.split_once(entry.as_str()).and_then(|(_, rest)| rest.split_once('"')).map_or("unknown", |(version, _)| version)
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().collect();
    if words.len() == 2 && words[1] == "version" {
        println!("may_minihttp {} on may {}, {}", locked("may_minihttp"), locked("may"), env!("PEER_RUSTC"));
        return Ok(());
    }
    if words.len() != 5 {
        return Err("usage: may_peer computed|lookup CSV PORT THREADS, or may_peer version".into());
    }
    let answers = match words[1].as_str() {
        "lookup" => Answers::Lookup(Arc::new(load(&words[2])?)),
        _ => Answers::Computed,
    };
    may::config().set_workers(words[4].parse()?);
    let server = HttpServer(answers).start(format!("127.0.0.1:{}", words[3]))?;
    server.join().map_err(|_| "the listener ended".into())
}
