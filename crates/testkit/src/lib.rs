//! What tests stand on: homes of their own, faults that really happen, and real peers.
//!
//! Never a dependency of the product. It knows how a program is started and what surrounds it, not
//! what the program does.

pub mod stub_model;
