//! The agent over ACP, as its clients see it.

mod peers;
mod rust;
