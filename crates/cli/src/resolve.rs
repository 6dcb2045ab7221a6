//! What the typed arguments mean, with environment and configuration file: flag over environment
//! over file over default.

use std::{env, path::PathBuf, sync::Arc};

use agent::{
    approval::Mode,
    model::{
        Provider,
        offline::Offline,
        openai::{ApiKey, OpenAi, OpenAiConfig},
    },
    session::TurnLimits,
    tool::Workspace,
};

use crate::{
    args::{ApprovalMode, OutputFormat, RunArgs},
    config_file::ConfigFile,
    exit::Exit,
    place::{Place, physical},
    stdio,
};

/// Said once where nobody configured a model.
const OFFLINE_NOTICE: &str = "No model provider is configured: using the built-in `offline` model. Set OPENAI_API_KEY (and OPENAI_BASE_URL, OPENAI_MODEL) to use another.";

const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

/// A run that cannot begin; one line that names the mend, and how the process ends.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failure,
            message: message.into(),
        }
    }

    /// No data root is known.
    pub(crate) fn no_root() -> Self {
        Self::usage("no data root is known: set ONRECORD_HOME or HOME")
    }

    /// Says it; answers how the process ends.
    pub(crate) fn tell(&self) -> Exit {
        stdio::say(&format!("onrecord: {}", self.message));
        self.exit
    }
}

/// What a run does.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) prompt: Option<String>,
    pub(crate) format: OutputFormat,
    pub(crate) partial: bool,
    pub(crate) mode: Mode,
    pub(crate) recording: bool,
    pub(crate) required: bool,
    pub(crate) limits: TurnLimits,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) system_prompt: Arc<str>,
    pub(crate) origin: Origin,
    /// Lines for standard error before the work begins.
    pub(crate) notices: Vec<&'static str>,
}

/// Where the conversation comes from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A new session, with its id where the person chose one.
    New(Option<String>),
    /// The newest session of the project.
    Continue {
        /// In a copy.
        fork: bool,
    },
    /// A session by id or unique prefix.
    Resume {
        /// As typed.
        id: String,
        /// In a copy.
        fork: bool,
    },
}

/// Resolves a run.
pub(crate) fn plan(args: RunArgs, place: &Place) -> Result<Plan, Refusal> {
    let file = read_config(place)?;
    let prompt = prompt(&args)?;
    if args.include_partial_messages && args.output_format != OutputFormat::StreamJson {
        return Err(Refusal::usage(
            "--include-partial-messages needs --output-format stream-json",
        ));
    }
    let mode = mode(&args, &file)?;
    let recording = if args.no_chat_recording {
        false
    } else {
        args.chat_recording
            .or(file.recording.enabled)
            .unwrap_or(true)
    };
    let required = args.require_recording || file.recording.required.unwrap_or(false);
    if required && !recording {
        return Err(Refusal::usage(
            "recording is both required and switched off: drop --require-recording or --no-chat-recording",
        ));
    }
    let origin = origin(&args)?;
    let mut notices = Vec::new();
    let provider = provider(&args, &file, &mut notices)?;
    if mode == Mode::Yolo {
        notices.push("Warning: approval mode yolo runs every tool call, shell commands included, without asking and without a sandbox.");
    }
    let root = place.cwd.clone();
    let system_prompt = match &args.system_prompt {
        Some(prompt) => match &args.append_system_prompt {
            Some(extra) => format!("{prompt}\n\n{extra}"),
            None => prompt.clone(),
        },
        None => agent::prompt::system(&root, args.append_system_prompt.as_deref()),
    };
    let allowed: Vec<PathBuf> = args
        .include_directories
        .iter()
        .map(|folder| physical(&root, folder))
        .collect();
    if let Some(missing) = allowed.iter().find(|folder| !folder.is_dir()) {
        return Err(Refusal::usage(format!(
            "--include-directories: {} is no folder",
            missing.display()
        )));
    }
    Ok(Plan {
        prompt,
        format: args.output_format,
        partial: args.include_partial_messages,
        mode,
        recording,
        required,
        limits: TurnLimits {
            n_round_trips_max: args.max_session_turns,
            n_tool_calls_max: args.max_tool_calls,
            wall_time_max: args.max_wall_time,
        },
        provider,
        workspace: Arc::new(Workspace {
            root,
            allowed,
            data_root: place.root.as_ref().map(|root| root.path().to_owned()),
        }),
        system_prompt: system_prompt.into(),
        origin,
        notices,
    })
}

/// Reads `config.toml` of the data root.
pub(crate) fn read_config(place: &Place) -> Result<ConfigFile, Refusal> {
    let Some(root) = &place.root else {
        return Ok(ConfigFile::default());
    };
    ConfigFile::read(&root.path().join("config.toml")).map_err(|error| Refusal {
        exit: Exit::Config,
        message: error.to_string(),
    })
}

fn prompt(args: &RunArgs) -> Result<Option<String>, Refusal> {
    match (&args.prompt, args.positional.as_slice()) {
        (Some(_), [_, ..]) => Err(Refusal::usage(
            "two prompts: give the prompt either with -p or as an argument, not both",
        )),
        (Some(prompt), []) => Ok(Some(prompt.clone())),
        (None, []) => Ok(None),
        (None, words) => Ok(Some(words.join(" "))),
    }
}

fn mode(args: &RunArgs, file: &ConfigFile) -> Result<Mode, Refusal> {
    if args.yolo {
        return Ok(Mode::Yolo);
    }
    if let Some(mode) = args.approval_mode {
        return Ok(match mode {
            ApprovalMode::Plan => Mode::Plan,
            ApprovalMode::Default => Mode::Default,
            ApprovalMode::AutoEdit => Mode::AutoEdit,
            ApprovalMode::Auto => Mode::Auto,
            ApprovalMode::Yolo => Mode::Yolo,
        });
    }
    let Some(word) = &file.approval.mode else {
        return Ok(Mode::Default);
    };
    [Mode::Plan, Mode::Default, Mode::AutoEdit, Mode::Auto, Mode::Yolo]
        .into_iter()
        .find(|mode| mode.as_str() == word)
        .ok_or_else(|| Refusal {
            exit: Exit::Config,
            message: format!(
                "config.toml: approval.mode is `{word}`; it must be plan, default, auto-edit, auto or yolo"
            ),
        })
}

fn origin(args: &RunArgs) -> Result<Origin, Refusal> {
    let fork = args.fork_session;
    if args.r#continue {
        return Ok(Origin::Continue { fork });
    }
    if let Some(id) = &args.resume {
        return Ok(Origin::Resume {
            id: id.clone(),
            fork,
        });
    }
    if fork {
        return Err(Refusal::usage(
            "--fork-session copies a session: say which with --resume ID or --continue",
        ));
    }
    let Some(id) = &args.session_id else {
        return Ok(Origin::New(None));
    };
    let valid = uuid::Uuid::try_parse(id).is_ok_and(|uuid| {
        id.len() == 36
            && uuid.get_variant() == uuid::Variant::RFC4122
            && (1..=8).contains(&uuid.get_version_num())
    });
    if valid {
        Ok(Origin::New(Some(id.to_ascii_lowercase())))
    } else {
        Err(Refusal::usage(format!(
            "--session-id: `{id}` is no UUID; give one such as 123e4567-e89b-42d3-a456-426614174000"
        )))
    }
}

fn provider(
    args: &RunArgs,
    file: &ConfigFile,
    notices: &mut Vec<&'static str>,
) -> Result<Arc<dyn Provider>, Refusal> {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
    let model = args
        .model
        .clone()
        .or_else(|| variable("OPENAI_MODEL"))
        .or_else(|| file.model.name.clone());
    if model.as_deref() == Some("offline") {
        return Ok(Arc::new(Offline::default()));
    }
    let key_name = file
        .model
        .api_key_env
        .as_deref()
        .unwrap_or("OPENAI_API_KEY");
    let key = args.openai_api_key.clone().or_else(|| variable(key_name));
    let base_url = args
        .openai_base_url
        .clone()
        .or_else(|| variable("OPENAI_BASE_URL"))
        .or_else(|| file.model.base_url.clone());
    let Some(model) = model else {
        if key.is_none() && base_url.is_none() {
            notices.push(OFFLINE_NOTICE);
            return Ok(Arc::new(Offline::default()));
        }
        return Err(Refusal::usage(
            "no model is named: give --model NAME or OPENAI_MODEL (or `--model offline` for the built-in one)",
        ));
    };
    if key.is_none() && base_url.is_none() {
        return Err(Refusal::usage(format!(
            "model `{model}` has no provider: set {key_name}, or OPENAI_BASE_URL for an endpoint without a key (or use `--model offline`)"
        )));
    }
    let base_url = base_url.unwrap_or_else(|| OPENAI_BASE_URL.to_owned());
    let proxy = proxy_variables(&base_url)
        .iter()
        .find_map(|name| variable(name));
    let provider = OpenAi::new(OpenAiConfig {
        base_url,
        api_key: key.map(ApiKey::new),
        model,
    })
    .and_then(|provider| match proxy {
        Some(proxy) => {
            let none = variable("NO_PROXY")
                .or_else(|| variable("no_proxy"))
                .unwrap_or_default();
            provider.with_proxy(&proxy, &none)
        }
        None => Ok(provider),
    })
    .map_err(|error| Refusal::usage(error.to_string()))?;
    Ok(Arc::new(provider))
}

/// The variables that name the proxy of an address, first wins. `HTTP_PROXY` in capitals is left
/// out, as other programs do: a web server sets it from a request's header.
fn proxy_variables(base_url: &str) -> &'static [&'static str] {
    if base_url.starts_with("https:") {
        &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
    } else {
        &["http_proxy", "ALL_PROXY", "all_proxy"]
    }
}
