//! The tools of tests, tested: a fault that does not happen would make every test pass.

mod faults;
mod home;
mod measure;
mod peers;
mod shim;
