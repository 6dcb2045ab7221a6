//! What the typed arguments mean, with environment and configuration file: flag over environment
//! over file over default.

use std::{
    env,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    sync::Arc,
};

use agent::{
    approval::Mode,
    model::{
        Provider,
        offline::Offline,
        openai::{ApiKey, OpenAi, OpenAiConfig},
    },
    session::TurnLimits,
    tool::{self, Tool, Workspace},
};

use crate::{
    args::{InputFormat, OutputFormat, RunArgs},
    config_file::ConfigFile,
    exit::Exit,
    place::{Place, physical},
    stdio,
};

/// Said once where nobody configured a model.
const OFFLINE_NOTICE: &str = "No model provider is configured: using the built-in `offline` model. Set OPENAI_API_KEY (and OPENAI_BASE_URL, OPENAI_MODEL) to use another.";

/// The name of the built-in model.
const OFFLINE: &str = "offline";

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
    /// A program drives the run over standard input, for as long as it likes.
    pub(crate) driven: bool,
    pub(crate) side: SidePlan,
    pub(crate) mode: Mode,
    pub(crate) recording: bool,
    pub(crate) required: bool,
    pub(crate) limits: TurnLimits,
    pub(crate) models: Models,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) allowed_tools: Vec<String>,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) instructions: Instructions,
    pub(crate) origin: Origin,
    /// Lines for standard error before the work begins.
    pub(crate) notices: Vec<String>,
}

/// What the person says about the model's instructions.
#[derive(Debug)]
pub(crate) struct Instructions {
    whole: Option<String>,
    extra: Option<String>,
}

impl Instructions {
    /// The instructions for work in a folder.
    pub(crate) fn for_folder(&self, folder: &Path) -> Arc<str> {
        match (&self.whole, &self.extra) {
            (Some(whole), Some(extra)) => format!("{whole}\n\n{extra}").into(),
            (Some(whole), None) => whole.as_str().into(),
            (None, extra) => agent::prompt::system(folder, extra.as_deref()).into(),
        }
    }
}

/// The second output and the second input of a run.
#[derive(Debug, Default)]
pub(crate) struct SidePlan {
    pub(crate) output: Option<SideOutput>,
    pub(crate) commands: Option<PathBuf>,
}

/// Where the second output goes.
#[derive(Debug)]
pub(crate) enum SideOutput {
    /// A descriptor that was open when we began.
    Descriptor(i32),
    /// A file or FIFO.
    File(PathBuf),
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
    let driven = driven(&args)?;
    if let Some(other) = args.auth_type.as_deref()
        && other != "openai"
    {
        return Err(Refusal::usage(format!(
            "--auth-type: `{other}` is not spoken here; `openai` is"
        )));
    }
    let origin = origin(&args)?;
    let mut notices = Vec::new();
    let models = Models::new(&args, &file, &mut notices)?;
    if mode == Mode::Yolo {
        notices.push("Warning: approval mode yolo runs every tool call, shell commands included, without asking and without a sandbox.".to_owned());
    }
    let tools = tools(&args)?;
    let allowed_tools = allowed_tools(&args, &mut notices);
    let root = place.cwd.clone();
    let instructions = Instructions {
        whole: args.system_prompt,
        extra: args.append_system_prompt,
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
        driven,
        side: SidePlan {
            output: args
                .json_fd
                .map(SideOutput::Descriptor)
                .or(args.json_file.map(SideOutput::File)),
            commands: args.input_file,
        },
        mode,
        recording,
        required,
        limits: TurnLimits {
            n_round_trips_max: args.max_session_turns,
            n_tool_calls_max: args.max_tool_calls,
            wall_time_max: args.max_wall_time,
        },
        models,
        tools,
        allowed_tools,
        workspace: Arc::new(Workspace {
            root,
            allowed,
            data_root: place.root.as_ref().map(|root| root.path().to_owned()),
            open_files: None,
        }),
        instructions,
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
        return Ok(mode.mode());
    }
    let Some(word) = &file.approval.mode else {
        return Ok(Mode::Default);
    };
    Mode::of_word(word).ok_or_else(|| Refusal {
            exit: Exit::Config,
            message: format!(
                "config.toml: approval.mode is `{word}`; it must be plan, default, auto-edit, auto or yolo"
            ),
        })
}

/// Whether a program drives the run over standard input.
fn driven(args: &RunArgs) -> Result<bool, Refusal> {
    if args.input_format == InputFormat::Text {
        return Ok(false);
    }
    if args.output_format != OutputFormat::StreamJson {
        return Err(Refusal::usage(
            "--input-format stream-json needs --output-format stream-json",
        ));
    }
    // Nobody types this protocol.
    Ok(!io::stdin().is_terminal())
}

/// The tools on offer.
fn tools(args: &RunArgs) -> Result<Vec<Arc<dyn Tool>>, Refusal> {
    let (core, excluded) = (our_names(&args.core_tools), our_names(&args.exclude_tools));
    let mut tools = tool::registry();
    tools.retain(|tool| {
        let name = tool.spec().name;
        let listed = |list: &[String]| list.iter().any(|listed| *listed == *name);
        (core.is_empty() || listed(&core)) && !listed(&excluded)
    });
    if tools.is_empty() && !core.is_empty() && excluded.is_empty() {
        return Err(Refusal::usage(format!(
            "--core-tools names no tool that there is; there are: {}",
            all_tools()
        )));
    }
    Ok(tools)
}

/// The names of tools that run without asking.
fn allowed_tools(args: &RunArgs, notices: &mut Vec<String>) -> Vec<String> {
    let (patterns, names): (Vec<_>, Vec<_>) = our_names(&args.allowed_tools)
        .into_iter()
        .partition(|name| name.contains('('));
    for pattern in patterns {
        notices.push(format!(
            "Warning: --allowed-tools: `{pattern}` names a part of a tool, which is not supported; such calls ask."
        ));
    }
    names
}

fn our_names(flag: &[String]) -> Vec<String> {
    let names = flag.iter().map(|name| tool::our_name(name.trim()));
    names.map(str::to_owned).collect()
}

fn all_tools() -> String {
    let names: Vec<_> = tool::registry()
        .iter()
        .map(|tool| tool.spec().name)
        .collect();
    names.join(", ")
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

/// The models that a run can use: the one that it begins with, and those of the same endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Models {
    pub(crate) first: Arc<dyn Provider>,
    endpoint: Option<Endpoint>,
}

/// An OpenAI-compatible endpoint.
#[derive(Debug, Clone)]
struct Endpoint {
    base_url: String,
    key: Option<ApiKey>,
    proxy: Option<(String, String)>,
}

impl Models {
    fn new(args: &RunArgs, file: &ConfigFile, notices: &mut Vec<String>) -> Result<Self, Refusal> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let model = args
            .model
            .clone()
            .or_else(|| variable("OPENAI_MODEL"))
            .or_else(|| file.model.name.clone());
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
        let endpoint = (key.is_some() || base_url.is_some()).then(|| {
            let base_url = base_url.unwrap_or_else(|| OPENAI_BASE_URL.to_owned());
            let proxy = proxy_variables(&base_url)
                .iter()
                .find_map(|name| variable(name));
            let none = || variable("NO_PROXY").or_else(|| variable("no_proxy"));
            Endpoint {
                base_url,
                key: key.map(ApiKey::new),
                proxy: proxy.map(|proxy| (proxy, none().unwrap_or_default())),
            }
        });
        let Some(model) = model else {
            if endpoint.is_none() {
                notices.push(OFFLINE_NOTICE.to_owned());
                return Ok(Self {
                    first: Arc::new(Offline::default()),
                    endpoint: None,
                });
            }
            return Err(Refusal::usage(
                "no model is named: give --model NAME or OPENAI_MODEL (or `--model offline` for the built-in one)",
            ));
        };
        if endpoint.is_none() && model != OFFLINE {
            return Err(Refusal::usage(format!(
                "model `{model}` has no provider: set {key_name}, or OPENAI_BASE_URL for an endpoint without a key (or use `--model offline`)"
            )));
        }
        let first = provider(&model, endpoint.as_ref()).map_err(Refusal::usage)?;
        Ok(Self { first, endpoint })
    }

    /// The model of that name.
    ///
    /// # Errors
    /// It cannot be reached from here; the text names the mend.
    pub(crate) fn named(&self, model: &str) -> Result<Arc<dyn Provider>, String> {
        provider(model, self.endpoint.as_ref())
    }

    /// Names that are known to exist; an endpoint may know more.
    pub(crate) fn known(&self) -> Vec<String> {
        let mut names = vec![self.first.model().to_owned()];
        if names[0] != OFFLINE {
            names.push(OFFLINE.to_owned());
        }
        names
    }
}

fn provider(model: &str, endpoint: Option<&Endpoint>) -> Result<Arc<dyn Provider>, String> {
    if model == OFFLINE {
        return Ok(Arc::new(Offline::default()));
    }
    if model.trim().is_empty() {
        return Err("a model needs a name".to_owned());
    }
    let Some(endpoint) = endpoint else {
        return Err(format!(
            "model `{model}` has no provider here; `{OFFLINE}` is the only model"
        ));
    };
    let provider = OpenAi::new(OpenAiConfig {
        base_url: endpoint.base_url.clone(),
        api_key: endpoint.key.clone(),
        model: model.to_owned(),
    })
    .and_then(|provider| match &endpoint.proxy {
        Some((proxy, none)) => provider.with_proxy(proxy, none),
        None => Ok(provider),
    })
    .map_err(|error| error.to_string())?;
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
