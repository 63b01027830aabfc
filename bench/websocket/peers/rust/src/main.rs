// SPDX-License-Identifier: Apache-2.0

//! fastwebsockets and tokio-tungstenite as subjects of the websocket suite: websocket_peer NAME, or websocket_peer NAME version.
//!
//! /echo sends each message back, /publish to every connection of /subscribe, where all that waits leaves in one write. One thread: a
//! runtime of tokio that knows it is alone.

use std::io::Write;

use bytes::Bytes;
use fastwebsockets::{FragmentCollector, Frame, OpCode, Payload, Role, WebSocket};
use futures_util::{SinkExt, StreamExt};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::BufWriter;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::TryRecvError;
use tokio_tungstenite::tungstenite::handshake::server::{Request as OpeningRequest, Response as OpeningResponse};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::Message;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Hub = broadcast::Sender<Bytes>;

/// Messages that may wait for a subscriber; the suite has far fewer under way.
const QUEUE: usize = 4096;

/// The next of the messages that wait already.
fn waiting(messages: &mut broadcast::Receiver<Bytes>) -> Result<Option<Bytes>, Failure> {
    match messages.try_recv() {
        Ok(message) => Ok(Some(message)),
        Err(TryRecvError::Empty) => Ok(None),
        Err(lost) => Err(lost.into()),
    }
}

mod fast {
    use super::*;

    async fn echo(stream: TcpStream) -> Result<(), Failure> {
        let mut socket = FragmentCollector::new(WebSocket::after_handshake(stream, Role::Server));
        loop {
            let frame = socket.read_frame().await?;
            match frame.opcode {
                OpCode::Close => return Ok(()),
                OpCode::Text | OpCode::Binary => socket.write_frame(frame).await?,
                _ => {}
            }
        }
    }

    async fn publish(stream: TcpStream, hub: Hub) -> Result<(), Failure> {
        let mut socket = FragmentCollector::new(WebSocket::after_handshake(stream, Role::Server));
        loop {
            let frame = socket.read_frame().await?;
            match frame.opcode {
                OpCode::Close => return Ok(()),
                OpCode::Text | OpCode::Binary => {
                    let _ = hub.send(Bytes::copy_from_slice(&frame.payload));
                }
                _ => {}
            }
        }
    }

    async fn subscribe(stream: TcpStream, mut messages: broadcast::Receiver<Bytes>) -> Result<(), Failure> {
        // Each frame is written straight to the stream, so the stream is what joins them.
        let mut socket = WebSocket::after_handshake(BufWriter::new(stream), Role::Server);
        loop {
            tokio::select! {
                biased;
                message = messages.recv() => {
                    let mut next = Some(message?);
                    while let Some(message) = next {
                        socket.write_frame(Frame::binary(Payload::Borrowed(&message))).await?;
                        next = waiting(&mut messages)?;
                    }
                }
                frame = socket.read_frame() => {
                    if frame?.opcode == OpCode::Close {
                        return Ok(socket.flush().await?);
                    }
                }
            }
            socket.flush().await?;
        }
    }

    async fn serve(upgraded: fastwebsockets::upgrade::UpgradeFut, path: String, hub: Hub) -> Result<(), Failure> {
        // Below hyper's box around the connection lies the socket itself: nothing stands between then.
        let parts = upgraded.await?.into_inner().into_inner().downcast::<TokioIo<TcpStream>>().map_err(|_| "no socket")?;
        let stream = parts.io.into_inner();
        match path.as_str() {
            "/publish" => publish(stream, hub).await,
            "/subscribe" => {
                let messages = hub.subscribe();
                subscribe(stream, messages).await
            }
            _ => echo(stream).await,
        }
    }

    async fn open(mut request: Request<Incoming>, hub: Hub) -> Result<Response<Empty<Bytes>>, Failure> {
        let (response, upgraded) = fastwebsockets::upgrade::upgrade(&mut request)?;
        let path = request.uri().path().to_string();
        // A client that leaves is no event worth a word.
        tokio::spawn(tokio::task::unconstrained(async move {
            let _ = serve(upgraded, path, hub).await;
        }));
        Ok(response)
    }

    pub async fn connection(stream: TcpStream, hub: Hub) {
        let service = service_fn(move |request| open(request, hub.clone()));
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades().await;
    }
}

mod tungstenite {
    use super::*;

    /// As much is filled with zeros at each look for a message: with the default of 128 KiB echoes of up to 1 KiB take near twice as
    /// long, those of 64 KiB a third less. The size is settled before the first message comes, and one server echoes all sizes.
    const READ_BYTES: usize = 16 << 10;

    async fn serve(stream: TcpStream, hub: Hub) -> Result<(), Failure> {
        let mut path = String::new();
        #[allow(clippy::result_large_err)]
        let note = |request: &OpeningRequest, response: OpeningResponse| {
            path = request.uri().path().to_string();
            Ok(response)
        };
        let settings = WebSocketConfig::default().read_buffer_size(READ_BYTES);
        let mut socket = tokio_tungstenite::accept_hdr_async_with_config(stream, note, Some(settings)).await?;
        if path == "/subscribe" {
            let mut messages = hub.subscribe();
            loop {
                tokio::select! {
                    biased;
                    message = messages.recv() => {
                        let mut next = Some(message?);
                        while let Some(message) = next {
                            socket.feed(Message::Binary(message)).await?;
                            next = waiting(&mut messages)?;
                        }
                        socket.flush().await?;
                    }
                    heard = socket.next() => match heard {
                        Some(heard) => drop(heard?),
                        None => return Ok(()),
                    },
                }
            }
        }
        while let Some(message) = socket.next().await {
            match message? {
                Message::Binary(bytes) if path == "/publish" => {
                    let _ = hub.send(bytes);
                }
                message if message.is_binary() || message.is_text() => socket.send(message).await?,
                _ => {}
            }
        }
        Ok(())
    }

    pub async fn connection(stream: TcpStream, hub: Hub) {
        let _ = serve(stream, hub).await;
    }
}

/// The locked version of a package this was built with.
fn locked(name: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let entry = format!("name = \"{}\"\nversion = \"", name);
    lock.split_once(entry.as_str()).and_then(|(_, rest)| rest.split_once('"')).map_or("unknown", |(version, _)| version)
}

async fn run(fast: bool) -> Result<(), Failure> {
    let listener = {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind("127.0.0.1:0".parse()?)?;
        socket.listen(4096)?
    };
    let listener: TcpListener = listener;
    println!("listening {}", listener.local_addr()?.port());
    std::io::stdout().flush()?;
    let (hub, _) = broadcast::channel::<Bytes>(QUEUE);
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => continue,
        };
        stream.set_nodelay(true)?;
        let hub = hub.clone();
        if fast {
            tokio::spawn(fast::connection(stream, hub));
        } else {
            tokio::spawn(tungstenite::connection(stream, hub));
        }
    }
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().collect();
    let fast = match words.get(1).map(String::as_str) {
        Some("fastwebsockets") => true,
        Some("tokio-tungstenite") => false,
        _ => return Err("usage: websocket_peer fastwebsockets|tokio-tungstenite [version]".into()),
    };
    if words.len() == 3 {
        println!("{} {} on tokio {}, {}", words[1], locked(&words[1]), locked("tokio"), env!("PEER_RUSTC"));
        return Ok(());
    }
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(run(fast))
}
