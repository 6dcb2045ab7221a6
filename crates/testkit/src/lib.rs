//! What tests stand on: homes of their own, faults that really happen, and real peers.
//!
//! Never a dependency of the product. It knows how a program is started and what surrounds it, not
//! what the program does; what it needs from the machine and does not find is said by
//! [`need::found`], never passed over.

pub mod driven;
pub mod fake_child;
pub mod fault_disk;
pub mod faults;
pub mod home;
pub mod http;
pub mod measure;
pub mod need;
pub mod peers;
pub mod rpc;
pub mod run;
pub mod schema;
pub mod served;
pub mod stub_model;
pub mod transcripts;
