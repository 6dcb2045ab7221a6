//! Prints the JSON Schema of what we say (`output`) or of what we understand (`input`).

#![expect(clippy::print_stdout, reason = "its only output")]

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let schema = match env::args().nth(1).as_deref() {
        Some("output") => wire::schema::output(),
        Some("input") => wire::schema::input(),
        _ => return ExitCode::FAILURE,
    };
    print!("{schema}");
    ExitCode::SUCCESS
}
