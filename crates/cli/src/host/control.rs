//! How a request of the host is answered.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agent::{
    approval::{Mode, Verdict},
    controls::Controls,
    event::{Stats, TurnSummary},
    feed::Feed,
    interrupt::Interrupt,
    message::Usage,
    model::{Effort, ToolSpec},
    session::{Interruption, Session},
    tool::{Tool, find},
};
use wire::stream_json::{
    ServerStatus,
    control::{
        Answer, AvailableModel, Behavior, Capabilities, ContextBreakdown, ContextUsage,
        HostRequest, Initialize, NamedAnswer, NamedTokens, UsageInfo, UsageSummary,
    },
};

use super::mcp::Servers;
use crate::{
    prompts::{Sender, Work},
    resolve::Models,
    slash,
};

/// What may be asked about the session while a turn has it. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub(crate) struct Board {
    facts: Arc<Mutex<Facts>>,
}

#[derive(Debug)]
struct Facts {
    session_id: String,
    interruption: Interruption,
    usage: Usage,
    stats: Stats,
    tools: Vec<Arc<dyn Tool>>,
    system_prompt: Arc<str>,
}

impl Board {
    pub(crate) fn new(
        session: &Session,
        tools: Vec<Arc<dyn Tool>>,
        system_prompt: Arc<str>,
    ) -> Self {
        Self {
            facts: Arc::new(Mutex::new(Facts {
                session_id: session.id().to_owned(),
                interruption: session.interruption(),
                usage: Usage::default(),
                stats: Stats::default(),
                tools,
                system_prompt,
            })),
        }
    }

    /// The session of now.
    pub(crate) fn session_id(&self) -> String {
        self.lock().session_id.clone()
    }

    /// Notes how the session stands after a turn.
    pub(crate) fn note(&self, session: &Session, summary: &TurnSummary) {
        let mut facts = self.lock();
        session.id().clone_into(&mut facts.session_id);
        facts.interruption = session.interruption();
        facts.usage = summary.usage;
        facts.stats = summary.stats.clone();
    }

    /// Notes what the model may call from now on.
    pub(crate) fn note_tools(&self, tools: Vec<Arc<dyn Tool>>) {
        self.lock().tools = tools;
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers the host's requests.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) board: Board,
    pub(crate) controls: Controls,
    pub(crate) models: Models,
    pub(crate) interrupt: Interrupt,
    /// Tools that run without asking.
    pub(crate) allowed_tools: Vec<String>,
    pub(crate) servers: Servers,
    /// Standard output, for warnings.
    pub(crate) feed: Feed,
}

impl Control {
    pub(crate) fn session_id(&self) -> String {
        self.board.session_id()
    }

    /// Serves one request.
    ///
    /// # Errors
    /// It cannot be served; the text says why and, where there is one, the mend.
    pub(crate) fn answer(
        &mut self,
        subtype: &str,
        request: HostRequest,
        prompts: &Sender,
    ) -> Result<Answer, String> {
        let named = match request {
            HostRequest::Initialize(initialize) => {
                if let Some(effort) = &initialize.effort {
                    self.set_effort(effort)?;
                }
                NamedAnswer::Initialize {
                    session_id: self.session_id(),
                    capabilities: Capabilities::OURS,
                }
            }
            HostRequest::Interrupt => {
                self.interrupt.fire(prompts.some_wait());
                NamedAnswer::Interrupt
            }
            HostRequest::ContinueLastTurn => self.continue_last_turn(prompts)?,
            HostRequest::SetPermissionMode { mode } => {
                let Some(mode) = Mode::of_word(&mode) else {
                    let words: Vec<_> = Mode::ALL.iter().map(|mode| mode.as_str()).collect();
                    return Err(format!(
                        "Invalid permission mode: {mode}. Valid values are: {}",
                        words.join(", ")
                    ));
                };
                self.controls.set_mode(mode);
                return Ok(Answer::ModeUpdated {
                    status: "updated",
                    mode: mode.as_str(),
                });
            }
            HostRequest::SetModel { model } => {
                self.controls.set_provider(self.models.named(&model)?);
                NamedAnswer::SetModel { model }
            }
            HostRequest::SetEffort { effort } => {
                let (effort, applied) = self.set_effort(&effort)?;
                NamedAnswer::SetEffort {
                    effort: effort.as_str(),
                    applied,
                    r#override: (),
                }
            }
            HostRequest::SupportedCommands => NamedAnswer::SupportedCommands {
                commands: slash::NAMES.to_vec(),
            },
            HostRequest::McpServerStatus => NamedAnswer::McpServerStatus {
                status: self.servers.status(),
            },
            HostRequest::GetAvailableModels => NamedAnswer::GetAvailableModels {
                models: self.available_models(),
            },
            HostRequest::GetContextUsage { show_details } => NamedAnswer::GetContextUsage(
                Box::new(self.context_usage(show_details.unwrap_or(false))),
            ),
            HostRequest::GetUsageInfo { range } => {
                NamedAnswer::GetUsageInfo(Box::new(self.usage_info(range)))
            }
            HostRequest::CanUseTool { tool_name } => self.can_use_tool(&tool_name),
            HostRequest::Unknown => {
                return Err(format!("Unknown control request subtype: {subtype}"));
            }
        };
        Ok(Answer::Named(named))
    }

    /// Connects the MCP servers that an `initialize` names, once it is answered.
    pub(crate) fn connect_servers(&mut self, initialize: &Initialize) {
        let names = initialize.sdk_mcp_servers.iter().flatten();
        self.servers.connect(names.map(|(name, _)| name.clone()));
        for (name, _) in initialize.mcp_servers.iter().flatten() {
            self.warn(format!(
                "MCP server `{name}` is not started: only servers in the host are supported so far."
            ));
        }
        if initialize
            .agents
            .as_ref()
            .is_some_and(|agents| !agents.is_empty())
        {
            self.warn(
                "Sub-agents are not supported so far; those of `initialize` are left out."
                    .to_owned(),
            );
        }
    }

    fn warn(&self, message: String) {
        self.feed.offer(agent::event::Event::Warning(message));
    }

    fn continue_last_turn(&self, prompts: &Sender) -> Result<NamedAnswer, String> {
        let interruption = self.board.lock().interruption;
        let busy = self.interrupt.is_running() || prompts.some_wait();
        let accepted = interruption != Interruption::None && !busy;
        if accepted {
            prompts
                .send(Work::Continue)
                .map_err(|_full| "too many prompts wait".to_owned())?;
        }
        Ok(NamedAnswer::ContinueLastTurn {
            accepted,
            interruption: match interruption {
                _ if busy => "none",
                Interruption::None => "none",
                Interruption::Prompt => "interrupted_prompt",
                Interruption::Turn => "interrupted_turn",
            },
        })
    }

    fn set_effort(&self, word: &str) -> Result<(Effort, bool), String> {
        let Some(effort) = Effort::of_word(word) else {
            let words: Vec<_> = Effort::ALL.iter().map(|effort| effort.as_str()).collect();
            return Err(format!(
                "Invalid effort: {word}. Valid values are: {}",
                words.join(", ")
            ));
        };
        Ok((effort, self.controls.set_effort(effort)))
    }

    fn available_models(&self) -> Vec<AvailableModel> {
        let current = self.controls.provider().model().to_owned();
        let mut names = self.models.known();
        if !names.contains(&current) {
            names.insert(0, current.clone());
        }
        let models = names.into_iter().map(|name| AvailableModel {
            is_current: name == current,
            label: name.clone(),
            id: name,
        });
        models.collect()
    }

    /// Whether a tool would run without asking.
    fn can_use_tool(&self, name: &str) -> NamedAnswer {
        let mode = self.controls.mode();
        let verdict = find(&self.board.lock().tools, name).map(|tool| {
            let verdict = mode.verdict(tool.kind());
            let is_allowed = self.allowed_tools.iter().any(|allowed| allowed == name);
            if verdict == Verdict::Ask && is_allowed {
                Verdict::Run
            } else {
                verdict
            }
        });
        let message = match verdict {
            Ok(Verdict::Run) => None,
            Ok(Verdict::Refuse) => Some(format!(
                "Approval mode `{}` allows reading only.",
                mode.as_str()
            )),
            Ok(Verdict::Ask) => Some(
                "Tool execution requires manual approval. Update permission mode or approve via host."
                    .to_owned(),
            ),
            Err(error) => Some(error.message),
        };
        NamedAnswer::CanUseTool {
            behavior: if message.is_none() {
                Behavior::Allow
            } else {
                Behavior::Deny
            },
            message,
        }
    }

    fn context_usage(&self, show_details: bool) -> ContextUsage {
        let facts = self.board.lock();
        let (mut builtin_tools, mut mcp_tools) = (Vec::new(), Vec::new());
        for tool in &facts.tools {
            let spec = tool.spec();
            let tokens = tokens_of_tool(&spec);
            let list = if spec.name.starts_with("mcp__") {
                &mut mcp_tools
            } else {
                &mut builtin_tools
            };
            list.push(NamedTokens {
                name: spec.name.into_owned(),
                tokens,
            });
        }
        let sum = |tools: &[NamedTokens]| tools.iter().map(|tool| tool.tokens).sum::<u64>();
        let system_prompt = tokens(facts.system_prompt.len());
        let (n_builtin, n_mcp) = (sum(&builtin_tools), sum(&mcp_tools));
        let total_tokens = facts.stats.context_tokens;
        if !show_details {
            builtin_tools.clear();
            mcp_tools.clear();
        }
        ContextUsage {
            model_name: self.controls.provider().model().to_owned(),
            total_tokens,
            context_window_size: None,
            breakdown: ContextBreakdown {
                system_prompt,
                builtin_tools: n_builtin,
                mcp_tools: n_mcp,
                messages: total_tokens.saturating_sub(system_prompt + n_builtin + n_mcp),
            },
            builtin_tools,
            mcp_tools,
            is_estimated: true,
            show_details,
        }
    }

    fn usage_info(&self, range: Option<String>) -> UsageInfo {
        let facts = self.board.lock();
        let (usage, stats) = (&facts.usage, &facts.stats);
        UsageInfo {
            generated_at: jiff::Timestamp::now().to_string(),
            range: range.unwrap_or_else(|| "today".to_owned()),
            summary: UsageSummary {
                total_tokens: usage.total,
                input_tokens: usage.input,
                output_tokens: usage.output,
                cached_tokens: usage.cached,
                thoughts_tokens: usage.thoughts,
                requests: stats.n_requests,
                sessions: 1,
                tool_calls: stats.tools.iter().map(|tool| tool.n_calls).sum(),
                lines_added: stats.n_lines_added,
                lines_removed: stats.n_lines_removed,
            },
        }
    }
}

fn tokens_of_tool(spec: &ToolSpec) -> u64 {
    tokens(spec.name.len() + spec.description.len() + spec.parameters.to_string().len())
}

/// Four bytes a token is near enough for a picture.
fn tokens(n_bytes: usize) -> u64 {
    u64::try_from(n_bytes / 4).unwrap_or(u64::MAX)
}

/// The status of each server, by name.
pub(super) type Status = BTreeMap<String, ServerStatus>;
