//! Prints the OpenAPI document.

#![expect(clippy::print_stdout, reason = "its only output")]

fn main() {
    print!("{}", daemon::openapi::document());
}
