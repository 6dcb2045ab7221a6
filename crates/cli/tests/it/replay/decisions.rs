//! Where we differ from Qwen Code, and why.

use super::compare::Difference;

/// A difference that is meant.
#[derive(Debug)]
pub(super) struct Decision {
    /// The beginning of the samples' names; empty for all.
    sample: &'static str,
    /// The beginning of the place, see [`Difference::place`].
    place: &'static str,
    /// What ours holds; empty for anything.
    ours: &'static str,
    _why: &'static str,
}

impl Decision {
    pub(super) fn covers(&self, sample: &str, difference: &Difference) -> bool {
        self.concerns(sample)
            && difference.place.starts_with(self.place)
            && difference.ours.to_string().contains(self.ours)
    }

    pub(super) fn concerns(&self, sample: &str) -> bool {
        sample.starts_with(self.sample)
    }

    pub(super) fn is_about_all(&self) -> bool {
        self.sample.is_empty()
    }
}

const fn decided(sample: &'static str, place: &'static str, why: &'static str) -> Decision {
    Decision {
        sample,
        place,
        ours: "",
        _why: why,
    }
}

const fn said(
    sample: &'static str,
    place: &'static str,
    ours: &'static str,
    why: &'static str,
) -> Decision {
    Decision {
        sample,
        place,
        ours,
        _why: why,
    }
}

const RESULT: &str = "user.message.content.content";

/// All of them.
pub(super) const DECISIONS: &[Decision] = &[
    decided("", "init.+onrecord_version", "it says who speaks"),
    decided("", "init.uuid", "no message has the id of another"),
    decided("", "init.tools", "we have other tools"),
    decided("", "init.slash_commands", "we have other commands"),
    decided("", "init.agents", "we have no sub-agents"),
    said(
        "",
        "init.permission_mode",
        "default",
        "nothing runs without asking unless a person says so",
    ),
    decided(
        "",
        "result.+recording",
        "every result says how its record stands (B1)",
    ),
    decided("", "result.stats.-", "what is not counted is not there"),
    decided("", "result.stats.models.fake-model.-bySource", "as above"),
    decided("", "result.stats.tools.-totalDecisions", "as above"),
    decided(
        "",
        "result.stats.tools.byName.run_shell_command.-decisions",
        "as above",
    ),
    decided(
        "",
        "result.stats.tools.byName.write_file.-decisions",
        "as above",
    ),
    decided(
        "",
        "session_recording_degraded.data.+class",
        "the cause, as coarse as may leave the machine (B4)",
    ),
    decided(
        "",
        "session_recording_degraded.data.+lastRecordUuid",
        "up to where the record goes (B5)",
    ),
    said(
        "",
        "session_recording_degraded.data.message",
        wire::words::DEGRADED_MESSAGE,
        "the same in our words; a debug log that is off is no hint (R28)",
    ),
    said(
        "",
        RESULT,
        "\"Created `",
        "results of tools are in our words",
    ),
    said(
        "",
        RESULT,
        "\"hi\\n\"",
        "a command's output is what it printed",
    ),
    // A file that is there may be replaced without having been read.
    said(
        "tool-write.json",
        RESULT,
        "\"Replaced `",
        "the model said what it wants there",
    ),
    said(
        "tool-write.json",
        "user.message.content.is_error",
        "false",
        "as above",
    ),
    decided("tool-write.json", "result.stats.files.", "as above"),
    decided("tool-write.json", "result.stats.tools.", "as above"),
    said("tool-write.stream-json", RESULT, "\"Replaced `", "as above"),
    said(
        "tool-write.stream-json",
        "user.message.content.is_error",
        "false",
        "as above",
    ),
    said(
        "tool-denied",
        RESULT,
        "it needs approval",
        "a rule of theirs is our mode",
    ),
    said(
        "",
        "+tool_progress",
        "hi",
        "what a command says is shown while it runs, if it runs long enough",
    ),
    // Every run has a result, and `json` is printed however a run ends.
    said(
        "maxturn.stream-json",
        "+result",
        "--max-session-turns",
        "every turn has a result",
    ),
    said(
        "maxturn.json",
        "+result",
        "--max-session-turns",
        "`json` is printed however a run ends",
    ),
    decided("maxturn.json", "+", "as above"),
    said(
        "fullmax",
        "+result",
        "degraded",
        "`json` is printed however a run ends",
    ),
    said(
        "fullmax",
        "+session_recording_degraded",
        "write_failed",
        "a failure is never lost (R12)",
    ),
    decided("fullmax", "+", "as above"),
    // One bad line costs itself alone.
    said(
        "bad.malformed",
        "+invalid_input",
        "not_",
        "a bad line is answered, and the session goes on",
    ),
    decided("bad.malformed", "+", "as above"),
    said(
        "bad.malformed-midturn",
        RESULT,
        "printed nothing",
        "a command may wait",
    ),
    said(
        "bad.malformed-midturn",
        "user.message.content.is_error",
        "false",
        "as above",
    ),
    // Requests are answered in any mode, and a turn needs no `initialize`.
    said(
        "bad.direct-then-control",
        "interrupt: +control_response",
        "success",
        "a host is not left waiting",
    ),
    said(
        "bad.noinit",
        "supported_commands: +control_response",
        "success",
        "as above",
    ),
    said(
        "bad.noinit",
        "result.+result",
        "hello world",
        "a turn needs no initialize",
    ),
    decided("bad.noinit", "result.", "as above"),
    decided("bad.noinit", "+assistant", "as above"),
    decided("bad.noinit", "+goal_state", "as above"),
    said(
        "long.rmfile",
        "+session_recording_degraded",
        "gone",
        "a file that nobody can find is a failed write (B2)",
    ),
    decided(
        "sdk.basic",
        "supported_commands: control_response.response.response.commands",
        "we have other commands",
    ),
    decided(
        "sdk.basic",
        "get_available_models: control_response.response.response.models",
        "the models that are known",
    ),
    said(
        "sdk.basic",
        "+can_use_tool",
        "write_file",
        "who cannot answer any more may still see what was asked",
    ),
    // The permission protocol does what it says.
    said(
        "sdk.can",
        RESULT,
        "It ran with: ",
        "updatedInput is what runs, and the model is told",
    ),
    said(
        "sdk.can",
        RESULT,
        "cancelled and ended",
        "results of tools are in our words",
    ),
    said(
        "sdk.can",
        "+control_cancel_request",
        "request_id",
        "a question that is over is withdrawn",
    ),
    decided(
        "sdk.can",
        "-assistant",
        "after a deny that interrupts the model is not asked again",
    ),
    said(
        "sdk.can",
        "result.+error",
        "Operation cancelled.",
        "as above",
    ),
    decided("sdk.can", "result.-result", "as above"),
    said(
        "sdk.can",
        "result.subtype",
        "error_during_execution",
        "as above",
    ),
    said("sdk.can", "result.is_error", "true", "as above"),
    said("sdk.can", "result.num_turns", "1", "as above"),
    decided("sdk.can", "result.usage.", "as above"),
    said(
        "sdk.can",
        "result.permission_denials",
        "write_file",
        "what the host denies is listed",
    ),
    said(
        "sdk.ctl",
        "+warning",
        "Sub-agents",
        "what is left out is said",
    ),
    decided(
        "sdk.ctl",
        "supported_commands: ",
        "a request that was served is answered once, so is its withdrawal",
    ),
    decided(
        "sdk.ctl",
        "get_context_usage: control_response.response.response.-",
        "what is not counted is not there",
    ),
    decided(
        "sdk.ctl",
        "get_context_usage: control_response.response.response.breakdown.",
        "as above",
    ),
    said(
        "sdk.ctl",
        "get_context_usage: control_response.response.response.contextWindowSize",
        "null",
        "nobody said it",
    ),
    decided(
        "sdk.ctl",
        "get_usage_info: control_response.response.response.-",
        "what is not counted is not there",
    ),
    decided(
        "sdk.ctl",
        "get_usage_info: control_response.response.response.summary.-",
        "as above",
    ),
    decided(
        "sdk.ctl",
        "get_usage_info: control_response.response.response.order",
        "as in every other answer",
    ),
    decided(
        "sdk.ctl",
        "get_usage_info: control_response.response.response.generatedAt",
        "it is the time",
    ),
    said(
        "sdk.ctl",
        "get_usage_info: control_response.response.response.summary.sessions",
        "1",
        "it is that of one session",
    ),
    decided(
        "sdk.ctl",
        "mcp_message.request.message.order",
        "JSON-RPC knows no order",
    ),
    decided(
        "sdk.ctl",
        "mcp_message.request.message.params.order",
        "as above",
    ),
    decided(
        "sdk.ctl",
        "mcp_message.request.message.params._meta.progressToken",
        "a number of the connection",
    ),
];
