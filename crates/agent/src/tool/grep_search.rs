//! `grep_search`: lines of files by a regular expression.

use std::{fmt::Write as _, io, path::Path};

use futures_util::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use memchr::memchr;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wire::limits::{
    TOOL_FILE_BYTES_MAX, TOOL_MATCH_LINE_BYTES_MAX, TOOL_RESULT_BYTES_MAX, TOOL_ROWS_MAX,
};

use super::{
    Context, Display, Kind, Output, Preview, Tool, ToolError, Workspace, args, blocking, cut, file,
    glob::Base, rows, wording,
};
use crate::model::ToolSpec;

/// See the module.
#[derive(Debug)]
pub(super) struct GrepSearch;

#[derive(Debug, Deserialize)]
struct Args {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    limit: Option<usize>,
}

impl Tool for GrepSearch {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "grep_search".into(),
            description: "Searches the content of files, line by line, by a regular expression \
                          (case matters; begin with (?i) where it should not). Each row of the \
                          result is path:line:text. What .gitignore and .ignore name is left \
                          out, and so are binary files."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {
                        "type": "string",
                        "description": "The regular expression, for one line."
                    },
                    "path": {
                        "type": "string",
                        "description": "The folder or file to search; the project root by \
                                        default."
                    },
                    "glob": {
                        "type": "string",
                        "description": "Search only files whose path matches, for example \
                                        `*.rs`."
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "Rows to give at most."
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
            "Search {} for {pattern}",
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
            if args.limit == Some(0) {
                return Err(args::refused(self, "limit has to be at least 1"));
            }
            let refused = |error: String| args::refused(self, &error);
            let matcher = matcher(&args.pattern).map_err(|error| refused(error.to_string()))?;
            let filter = args.glob.as_deref().map(filter).transpose();
            let filter = filter.map_err(|error| refused(error.to_string()))?;
            let place = context
                .workspace
                .resolve(args.path.as_deref().unwrap_or("."))?;
            let base = Base::of(place, &context.workspace);
            let limit = args.limit.unwrap_or(TOOL_ROWS_MAX).min(TOOL_ROWS_MAX);
            blocking::read(context, move |cancel| {
                search(&base, &matcher, filter.as_ref(), limit, cancel)
            })
            .await
        })
    }
}

fn matcher(pattern: &str) -> Result<RegexMatcher, grep_regex::Error> {
    RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .build(pattern)
}

/// A pattern without a slash is of the file's name, at any depth.
fn filter(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let pattern = if pattern.contains('/') {
        pattern.to_owned()
    } else {
        format!("**/{pattern}")
    };
    let glob = GlobBuilder::new(&pattern).literal_separator(true).build()?;
    Ok(glob.compile_matcher())
}

fn search(
    base: &Base,
    matcher: &RegexMatcher,
    filter: Option<&GlobMatcher>,
    limit: usize,
    cancel: &CancellationToken,
) -> Result<Output, ToolError> {
    let mut found = Found::new(matcher, limit, cancel);
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(usize::try_from(TOOL_FILE_BYTES_MAX).ok())
        .build();
    for entry in base.walk()? {
        blocking::check(cancel)?;
        let Ok(entry) = entry else { continue };
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(below) = entry.path().strip_prefix(&base.place) else {
            continue;
        };
        if filter.is_some_and(|filter| !is_wanted(filter, below, entry.path())) {
            continue;
        }
        found.search(&mut searcher, entry.path(), base.row(below));
        if found.is_full {
            break;
        }
    }
    blocking::check(cancel)?;
    Ok(found.into_output(base))
}

/// A file that is itself the base has an empty path below it; its name counts then.
fn is_wanted(filter: &GlobMatcher, below: &Path, place: &Path) -> bool {
    if below.as_os_str().is_empty() {
        place.file_name().is_some_and(|name| filter.is_match(name))
    } else {
        filter.is_match(below)
    }
}

/// Rows found so far.
#[derive(Debug)]
struct Found<'s> {
    matcher: &'s RegexMatcher,
    cancel: &'s CancellationToken,
    limit: usize,
    out: String,
    n_rows: usize,
    n_files: usize,
    n_not_searched: usize,
    /// More was found than is given.
    is_full: bool,
}

impl<'s> Found<'s> {
    fn new(matcher: &'s RegexMatcher, limit: usize, cancel: &'s CancellationToken) -> Self {
        Self {
            matcher,
            cancel,
            limit,
            out: String::new(),
            n_rows: 0,
            n_files: 0,
            n_not_searched: 0,
            is_full: false,
        }
    }

    fn search(&mut self, searcher: &mut Searcher, place: &Path, shown: String) {
        let Ok((file, found)) = file::open(place, &shown) else {
            self.n_not_searched += 1;
            return;
        };
        if found.len() > TOOL_FILE_BYTES_MAX {
            self.n_not_searched += 1;
            return;
        }
        let n_rows = self.n_rows;
        let matcher = self.matcher;
        let rows = Rows { found: self, shown };
        let done = searcher.search_file(matcher, &file, rows);
        self.n_files += usize::from(self.n_rows > n_rows);
        self.n_not_searched += usize::from(done.is_err());
    }

    fn into_output(self, base: &Base) -> Output {
        let mut notes = Vec::new();
        if self.is_full {
            notes.push(format!(
                "Only the first {} shown; search for less.",
                wording::counted(self.n_rows, "row")
            ));
        } else if self.n_rows == 0 {
            notes.push(format!("No line matches in `{}`.", base.shown));
        }
        if self.n_not_searched > 0 {
            notes.push(format!(
                "{} not searched: unreadable, or more than {TOOL_FILE_BYTES_MAX} bytes.",
                wording::counted(self.n_not_searched, "file")
            ));
        }
        let note = if notes.is_empty() {
            String::new()
        } else {
            format!("[{}]", notes.join(" "))
        };
        let display = format!(
            "Found {} in {}.",
            wording::counted(self.n_rows, "line"),
            wording::counted(self.n_files, "file")
        );
        Output {
            text: rows::text(self.out, &note),
            display: Display::Text(display),
        }
    }
}

/// Takes the matching lines of one file.
#[derive(Debug)]
struct Rows<'f, 's> {
    found: &'f mut Found<'s>,
    shown: String,
}

impl Sink for Rows<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let found = &mut *self.found;
        if found.cancel.is_cancelled() {
            return Ok(false);
        }
        if found.n_rows == found.limit || found.out.len() > TOOL_RESULT_BYTES_MAX {
            found.is_full = true;
            return Ok(false);
        }
        found.n_rows += 1;
        let text = window(found.matcher, line.bytes());
        let number = line.line_number().unwrap_or(0);
        // Writing to a string cannot fail.
        writeln!(found.out, "{}:{number}:{text}", self.shown).unwrap_or_default();
        Ok(true)
    }
}

/// A line, or the part of a long one around its first match.
fn window(matcher: &RegexMatcher, line: &[u8]) -> String {
    let line = &line[..memchr(b'\n', line).unwrap_or(line.len())];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= TOOL_MATCH_LINE_BYTES_MAX {
        return String::from_utf8_lossy(line).into_owned();
    }
    let at = matcher
        .find(line)
        .ok()
        .flatten()
        .map_or(0, |found| found.start());
    let from = at.saturating_sub(TOOL_MATCH_LINE_BYTES_MAX / 4);
    // Twice the room is decoded, so that the cut is made between characters.
    let part = &line[from..line.len().min(from + TOOL_MATCH_LINE_BYTES_MAX * 2)];
    let part = String::from_utf8_lossy(part);
    let part = part.trim_start_matches(|char| from > 0 && char == '\u{fffd}');
    let (before, after) = (if from > 0 { "… " } else { "" }, " …");
    let room = TOOL_MATCH_LINE_BYTES_MAX - before.len();
    format!("{before}{}", cut::head(part, room, after))
}
