//! `glob`: files by the pattern of their path.

use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use ignore::{Walk, WalkBuilder};
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
pub(super) struct Glob;

#[derive(Debug, Deserialize)]
struct Args {
    pattern: String,
    path: Option<String>,
}

impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "glob".into(),
            description: "Finds files by a glob pattern of their path, such as `**/*.rs` or \
                          `src/*.{ts,tsx}`, sorted by path. `*` stays within one folder, `**` \
                          does not. What .gitignore and .ignore name is left out."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {
                        "type": "string",
                        "description": "The pattern, relative to the folder searched."
                    },
                    "path": {
                        "type": "string",
                        "description": "The folder to search; the project root by default."
                    }
                },
                "required": ["pattern"]
            }),
        }
    }

    fn kind(&self) -> Kind {
        Kind::Read
    }

    fn preview(&self, args: &str, workspace: &Workspace) -> Result<Preview, ToolError> {
        let args: Args = args::parse(self, args)?;
        let place = workspace.resolve(args.path.as_deref().unwrap_or("."))?;
        let pattern = wording::shown(args.pattern.as_ref());
        Ok(Preview::Read(format!(
            "Find {pattern} in {}",
            workspace.shown(&place)
        )))
    }

    fn run<'a>(
        &'a self,
        args: &'a str,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let args: Args = args::parse(self, args)?;
            let place = context
                .workspace
                .resolve(args.path.as_deref().unwrap_or("."))?;
            let pattern = self.pattern(&args.pattern, &place)?;
            let base = Base::of(place, &context.workspace);
            blocking::read(context, move |cancel| find(&base, &pattern, cancel)).await
        })
    }
}

impl Glob {
    /// A pattern relative to the folder searched; an absolute one below it is taken too.
    fn pattern(&self, pattern: &str, place: &Path) -> Result<GlobMatcher, ToolError> {
        let below = Path::new(pattern);
        let below = if below.is_absolute() {
            below.strip_prefix(place).map_err(|_| {
                args::refused(
                    self,
                    "an absolute pattern has to be below the folder searched",
                )
            })?
        } else {
            below.strip_prefix(".").unwrap_or(below)
        };
        if below
            .components()
            .any(|step| step == std::path::Component::ParentDir)
        {
            return Err(args::refused(
                self,
                "a pattern cannot go up; give path instead of `..`",
            ));
        }
        let below = below.to_string_lossy();
        let glob = GlobBuilder::new(&below).literal_separator(true).build();
        glob.map(|glob| glob.compile_matcher())
            .map_err(|error| args::refused(self, &error.to_string()))
    }
}

/// Where a search begins.
#[derive(Debug)]
pub(super) struct Base {
    /// The physical place.
    pub(super) place: PathBuf,
    /// Its name for the model.
    pub(super) shown: String,
}

impl Base {
    pub(super) fn of(place: PathBuf, workspace: &Workspace) -> Self {
        let shown = workspace.shown(&place);
        Self { place, shown }
    }

    /// What is to be searched, in the order of paths. Links are not followed.
    pub(super) fn walk(&self) -> Result<Walk, ToolError> {
        if let Err(error) = std::fs::symlink_metadata(&self.place) {
            return Err(ToolError::io(
                &format!("`{}` cannot be searched", self.shown),
                &error,
            ));
        }
        let mut walk = WalkBuilder::new(&self.place);
        // Git's global file belongs to a home, and homes are not looked at from here.
        walk.hidden(false).require_git(false).git_global(false);
        walk.filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
        walk.sort_by_file_name(Ord::cmp);
        Ok(walk.build())
    }

    /// A found path as the model is told of it.
    pub(super) fn row(&self, below: &Path) -> String {
        let below = wording::shown(below);
        match self.shown.as_str() {
            "." => below,
            shown if below.is_empty() => shown.to_owned(),
            shown => format!("{}/{below}", shown.trim_end_matches('/')),
        }
    }
}

fn find(
    base: &Base,
    pattern: &GlobMatcher,
    cancel: &CancellationToken,
) -> Result<Output, ToolError> {
    let mut found = FirstRows::<PathBuf>::new();
    for entry in base.walk()? {
        blocking::check(cancel)?;
        // What cannot be looked at is passed over, as a search by hand would do.
        let Ok(entry) = entry else { continue };
        if entry.file_type().is_some_and(|kind| kind.is_dir()) {
            continue;
        }
        let Ok(below) = entry.path().strip_prefix(&base.place) else {
            continue;
        };
        if pattern.is_match(below) {
            found.add(below.to_owned());
        }
    }
    let (paths, n_more) = found.into_parts();
    let mut out = String::new();
    let mut n_rows = 0_usize;
    for path in paths {
        n_rows += 1;
        out.push_str(&base.row(&path));
        out.push('\n');
    }
    let n_all = n_rows + n_more;
    let note = match (n_all, n_more) {
        (0, _) => format!("[No file matches in `{}`.]", base.shown),
        (_, 0) => String::new(),
        _ => format!("[{n_all} files match; {n_more} more are not shown. Use a narrower pattern.]"),
    };
    let text = rows::text(out, &note);
    Ok(Output {
        text,
        display: Display::Text(format!("Found {}.", wording::counted(n_all, "file"))),
    })
}
