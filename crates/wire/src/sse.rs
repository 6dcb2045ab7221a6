//! Decoder of server-sent events.
