//! The h2 crate's server with the same application on it.

use crate::client::{PING, frame};
use crate::seen::{ROUND, Reader, Seen};
use bytes::Bytes;
use http::{Request, Response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

pub(crate) struct Server {
    runtime: Runtime,
    tasks: LocalSet,
    wire: DuplexStream,
    reader: Reader,
}

impl Server {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let tasks = LocalSet::new();
        let (wire, server) = tokio::io::duplex(1 << 24);
        tasks.spawn_local(serve(server));
        Self {
            runtime,
            tasks,
            wire,
            reader: Reader::default(),
        }
    }

    /// What comes of `bytes`.
    pub(crate) fn step(&mut self, bytes: &[u8]) -> Seen {
        let Self {
            runtime,
            tasks,
            wire,
            reader,
        } = self;
        let mut seen = Seen::default();
        tasks.block_on(runtime, async {
            let _ = wire.write_all(bytes).await;
            // All is done when nothing but the answer to a PING has come, several times.
            let (mut quiet, mut buffer) = (0, vec![0; 1 << 20]);
            while quiet < 3 {
                let mut round = Vec::new();
                frame(PING, 0, 0, &ROUND, &mut round);
                let _ = wire.write_all(&round).await;
                quiet += 1;
                loop {
                    let count = wire.read(&mut buffer).await.unwrap_or(0);
                    let (is_round, is_more) = reader.read(&buffer[..count], &mut seen);
                    if is_more {
                        quiet = 0;
                    }
                    if is_round {
                        break;
                    }
                    if count == 0 {
                        return;
                    }
                }
            }
        });
        seen
    }
}

async fn serve(wire: DuplexStream) {
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(crate::MAX_STREAMS)
        .initial_window_size(crate::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(crate::CONNECTION_WINDOW_BYTES)
        .max_header_list_size(crate::MAX_HEAD_BYTES)
        .max_send_buffer_size(1 << 30)
        // Its bounds are others than ours; they are tested where they are.
        .max_pending_accept_reset_streams(1 << 20)
        .max_local_error_reset_streams(None);
    let Ok(mut connection) = builder.handshake(wire).await else {
        return;
    };
    while let Some(accepted) = connection.accept().await {
        let Ok((request, respond)) = accepted else {
            return;
        };
        tokio::task::spawn_local(answer(request, respond));
    }
}

/// Errors are the connection's to tell.
async fn answer(
    request: Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) -> Option<()> {
    let length: usize = request.uri().path()[1..].parse().unwrap_or(0);
    let mut body = request.into_body();
    while let Some(data) = body.data().await {
        let length = data.ok()?.len();
        body.flow_control().release_capacity(length).ok()?;
    }
    body.trailers().await.ok()?;
    let mut stream = respond.send_response(Response::new(()), length == 0).ok()?;
    if length > 0 {
        stream
            .send_data(Bytes::from(vec![b'y'; length]), true)
            .ok()?;
        // As long as this is there the rest is sent.
        std::future::poll_fn(|task| stream.poll_reset(task))
            .await
            .ok()?;
    }
    Some(())
}
