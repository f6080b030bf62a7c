//! Files in blocks: any size passes with bounded memory. Blocks are asked for ahead, so that a distant sidecar is not
//! waited for once per block.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use futures_util::stream::{self, FuturesOrdered, Stream, StreamExt as _, TryStreamExt as _};
use serde::de::IgnoredAny;
use sidecar_protocol::fs::{
    CloseParams, Handle, OpenMode, OpenParams, ReadBlockParams, ReadBlockResult, WriteBlockParams,
};
use sidecar_protocol::process::Sandbox;
use sidecar_protocol::{BASE64, Method, WirePath};

use super::decode;
use super::entry::Attributes;
use crate::client::Client;
use crate::error::Error;

/// Bytes of a block: half of what a server takes, so that others get their turn on the wire.
pub const BLOCK_BYTES: usize = 512 << 10;

/// Blocks of one file that are asked for, or sent, and not answered yet.
pub const BLOCKS_AHEAD: usize = 4;

/// An open handle of the connection. Dropped without a close, its close is sent in the background.
#[derive(Debug)]
struct OpenHandle {
    client: Client,
    id: String,
    is_open: bool,
}

impl OpenHandle {
    async fn open(
        client: &Client,
        path: WirePath,
        mode: OpenMode,
        attributes: Attributes,
        sandbox: Option<Sandbox>,
    ) -> Result<Self, Error> {
        // One sequence for the whole process: two `Filesystem`s may share a connection.
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let id = format!("h{}", OPENED.fetch_add(1, Ordering::Relaxed));
        let params = OpenParams {
            handle_id: id.clone(),
            path,
            mode,
            permissions: attributes.permissions,
            modified_at_ms: attributes.modified_at_ms,
            sandbox,
        };
        // Made first: where this is cancelled, the file may have been opened already.
        let handle = Self { client: client.clone(), id, is_open: true };
        match client.request::<_, Handle>(Method::FsOpen, &params).await {
            Ok(_) => Ok(handle),
            Err(error) => {
                handle.forget();
                Err(error)
            }
        }
    }

    async fn close(mut self, discard: bool) -> Result<(), Error> {
        self.is_open = false;
        close(self.client.clone(), self.id.clone(), discard).await
    }

    fn forget(mut self) {
        self.is_open = false;
    }
}

impl Drop for OpenHandle {
    fn drop(&mut self) {
        if self.is_open
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let closing = close(self.client.clone(), std::mem::take(&mut self.id), true);
            runtime.spawn(async move {
                if let Err(error) = closing.await {
                    tracing::debug!("a file handle is closed with the connection: {error}");
                }
            });
        }
    }
}

async fn close(client: Client, handle_id: String, discard: bool) -> Result<(), Error> {
    let params = CloseParams { handle_id, discard };
    client.request::<_, IgnoredAny>(Method::FsClose, &params).await.map(drop)
}

/// A file that is being read.
#[derive(Debug)]
pub struct FileReader(OpenHandle);

impl FileReader {
    pub(super) async fn open(
        client: &Client,
        path: WirePath,
        sandbox: Option<Sandbox>,
    ) -> Result<Self, Error> {
        OpenHandle::open(client, path, OpenMode::Read, Attributes::default(), sandbox).await.map(Self)
    }

    /// Up to `len` bytes from `offset` on, 1 MiB at most; fewer only where the file ends, which the flag tells.
    ///
    /// # Errors
    /// [`Error::Rpc`], [`Error::ConnectionLost`].
    pub async fn block(&self, offset: u64, len: usize) -> Result<(Vec<u8>, bool), Error> {
        let method = Method::FsReadBlock;
        let params = ReadBlockParams { handle_id: self.0.id.clone(), offset, len: len as u64 };
        let result: ReadBlockResult = self.0.client.request(method, &params).await?;
        Ok((decode(method, &result.chunk)?, result.eof))
    }

    /// The file from its start to its end, in order. Only after the first block is more asked for ahead: most files have
    /// no second one.
    pub fn blocks(&self) -> impl Stream<Item = Result<Vec<u8>, Error>> + '_ {
        let start = Some((FuturesOrdered::new(), 0, 1));
        stream::unfold(start, move |state| async move {
            let (mut asked, mut offset, ahead) = state?;
            while asked.len() < ahead {
                asked.push_back(self.block(offset, BLOCK_BYTES));
                offset += BLOCK_BYTES as u64;
            }
            match asked.next().await? {
                Ok((bytes, false)) => Some((Ok(bytes), Some((asked, offset, BLOCKS_AHEAD)))),
                Ok((bytes, true)) => Some((Ok(bytes), None)),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// All of it; closes the file.
    ///
    /// # Errors
    /// As [`FileReader::block`].
    pub async fn read_to_end(self) -> Result<Vec<u8>, Error> {
        let content = self
            .blocks()
            .try_fold(Vec::new(), |mut content, block| async move {
                content.extend(block);
                Ok(content)
            })
            .await?;
        self.close().await?;
        Ok(content)
    }

    /// Closes the file.
    ///
    /// # Errors
    /// As [`FileReader::block`].
    pub async fn close(self) -> Result<(), Error> {
        self.0.close(false).await
    }
}

/// A new content of a file. Dropped before [`FileWriter::finish`], it is given up and the old file stays.
#[derive(Debug)]
pub struct FileWriter(OpenHandle);

impl FileWriter {
    pub(super) async fn open(
        client: &Client,
        path: WirePath,
        attributes: Attributes,
        sandbox: Option<Sandbox>,
    ) -> Result<Self, Error> {
        OpenHandle::open(client, path, OpenMode::Replace, attributes, sandbox).await.map(Self)
    }

    /// Writes a block, 1 MiB at most; several may be under way at once. A gap reads as zeros.
    ///
    /// # Errors
    /// [`Error::Rpc`], after which the file can no longer be finished; [`Error::ConnectionLost`].
    pub async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let params =
            WriteBlockParams { handle_id: self.0.id.clone(), offset, chunk: BASE64.encode(bytes).into() };
        self.0.client.request::<_, IgnoredAny>(Method::FsWriteBlock, &params).await.map(drop)
    }

    /// Puts the new content in the old one's place.
    ///
    /// # Errors
    /// As [`FileWriter::write`].
    pub async fn finish(self) -> Result<(), Error> {
        self.0.close(false).await
    }

    /// Gives the new content up; nothing of it is left.
    ///
    /// # Errors
    /// As [`FileWriter::write`].
    pub async fn discard(self) -> Result<(), Error> {
        self.0.close(true).await
    }
}
