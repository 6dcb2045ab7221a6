//! Exactly what was typed.

use std::{path::PathBuf, time::Duration};

use agent::approval::Mode;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// A coding agent that never lies about its record.
#[derive(Debug, Parser)]
#[command(name = "onrecord", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    /// A command, or nothing for a run.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// A run.
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Commands beside the run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List, show, check and keep stored sessions.
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Be the agent of an editor or a daemon: speak ACP on standard input and output.
    Acp(Box<RunArgs>),
    /// Host sessions for many clients over HTTP.
    Serve(Box<ServeArgs>),
    /// Work with the sessions of a daemon.
    Remote(RemoteArgs),
    /// Say whether sessions can be recorded here, and what to do where not.
    Doctor {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `onrecord sessions …`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// The sessions of this project, newest first.
    List {
        /// A JSON object a line.
        #[arg(long)]
        json: bool,
        /// Rows at the most; 0 for all.
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
        /// The sessions of every project.
        #[arg(long)]
        all_projects: bool,
    },
    /// Print a session.
    Show {
        /// A session's id, or a beginning of it that names only one.
        id: String,
    },
    /// Check transcripts; writes nothing. Exit code 65 where one is damaged.
    Verify {
        /// A session's id or a transcript file.
        #[arg(conflicts_with = "all", value_name = "ID|FILE")]
        target: Option<String>,
        /// Every session of this project.
        #[arg(long)]
        all: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Give a session a title.
    Rename {
        /// A session's id, or a beginning of it that names only one.
        id: String,
        /// The title.
        title: String,
    },
    /// Write a session to standard output.
    Export {
        /// A session's id, or a beginning of it that names only one.
        id: String,
        /// Markdown to read, or JSON to work with.
        #[arg(long, value_enum, default_value_t = ExportFormat::Md)]
        format: ExportFormat,
    },
    /// Delete a session and what belongs to it.
    Delete {
        /// A session's id, or a beginning of it that names only one.
        id: String,
    },
}

/// Formats of `sessions export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Markdown.
    Md,
    /// JSON.
    Json,
    /// The records as they stand, one a line.
    Jsonl,
}

/// Flags of a run.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The same as the command `acp`, for programs that say it so.
    #[arg(long, hide = true, alias = "experimental-acp")]
    pub(crate) acp: bool,

    /// The prompt.
    #[arg(value_name = "PROMPT")]
    pub(crate) positional: Vec<String>,

    /// The prompt; runs one turn and ends.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,

    /// Format of standard output.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text, value_name = "FORMAT")]
    pub(crate) output_format: OutputFormat,

    /// Format of standard input: a prompt, or messages of a program, a JSON object a line (with
    /// `-o stream-json`).
    #[arg(long, value_enum, default_value_t = InputFormat::Text, value_name = "FORMAT")]
    pub(crate) input_format: InputFormat,

    /// Show messages while they grow (with `-o stream-json`).
    #[arg(long)]
    pub(crate) include_partial_messages: bool,

    /// What runs without asking.
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) approval_mode: Option<ApprovalMode>,

    /// Everything runs without asking: `--approval-mode yolo`.
    #[arg(short, long, conflicts_with = "approval_mode")]
    pub(crate) yolo: bool,

    /// Go on with the newest session of this project.
    #[arg(short, long, conflicts_with_all = ["resume", "session_id"])]
    pub(crate) r#continue: bool,

    /// Go on with this session.
    #[arg(short, long, value_name = "ID", conflicts_with = "session_id")]
    pub(crate) resume: Option<String>,

    /// The id of the new session.
    #[arg(long, value_name = "UUID")]
    pub(crate) session_id: Option<String>,

    /// Go on in a copy, and leave the session as it is (with --resume or --continue).
    #[arg(long)]
    pub(crate) fork_session: bool,

    /// Whether the session is recorded.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) chat_recording: Option<bool>,

    /// Do not record the session.
    #[arg(long, conflicts_with = "chat_recording")]
    pub(crate) no_chat_recording: bool,

    /// Refuse to work without a record; exit code 74 where part of it was lost.
    #[arg(long)]
    pub(crate) require_recording: bool,

    /// Model calls at the most; exit code 53 beyond.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_session_turns: Option<u32>,

    /// Tool calls at the most; exit code 55 beyond.
    #[arg(long, value_name = "N")]
    pub(crate) max_tool_calls: Option<u32>,

    /// Time at the most, as 90, 90s, 5m or 1h; exit code 55 beyond.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) max_wall_time: Option<Duration>,

    /// The model, or `offline` for the built-in one.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// Base URL of an OpenAI-compatible endpoint.
    #[arg(long, value_name = "URL")]
    pub(crate) openai_base_url: Option<String>,

    /// Key of that endpoint; better in OPENAI_API_KEY, where other users do not see it.
    #[arg(long, value_name = "KEY")]
    pub(crate) openai_api_key: Option<String>,

    /// Instructions in place of the built-in ones.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system_prompt: Option<String>,

    /// Instructions after the built-in ones.
    #[arg(long, value_name = "TEXT")]
    pub(crate) append_system_prompt: Option<String>,

    /// Offer the model these tools only, separated by commas.
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) core_tools: Vec<String>,

    /// Do not offer the model these tools, separated by commas.
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) exclude_tools: Vec<String>,

    /// Run these tools without asking, separated by commas.
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub(crate) allowed_tools: Vec<String>,

    /// Write every message to this open descriptor as well, 3 or above.
    #[arg(long, value_name = "N", conflicts_with = "json_file")]
    pub(crate) json_fd: Option<i32>,

    /// Write every message to this file or FIFO as well; what the file holds stays before it.
    #[arg(long, value_name = "FILE")]
    pub(crate) json_file: Option<PathBuf>,

    /// Take prompts and answers to permission requests from this file as well, as lines are added.
    #[arg(long, value_name = "FILE")]
    pub(crate) input_file: Option<PathBuf>,

    /// The program that starts us; for programs that say it.
    #[arg(long, hide = true, value_name = "NAME")]
    pub(crate) channel: Option<String>,

    /// The kind of endpoint; `openai` is the only one.
    #[arg(long, hide = true, value_name = "TYPE")]
    pub(crate) auth_type: Option<String>,

    /// Further folders that tools may touch, separated by commas.
    #[arg(long, value_name = "DIRS", value_delimiter = ',')]
    pub(crate) include_directories: Vec<PathBuf>,
}

/// Flags of `onrecord serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where it listens; beyond this machine only with a token.
    #[arg(long, default_value = "127.0.0.1", value_name = "HOST")]
    pub(crate) hostname: String,

    /// The port; 0 for any that is free.
    #[arg(long, default_value_t = 4170, value_name = "PORT")]
    pub(crate) port: u16,

    /// The folder of the sessions; the current one where it is not given.
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,

    /// What clients must send as bearer token; better in ONRECORD_TOKEN, where other users do not see
    /// it.
    #[arg(
        long,
        env = "ONRECORD_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    pub(crate) token: Option<String>,

    /// `/health` needs the token, too.
    #[arg(long)]
    pub(crate) require_auth: bool,

    /// Pages of this origin may ask; more than one by repeating it, `*` for every one.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,

    /// Limit the requests of each client: 10 prompts, 30 changes and 120 reads a minute.
    #[arg(long)]
    pub(crate) rate_limit: bool,

    /// Live sessions at the most; 0 for no limit.
    #[arg(long, default_value_t = 32, value_name = "N")]
    pub(crate) max_sessions: usize,

    /// Who may decide about tool calls.
    #[arg(long, value_enum, default_value_t = PermissionPolicy::FirstResponder, value_name = "POLICY")]
    pub(crate) permission_policy: PermissionPolicy,

    /// How long a question about a tool call stays open; 0 for ever.
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pub(crate) permission_response_timeout_ms: u64,

    /// How long a prompt may take; 0 for ever.
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pub(crate) prompt_deadline_ms: u64,

    /// Prompts of a session that run and wait, at the most.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_pending_prompts_per_session: u16,

    /// How long a stream may be silent towards its client; 0 for ever.
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pub(crate) writer_idle_timeout_ms: u64,

    /// Events of a session that can be replayed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) event_ring_size: Option<u32>,

    /// Another ACP agent in place of our own, as a command for the shell.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) agent_command: Option<String>,

    /// A folder of static files to serve at `/`.
    #[arg(long, env = "ONRECORD_WEB_DIR", value_name = "DIR")]
    pub(crate) web_dir: Option<PathBuf>,

    /// Serve no page.
    #[arg(long, conflicts_with = "web_dir")]
    pub(crate) no_web: bool,

    /// Serve `/metrics` in Prometheus' format.
    #[arg(long)]
    pub(crate) metrics: bool,

    /// The model, or `offline` for the built-in one.
    #[arg(short, long, value_name = "NAME", conflicts_with = "agent_command")]
    pub(crate) model: Option<String>,

    /// Refuse to work without a record.
    #[arg(long, conflicts_with = "agent_command")]
    pub(crate) require_recording: bool,

    /// Further arguments for our own agent, as `onrecord acp` takes them.
    #[arg(last = true, value_name = "ARGS", conflicts_with = "agent_command")]
    pub(crate) agent_args: Vec<std::ffi::OsString>,
}

/// Flags of `onrecord remote`.
#[derive(Debug, Args)]
pub(crate) struct RemoteArgs {
    /// Where the daemon is.
    #[arg(
        long,
        global = true,
        default_value = "http://127.0.0.1:4170",
        env = "ONRECORD_URL",
        value_name = "URL"
    )]
    pub(crate) url: String,

    /// What the daemon wants to see.
    #[arg(
        long,
        global = true,
        env = "ONRECORD_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    pub(crate) token: Option<String>,

    /// As JSON, an object a line.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: RemoteCommand,
}

/// `onrecord remote …`.
#[derive(Debug, Subcommand)]
pub(crate) enum RemoteCommand {
    /// Say something, and print what is answered.
    Prompt(RemotePromptArgs),
    /// The sessions of the daemon, the last active first.
    List {
        /// No more than these; 0 for all.
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
    },
    /// Print what happens in a session, until it ends.
    Watch {
        /// The session.
        session: String,
    },
}

/// Flags of `onrecord remote prompt`.
#[derive(Debug, Args)]
pub(crate) struct RemotePromptArgs {
    /// What is said.
    pub(crate) text: String,

    /// In this session; in a new one where it is not given.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// The approval mode of a new session.
    #[arg(long, value_enum, value_name = "MODE", conflicts_with = "session")]
    pub(crate) approval_mode: Option<ApprovalMode>,

    /// Leave questions about tools to other clients, instead of refusing them.
    #[arg(long)]
    pub(crate) wait_for_votes: bool,

    /// End with 74 where part of the session is not saved.
    #[arg(long)]
    pub(crate) require_recording: bool,
}

/// Values of `--permission-policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PermissionPolicy {
    /// Whoever answers first.
    FirstResponder,
    /// The client whose prompt it belongs to.
    Designated,
    /// Clients on this machine.
    LocalOnly,
}

/// Values of `--input-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// A prompt.
    Text,
    /// Messages of a program, a line each, for as long as it sends any.
    StreamJson,
}

/// Values of `--output-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The answer.
    Text,
    /// One array of messages at the end.
    Json,
    /// A message a line, as it happens.
    StreamJson,
}

/// Values of `--approval-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApprovalMode {
    /// Reads only.
    Plan,
    /// Reads run, the rest asks.
    Default,
    /// Edits inside the project run too.
    AutoEdit,
    /// As auto-edit.
    Auto,
    /// Everything runs.
    Yolo,
}

impl ApprovalMode {
    /// What it means.
    pub(crate) fn mode(self) -> Mode {
        match self {
            Self::Plan => Mode::Plan,
            Self::Default => Mode::Default,
            Self::AutoEdit => Mode::AutoEdit,
            Self::Auto => Mode::Auto,
            Self::Yolo => Mode::Yolo,
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "ms" => 0.001,
        _ => return Err("expected a time such as 90, 90s, 5m or 1h".to_owned()),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "expected a time such as 90, 90s, 5m or 1h".to_owned())?;
    match Duration::try_from_secs_f64(number * seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("expected a time above zero".to_owned()),
    }
}
