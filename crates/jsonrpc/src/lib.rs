//! JSON-RPC 2.0 as lines over any reader and writer, bounded and in order.
//!
//! This crate knows no method: what is said is for its users. It keeps what both sides of a pipe
//! need:
//!
//! - **Lines.** One JSON object per line, UTF-8, ended by LF; CR and blank lines are harmless. A line
//!   that is no message costs itself and nothing else. On the writer there are whole frames only.
//! - **Order.** Frames are written in the order of the calls that made them, whatever waited for
//!   whom: notifications, requests, answers and notices. Messages are taken in the order in which they
//!   were read, and an answer reaches its caller only once all that was read before it was taken.
//! - **Bounds.** Every queue has a maximum in bytes and in frames. A slow reader makes senders wait, a
//!   slow taker makes the other side wait, and nothing is dropped for it.
//! - **One answer.** Every request of the other side is answered once, if need be with an internal
//!   error. Every request of ours ends with an answer or with a reason.
//! - **Raw values.** Params, results and error data pass as they are, byte for byte; only line breaks
//!   between tokens become spaces.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use jsonrpc::{Connection, Message, Options, RpcError};
//!
//! let (near, _far) = tokio::io::duplex(1024);
//! let (reader, writer) = tokio::io::split(near);
//! let (peer, mut incoming, mut connection) = Connection::start(reader, writer, Options::default());
//!
//! tokio::spawn(async move {
//!     while let Some(message) = incoming.next().await {
//!         match message {
//!             Message::Request(request) => {
//!                 let error = RpcError::method_not_found(&request.method);
//!                 // Dropped: whoever asked is told in any case that there is no answer.
//!                 _ = request.responder.refuse(error).await;
//!             }
//!             Message::Notification(_unknown) => {}
//!         }
//!     }
//! });
//! let answer = peer.request("ping", &[1, 2]).await?;
//! println!("{answer}");
//! peer.close();
//! connection.ended().await;
//! # Ok(())
//! # }
//! ```
//!
//! Whoever holds an [`Incoming`] has to go on taking from it: answers, and the news that there will be
//! none, come the same way. To await an answer between two calls of [`Incoming::next`] is to await it
//! for ever, and to await room there is to stand still where the other side does the same; both belong
//! into a task of their own. Whoever wants no messages drops it: requests are then refused as unknown,
//! and notifications are ignored.

mod bounds;
mod connection;
mod encode;
mod error;
mod frame;
mod id;
mod inbox;
mod incoming;
mod lines;
mod outgoing;
mod peer;
mod reader;
mod responder;
mod sent;
mod shared;
mod writer;

pub use bounds::{AtEndOfInput, Bounds, Garbage, Options};
pub use connection::Connection;
pub use error::{
    Closed, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
    RequestError, RpcError, SendError,
};
pub use id::Id;
pub use incoming::{Incoming, Message, Notification, Request};
pub use peer::{Backlog, BadLines, Peer, Reply};
pub use responder::Responder;
pub use sent::Sent;
