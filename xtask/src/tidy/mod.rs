//! The rules that a compiler does not know, one line for each breach.

mod invariants;
mod layers;
mod licences;
mod sources;
mod suites;

use std::process::ExitCode;

use anyhow::Result;

use crate::{export, workspace::Workspace};

/// What breaks a rule: where, and which.
pub(crate) type Breach = String;

pub(crate) fn run(workspace: &Workspace) -> Result<ExitCode> {
    let breaches = check(workspace)?;
    for breach in &breaches {
        eprintln!("{breach}");
    }
    if breaches.is_empty() {
        println!("tidy");
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

/// All rules that need the tree alone.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Breach>> {
    let texts = workspace.texts()?;
    let mut breaches = layers::check(workspace)?;
    breaches.extend(sources::check(&texts));
    breaches.extend(suites::check(&texts));
    breaches.extend(invariants::check(&texts));
    breaches.extend(export::check(workspace)?);
    breaches.extend(licences::check(workspace)?);
    Ok(breaches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let breaches = check(&Workspace::find().unwrap()).unwrap();
        assert!(breaches.is_empty(), "\n{}", breaches.join("\n"));
    }
}
