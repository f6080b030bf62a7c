//! One connection of a session: reading and writing go on side by side until either ends.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::sync::{Notify, mpsc};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::dispatch::dispatch;
use super::farewell;
use super::wire::{Lanes, Message};
use crate::transport::{Connection, Incoming, Outgoing, Received, Sent};

/// After so long without a word the server is asked for a sign of life, and after so long again it is given up. A live
/// one pings by itself within the two (every 30 s by default).
const SILENCE: Duration = Duration::from_secs(20);

/// How long the last words may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// This side wanted it.
    Closed,
    /// It was lost; another one may do.
    Lost(String),
    /// On another one the same would happen again.
    Broken(String),
}

/// Serves a connection until it ends. `first` is sent before anything that waits.
pub(super) async fn serve(
    connection: Connection,
    lanes: &Lanes,
    messages: &mut mpsc::Receiver<Message>,
    first: Vec<Utf8Bytes>,
    farewell: bool,
) -> End {
    let Connection { incoming, mut outgoing, pings } = connection;
    let ask = Notify::new();
    let ask = pings.then_some(&ask);
    tokio::select! {
        end = read(incoming, lanes, ask) => end,
        end = write(&mut outgoing, lanes, messages, first, ask, farewell) => end,
        () = overdue(lanes) => End::Closed,
    }
}

/// This side has wanted the end for long enough: the server takes nothing more.
async fn overdue(lanes: &Lanes) {
    lanes.closing.cancelled().await;
    tokio::time::sleep(CLOSE_PATIENCE).await;
}

async fn read(mut incoming: Incoming, lanes: &Lanes, ask: Option<&Notify>) -> End {
    loop {
        let received = match next(&mut incoming, ask).await {
            Ok(Some(received)) => received,
            Ok(None) => return End::Lost("the server closed it".to_owned()),
            Err(reason) => return End::Lost(reason),
        };
        match received {
            Received::Text(text) => {
                if let Err(violation) = dispatch(&text, lanes).await {
                    return End::Broken(format!("the server broke the protocol: {violation}"));
                }
            }
            Received::Alive => {}
            Received::Close { code, reason } => return closed(code, &reason),
        }
    }
}

/// What comes next. Only the time in which nothing is there to be read counts as silence.
async fn next(incoming: &mut Incoming, ask: Option<&Notify>) -> Result<Option<Received>, String> {
    let Some(ask) = ask else { return incoming.next().await.transpose() };
    if let Ok(received) = tokio::time::timeout(SILENCE, incoming.next()).await {
        return received.transpose();
    }
    ask.notify_one();
    match tokio::time::timeout(SILENCE, incoming.next()).await {
        Ok(received) => received.transpose(),
        Err(_) => Err(format!("the server has been silent for {} s", 2 * SILENCE.as_secs())),
    }
}

fn closed(code: Option<u16>, reason: &str) -> End {
    let told = match (code, reason) {
        (Some(code), reason) => format!("the server closed it: {reason} ({code})"),
        (None, _) => "the server closed it".to_owned(),
    };
    match code {
        // A violation of the protocol, data of a wrong kind, a policy, a message that is too big.
        Some(1002 | 1003 | 1007 | 1008 | 1009) => End::Broken(told),
        _ => End::Lost(told),
    }
}

async fn write(
    outgoing: &mut Outgoing,
    lanes: &Lanes,
    messages: &mut mpsc::Receiver<Message>,
    first: Vec<Utf8Bytes>,
    ask: Option<&Notify>,
    farewell: bool,
) -> End {
    match write_until_closing(outgoing, lanes, messages, first, ask).await {
        Ok(()) => {}
        Err(reason) => return End::Lost(reason),
    }
    if farewell && let Err(reason) = farewell::say(outgoing, lanes).await {
        tracing::debug!(reason, "what still runs could not be ended");
    }
    if let Err(reason) = outgoing.close().await {
        tracing::debug!(reason, "closed uncleanly");
    }
    End::Closed
}

/// Messages that wait are sent together. Returns when no more are to come and all of them are out.
async fn write_until_closing(
    outgoing: &mut Outgoing,
    lanes: &Lanes,
    messages: &mut mpsc::Receiver<Message>,
    first: Vec<Utf8Bytes>,
    ask: Option<&Notify>,
) -> Result<(), String> {
    for text in first {
        outgoing.feed(Sent::Text(text)).await?;
    }
    outgoing.flush().await?;
    loop {
        tokio::select! {
            // In this order: whoever closes sees what was handed over before go out.
            biased;
            message = messages.recv() => {
                let Some(message) = message else { return Ok(()) };
                feed(outgoing, lanes, message).await?;
            }
            () = lanes.acks.ready() => {
                for text in lanes.acks.take() {
                    outgoing.feed(Sent::Text(text.into())).await?;
                }
            }
            () = asked(ask) => outgoing.feed(Sent::Ping).await?,
            () = lanes.closing.cancelled() => return Ok(()),
        }
        if messages.is_empty() {
            outgoing.flush().await?;
        }
    }
}

async fn feed(outgoing: &mut Outgoing, lanes: &Lanes, message: Message) -> Result<(), String> {
    lanes.table.sent(message.id);
    outgoing.feed(Sent::Text(message.text)).await?;
    if let Some(follow) = message.follow {
        outgoing.feed(Sent::Text(follow)).await?;
    }
    Ok(())
}

async fn asked(ask: Option<&Notify>) {
    match ask {
        Some(ask) => ask.notified().await,
        None => std::future::pending().await,
    }
}
