//! The client of a daemon: it checks what comes, folds it, and shows what it means.
//!
//! ```no_run
//! # async fn example() -> Result<(), sdk::client::Error> {
//! use sdk::{client::Client, follow::Options, normalize::view};
//!
//! let daemon = Client::new("http://127.0.0.1:4170", None)?;
//! let opened = daemon.create(None).await?;
//! let mut session = daemon.follow(&opened.session_id, Options::default());
//! daemon.prompt(&opened.session_id, None, "what is in this directory?").await?;
//! while session.next().await?.is_some() {
//!     let view = view(session.session());
//!     println!("{:?}, saved: {}", view.status, !view.recording.degraded);
//! }
//! # Ok(())
//! # }
//! ```

pub mod canonical;
pub mod client;
pub mod follow;
pub mod load;
pub mod normalize;
mod tls;
pub mod validate;
