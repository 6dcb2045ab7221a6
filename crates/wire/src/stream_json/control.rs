//! The control protocol of `stream-json`: requests both ways and their answers, between the lines of
//! the conversation.
//!
//! Source: Qwen Code 0.24.4 and its SDKs; `docs/stream-json.md` says where ours differs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::ServerStatus;

/// What the program that drives us asks. Fields that we do not know are ignored.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum HostRequest {
    /// Begins SDK mode: from now on the host is asked about tool calls.
    Initialize(Box<Initialize>),
    /// Ends the running turn; without one it does nothing.
    Interrupt,
    /// Goes on with a turn that was left before it was done.
    ContinueLastTurn,
    /// Changes the approval mode, from the next tool call on.
    SetPermissionMode {
        /// The mode.
        #[cfg_attr(feature = "schema", schemars(extend("enum" = ["plan", "default", "auto-edit", "auto", "yolo"])))]
        mode: String,
    },
    /// Changes the model, from the next model call on.
    SetModel {
        /// Its name.
        model: String,
    },
    /// Changes how hard the model thinks, from the next model call on.
    SetEffort {
        /// How hard.
        #[cfg_attr(feature = "schema", schemars(extend("enum" = ["low", "medium", "high"])))]
        effort: String,
    },
    /// Asks for the slash commands.
    SupportedCommands,
    /// Asks for the MCP servers.
    McpServerStatus,
    /// Asks for the models that can be set.
    GetAvailableModels,
    /// Asks how full the model's context is.
    GetContextUsage {
        /// With the tools by name.
        #[serde(default)]
        show_details: Option<bool>,
    },
    /// Asks for the tokens of this session.
    GetUsageInfo {
        /// `today` and the like; kept in the answer.
        #[serde(default)]
        range: Option<String>,
    },
    /// Asks whether a tool would run without asking.
    CanUseTool {
        /// Its name.
        tool_name: String,
    },
    /// Anything else.
    #[serde(other)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}

/// What `initialize` says of the host. Every field may be absent.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Initialize {
    /// MCP servers that run in the host, by name.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<BTreeMap<String, Box<RawValue>>>")
    )]
    pub sdk_mcp_servers: Option<BTreeMap<String, IgnoredAny>>,
    /// MCP servers that we would start or reach, by name.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<BTreeMap<String, Box<RawValue>>>")
    )]
    pub mcp_servers: Option<BTreeMap<String, IgnoredAny>>,
    /// Sub-agents.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<Box<RawValue>>>"))]
    pub agents: Option<Vec<IgnoredAny>>,
    /// How long the host may take to answer.
    pub timeout: Option<HostTimeout>,
    /// How hard the model thinks, as in `set_effort`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["low", "medium", "high", null])))]
    pub effort: Option<String>,
}

/// Times that a host allows itself.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HostTimeout {
    /// Milliseconds to decide about a tool call; at most 600,000.
    pub can_use_tool: Option<u64>,
}

/// A request of ours to the host.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ControlRequest {
    /// Its id.
    pub request_id: String,
    /// What is asked.
    pub request: OurRequest,
}

/// What we ask the host.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum OurRequest {
    /// May this call run? Answered with `behavior`.
    CanUseTool {
        /// The tool's name.
        tool_name: String,
        /// The call's id.
        tool_use_id: String,
        /// Its arguments.
        input: Box<RawValue>,
        /// What a person could be offered.
        permission_suggestions: Vec<Suggestion>,
        /// Always `null`.
        blocked_path: (),
    },
    /// A JSON-RPC message for an MCP server in the host. Answered with `mcp_response`.
    McpMessage {
        /// The server's name.
        server_name: String,
        /// The message.
        message: Box<RawValue>,
    },
}

/// One choice for a person who is asked.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Suggestion {
    /// `allow`, `deny` or `modify`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["allow", "deny", "modify"])))]
    pub r#type: &'static str,
    /// A few words.
    pub label: &'static str,
    /// A line.
    pub description: String,
}

/// The host's answer to our `can_use_tool`.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Permission {
    /// Whether the call runs.
    pub behavior: Behavior,
    /// Of `allow`: arguments in place of the model's.
    #[serde(rename = "updatedInput")]
    pub updated_input: Option<Box<RawValue>>,
    /// Of `deny`: told to the model.
    pub message: Option<String>,
    /// Of `deny`: the turn ends, too.
    pub interrupt: Option<bool>,
}

/// Whether a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Behavior {
    /// It does.
    Allow,
    /// It does not.
    Deny,
}

/// The host's answer to `mcp_message`.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct McpAnswer {
    /// The server's message; an empty result for a notification.
    pub mcp_response: Option<Box<RawValue>>,
}

/// An answer to a request of the host; on a second output, what became of a question.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ControlResponse {
    /// The answer.
    pub response: Response,
}

/// Withdraws a request of ours: it was answered elsewhere, or is answered by nobody any more.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ControlCancelRequest {
    /// Of the request.
    pub request_id: String,
}

/// Whether a request was served.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum Response {
    /// It was.
    Success {
        /// Of the request.
        request_id: String,
        /// The answer.
        response: Answer,
    },
    /// It was not.
    Error {
        /// Of the request.
        request_id: String,
        /// Why; names the mend where there is one.
        error: String,
    },
}

/// What a request is answered with.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Answer {
    /// Most answers name their request.
    Named(NamedAnswer),
    /// To `set_permission_mode`.
    ModeUpdated {
        /// Always `updated`.
        #[cfg_attr(feature = "schema", schemars(extend("const" = "updated")))]
        status: &'static str,
        /// The mode.
        #[cfg_attr(feature = "schema", schemars(extend("enum" = ["plan", "default", "auto-edit", "auto", "yolo"])))]
        mode: &'static str,
    },
    /// What became of a question, told to the program on the second output.
    Decided {
        /// Whether the call runs.
        allowed: bool,
    },
}

/// Answers that name their request.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum NamedAnswer {
    /// To `initialize`.
    Initialize {
        /// The session.
        session_id: String,
        /// What is spoken here.
        capabilities: Capabilities,
    },
    /// To `interrupt`.
    Interrupt,
    /// To `continue_last_turn`.
    ContinueLastTurn {
        /// Whether a turn goes on.
        accepted: bool,
        /// `none`, `interrupted_prompt` or `interrupted_turn`.
        #[cfg_attr(feature = "schema", schemars(extend("enum" = ["none", "interrupted_prompt", "interrupted_turn"])))]
        interruption: &'static str,
    },
    /// To `set_model`.
    SetModel {
        /// The model of now.
        model: String,
    },
    /// To `set_effort`.
    SetEffort {
        /// The effort of now.
        #[cfg_attr(feature = "schema", schemars(extend("enum" = ["low", "medium", "high"])))]
        effort: &'static str,
        /// Whether the model takes it.
        applied: bool,
        /// Always `null`.
        r#override: (),
    },
    /// To `supported_commands`.
    SupportedCommands {
        /// Names, sorted.
        commands: Vec<&'static str>,
    },
    /// To `mcp_server_status`.
    McpServerStatus {
        /// How each stands, by name.
        status: BTreeMap<String, ServerStatus>,
    },
    /// To `get_available_models`.
    GetAvailableModels {
        /// The models.
        models: Vec<AvailableModel>,
    },
    /// To `get_context_usage`.
    GetContextUsage(Box<ContextUsage>),
    /// To `get_usage_info`.
    GetUsageInfo(Box<UsageInfo>),
    /// To `can_use_tool`.
    CanUseTool {
        /// Whether it would.
        behavior: Behavior,
        /// Why not.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
}

/// What is spoken here.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(clippy::struct_excessive_bools, reason = "the shape that clients read")]
pub struct Capabilities {
    /// The host is asked about tool calls.
    pub can_handle_can_use_tool: bool,
    /// Hooks are not.
    pub can_handle_hook_callback: bool,
    /// `set_permission_mode`.
    pub can_set_permission_mode: bool,
    /// `set_model`.
    pub can_set_model: bool,
    /// `set_effort`.
    pub can_set_effort: bool,
    /// `get_context_usage`.
    pub can_get_context_usage: bool,
    /// `get_available_models`.
    pub can_get_available_models: bool,
    /// `get_usage_info`.
    pub can_get_usage_info: bool,
    /// MCP servers in the host are reached.
    pub can_handle_mcp_message: bool,
}

impl Capabilities {
    /// Ours.
    pub const OURS: Self = Self {
        can_handle_can_use_tool: true,
        can_handle_hook_callback: false,
        can_set_permission_mode: true,
        can_set_model: true,
        can_set_effort: true,
        can_get_context_usage: true,
        can_get_available_models: true,
        can_get_usage_info: true,
        can_handle_mcp_message: true,
    };
}

/// A model that can be set.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AvailableModel {
    /// Its name, as `set_model` takes it.
    pub id: String,
    /// The same, for people.
    pub label: String,
    /// Whether it answers now.
    #[serde(rename = "isCurrent")]
    pub is_current: bool,
}

/// How full the model's context is. All figures are tokens; those that are not known are estimates of
/// four bytes a token.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContextUsage {
    /// The model.
    pub model_name: String,
    /// Of the last model call, as its provider counted; 0 before the first.
    pub total_tokens: u64,
    /// What the model holds; `null` where nobody said.
    pub context_window_size: Option<u64>,
    /// Where they come from.
    pub breakdown: ContextBreakdown,
    /// The built-in tools; empty without details.
    pub builtin_tools: Vec<NamedTokens>,
    /// The tools of MCP servers; empty without details.
    pub mcp_tools: Vec<NamedTokens>,
    /// Always `true`.
    pub is_estimated: bool,
    /// As asked.
    pub show_details: bool,
}

/// Where the tokens of a context come from.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContextBreakdown {
    /// Instructions.
    pub system_prompt: u64,
    /// Descriptions of built-in tools.
    pub builtin_tools: u64,
    /// Descriptions of tools of MCP servers.
    pub mcp_tools: u64,
    /// The conversation.
    pub messages: u64,
}

/// Tokens of one thing.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamedTokens {
    /// Its name.
    pub name: String,
    /// Its tokens.
    pub tokens: u64,
}

/// Tokens of this session.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UsageInfo {
    /// RFC 3339.
    pub generated_at: String,
    /// As asked. The figures are of this session, whatever it says.
    pub range: String,
    /// The totals.
    pub summary: UsageSummary,
}

/// Totals of a session.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UsageSummary {
    /// All tokens.
    pub total_tokens: u64,
    /// Of prompts.
    pub input_tokens: u64,
    /// Of answers.
    pub output_tokens: u64,
    /// Of prompts, cached.
    pub cached_tokens: u64,
    /// Of answers, thoughts.
    pub thoughts_tokens: u64,
    /// Model calls.
    pub requests: u64,
    /// Always 1.
    pub sessions: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// By edits.
    pub lines_added: u64,
    /// By edits.
    pub lines_removed: u64,
}
