//! `list_directory`: what is in one folder.

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use futures_util::future::BoxFuture;
use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    Context, Display, Kind, Output, Preview, Tool, ToolError, Workspace, args, blocking,
    rows::{self, FirstRows},
    wording,
};
use crate::model::ToolSpec;

/// See the module.
#[derive(Debug)]
pub(super) struct ListDirectory;

#[derive(Debug, Deserialize)]
struct Args {
    path: String,
    ignore: Option<Vec<String>>,
}

impl Tool for ListDirectory {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "list_directory".into(),
            description: "Lists what is in a folder, hidden files included, sorted by name: \
                          folders end in /, symbolic links show where they lead, files show \
                          their size in bytes."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string",
                        "description": "The folder, relative to the project root or absolute; \
                                        `.` is the root."
                    },
                    "ignore": {
                        "type": "array",
                        "items": { "type": "string" },
                        "description": "Glob patterns of names to leave out."
                    }
                },
                "required": ["path"]
            }),
        }
    }

    fn kind(&self) -> Kind {
        Kind::Read
    }

    fn preview(&self, args: &str, workspace: &Workspace) -> Result<Preview, ToolError> {
        let args: Args = args::parse(self, args)?;
        let place = workspace.resolve(&args.path)?;
        Ok(Preview::Read(format!("List {}", workspace.shown(&place))))
    }

    fn run<'a>(
        &'a self,
        args: &'a str,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let args: Args = args::parse(self, args)?;
            let ignore = self.ignored(args.ignore.unwrap_or_default())?;
            let place = context.workspace.resolve(&args.path)?;
            let shown = context.workspace.shown(&place);
            blocking::read(context, move |cancel| list(&place, &shown, &ignore, cancel)).await
        })
    }
}

impl ListDirectory {
    fn ignored(&self, patterns: Vec<String>) -> Result<GlobSet, ToolError> {
        let refused = |error: globset::Error| args::refused(self, &error.to_string());
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            set.add(Glob::new(&pattern).map_err(refused)?);
        }
        set.build().map_err(refused)
    }
}

fn list(
    folder: &Path,
    shown: &str,
    ignore: &GlobSet,
    cancel: &CancellationToken,
) -> Result<Output, ToolError> {
    let unreadable = |error| ToolError::io(&format!("`{shown}` cannot be listed"), &error);
    let mut names = FirstRows::<OsString>::new();
    let mut n_ignored = 0_usize;
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        blocking::check(cancel)?;
        let name = entry.map_err(unreadable)?.file_name();
        if ignore.is_match(&name) {
            n_ignored += 1;
        } else {
            names.add(name);
        }
    }
    let (names, n_more) = names.into_parts();
    let (mut out, mut n_rows) = (String::new(), 0_usize);
    for name in names {
        blocking::check(cancel)?;
        n_rows += 1;
        out.push_str(&row(folder, &name));
        out.push('\n');
    }
    let n_all = n_rows + n_more;
    let mut note = match n_all {
        0 => format!("[`{shown}` is empty"),
        1 => format!("[1 entry in `{shown}`"),
        _ => format!("[{n_all} entries in `{shown}`"),
    };
    if n_more > 0 {
        note.push_str(&format!("; {n_more} more are not shown"));
    }
    if n_ignored > 0 {
        note.push_str(&format!("; {n_ignored} ignored"));
    }
    note.push_str(".]");
    let text = rows::text(out, &note);
    Ok(Output {
        text,
        display: Display::Text(format!("Listed {shown}: {n_all} entries.")),
    })
}

fn row(folder: &Path, name: &OsString) -> String {
    let place: PathBuf = folder.join(name);
    let mut row = wording::shown(name.as_ref());
    let Ok(found) = fs::symlink_metadata(&place) else {
        // It went away since, or may not be looked at; its name is there all the same.
        return row;
    };
    let kind = found.file_type();
    if kind.is_dir() {
        row.push('/');
    } else if kind.is_symlink() {
        let target = fs::read_link(&place).unwrap_or_default();
        row.push_str(&format!(" -> {}", wording::shown(&target)));
    } else if kind.is_file() {
        // Writing to a string cannot fail.
        write!(row, " ({} bytes)", found.len()).unwrap_or_default();
    } else {
        row.push_str(" (special file)");
    }
    row
}
