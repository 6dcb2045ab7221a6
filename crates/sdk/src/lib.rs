//! The client of a daemon: it checks what comes, folds it, and shows what it means.

pub mod canonical;
pub mod load;
pub mod normalize;
pub mod validate;
