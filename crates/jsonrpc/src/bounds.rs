//! What one connection may hold, and its manners.

use wire::limits::{
    JSONRPC_INCOMING_BYTES_MAX, JSONRPC_INCOMING_MESSAGES_MAX, JSONRPC_LINE_BYTES_MAX,
    JSONRPC_NOTICES_MAX, JSONRPC_OUTGOING_BYTES_MAX, JSONRPC_OUTGOING_FRAMES_MAX,
    JSONRPC_REQUESTS_MAX, JSONRPC_UNANSWERED_MAX,
};

/// The maxima of one connection; by default those of `wire::limits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of a line with its newline, both ways.
    pub line_bytes_max: usize,
    /// Bytes of frames accepted and not yet written. A larger frame is accepted when it is alone.
    pub outgoing_bytes_max: usize,
    /// Frames accepted and not yet written.
    pub outgoing_frames_max: usize,
    /// Notices that did not wait and are not yet written.
    pub notices_max: usize,
    /// Bytes of lines read and not yet taken. A larger line is accepted when it is alone.
    pub incoming_bytes_max: usize,
    /// Messages and answers read and not yet taken.
    pub incoming_messages_max: usize,
    /// Requests of ours without an answer.
    pub requests_max: usize,
    /// Requests of the other side whose answer is not written.
    pub unanswered_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            line_bytes_max: JSONRPC_LINE_BYTES_MAX,
            outgoing_bytes_max: JSONRPC_OUTGOING_BYTES_MAX,
            outgoing_frames_max: JSONRPC_OUTGOING_FRAMES_MAX,
            notices_max: JSONRPC_NOTICES_MAX,
            incoming_bytes_max: JSONRPC_INCOMING_BYTES_MAX,
            incoming_messages_max: JSONRPC_INCOMING_MESSAGES_MAX,
            requests_max: JSONRPC_REQUESTS_MAX,
            unanswered_max: JSONRPC_UNANSWERED_MAX,
        }
    }
}

/// What becomes of a bad line that names no request. One that does is answered in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Garbage {
    /// It is answered with an error whose id is null, as JSON-RPC has it. The answer is dropped where
    /// the outgoing queue is full, for nobody can wait for it.
    #[default]
    Answered,
    /// It is passed over. For programs that print other things between their frames and would take
    /// an answer without an id for a fault.
    Skipped,
}

/// How a connection behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// What it may hold.
    pub bounds: Bounds,
    /// What becomes of lines that are no messages.
    pub garbage: Garbage,
    /// What the end of the other side's output means.
    pub at_end_of_input: AtEndOfInput,
}

/// What becomes of a connection once nothing more is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AtEndOfInput {
    /// It ends by itself, once what was asked before is answered and written.
    #[default]
    Ends,
    /// It can be written to until [`Peer::close`](crate::Peer::close): there may be news that nobody asked for.
    StaysOpen,
}
