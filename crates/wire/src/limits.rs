//! Every maximum of the product, with its unit and the reason for its size.

use std::time::Duration;

/// Bytes of records accepted but not yet written; beyond it `append` waits (B7).
/// Large enough for a burst of big tool results, small enough to be forgotten on a laptop.
pub const RECORDER_QUEUE_BYTES_MAX: usize = 16 << 20;

/// Bytes of records that wait while the transcript cannot be created (R4, B7).
pub const RECORDER_WAITING_BYTES_MAX: usize = 16 << 20;

/// Bytes of records in one write of the recorder: large enough that calls cost nothing, small enough
/// that a slow disk makes room in the queue bit by bit.
pub const RECORDER_WRITE_BYTES_MAX: usize = 1 << 20;

/// Bytes that have room in the queue before a task goes on to append; larger records are rare.
pub const RECORDER_ROOM_BYTES: usize = 1 << 20;

/// A nap of the recorder's writer between two looks at the queue. Waking it would cost the caller
/// more than a whole record does.
pub const RECORDER_NAP: Duration = Duration::from_millis(1);

/// Empty naps after which the writer sleeps until it is woken, so that an idle process is idle.
pub const RECORDER_NAPS_MAX: u32 = 20;

/// Bytes in the queue at which a napping writer is woken.
pub const RECORDER_WAKE_BYTES: usize = 256 << 10;

/// Interruptions of one write by signals after which it has failed.
pub const RECORDER_INTERRUPTIONS_MAX: u32 = 1_000;

/// How long `append` waits for room in a full queue before the recorder fails as `stalled` (B7).
pub const APPEND_WAIT_MAX: Duration = Duration::from_secs(2);

/// How long the model call waits for the user's prompt to be on disk (B7).
pub const PROMPT_ON_DISK_WAIT_MAX: Duration = Duration::from_secs(2);

/// How long a terminal result waits for the recorder's flush (R13, R14).
pub const SETTLE_WAIT_MAX: Duration = Duration::from_secs(2);

/// How long the process waits for the writer after the result (R13).
pub const EXIT_WAIT_MAX: Duration = Duration::from_secs(3);

/// How long `pending` stands before it is shown as a state of its own (B1).
pub const PENDING_SHOWN_AFTER: Duration = Duration::from_millis(250);

/// Bytes of one transcript line that the reader takes for a record; a longer one is damage.
pub const TRANSCRIPT_LINE_BYTES_MAX: usize = 256 << 20;

/// Bytes kept of a torn fragment that is cut at open (B3).
pub const FRAGMENT_BYTES_MAX: usize = 1 << 20;

/// Fragments that are kept; the oldest make room.
pub const FRAGMENTS_MAX: usize = 64;

/// Bytes of the system's words in one entry of the local log.
pub const LOCAL_LOG_TEXT_BYTES_MAX: usize = 1_000;

/// Bytes of the local log of recording failures (B4).
pub const LOCAL_LOG_BYTES_MAX: u64 = 1 << 20;

/// Bytes of other records after which a title is written again, so that readers of the last
/// 64 KiB find it (transcript format).
pub const TITLE_ANCHOR_BYTES: u64 = 32 << 10;

/// Bytes at each end of a transcript that a listing reads.
pub const LISTING_WINDOW_BYTES: usize = 64 << 10;

/// Bytes of one server-sent event, all its `data` lines together.
pub const SSE_EVENT_BYTES_MAX: usize = 48 << 20;

/// Bytes of one model response: text, thoughts and arguments together.
pub const MODEL_RESPONSE_BYTES_MAX: usize = 64 << 20;

/// Tool calls in one model response.
pub const MODEL_TOOL_CALLS_MAX: usize = 128;

/// Bytes of an error body that are read from a provider.
pub const MODEL_ERROR_BODY_BYTES_MAX: usize = 64 << 10;

/// Tries of one model call, the first included.
pub const MODEL_ATTEMPTS_MAX: u32 = 5;

/// Longest wait between two tries of a model call, whatever `Retry-After` says.
pub const MODEL_RETRY_WAIT_MAX: Duration = Duration::from_secs(60);

/// Silence on a model stream after which it counts as cut.
pub const MODEL_IDLE_WAIT_MAX: Duration = Duration::from_secs(300);

/// The wait after the first failed try of a model call; it doubles with every one.
pub const MODEL_RETRY_WAIT_FIRST: Duration = Duration::from_millis(500);

/// How long a model's server may take to accept a connection.
pub const MODEL_CONNECT_WAIT_MAX: Duration = Duration::from_secs(15);

/// How long the tokens and the end of an answer are waited for once it is whole.
pub const MODEL_TAIL_WAIT_MAX: Duration = Duration::from_secs(2);

/// How long the end of a body is waited for after the last event, so that its connection can be
/// used again; less than a new one costs.
pub const MODEL_BODY_END_WAIT_MAX: Duration = Duration::from_millis(20);

/// How deep arguments of a call may nest, so that the record that holds them can be read back by
/// readers that stop at 128 levels.
pub const MODEL_ARGS_DEPTH_MAX: usize = 100;

/// Bytes of a provider's own error text that a person is shown.
pub const MODEL_ERROR_TEXT_BYTES_MAX: usize = 500;

/// Bytes of a tool result that the model is given.
pub const TOOL_RESULT_BYTES_MAX: usize = 128 << 10;

/// Bytes of a diff that a person is shown; the middle is dropped.
pub const TOOL_DIFF_BYTES_MAX: usize = 64 << 10;

/// Bytes of the texts before and after a change, together, that go with its diff to clients that paint
/// one themselves.
pub const TOOL_DIFF_TEXTS_BYTES_MAX: usize = 1 << 20;

/// Time after which a diff is made coarser instead of exact.
pub const TOOL_DIFF_TIME_MAX: Duration = Duration::from_millis(500);

/// Bytes of one matching line that `grep_search` shows, around its first match.
pub const TOOL_MATCH_LINE_BYTES_MAX: usize = 512;

/// Bytes of a tool result in one `stream-json` message, as JSON, cut with a marker. The whole line stays
/// below 64 KiB, which is all that readers such as Python's asyncio take by default.
pub const STREAM_JSON_TOOL_RESULT_BYTES_MAX: usize = 63 << 10;

/// Bytes of output of a shell command that are kept; the middle is dropped.
pub const SHELL_OUTPUT_BYTES_MAX: usize = 256 << 10;

/// Default and longest time of a shell command.
pub const SHELL_TIME_DEFAULT: Duration = Duration::from_secs(120);
/// See [`SHELL_TIME_DEFAULT`].
pub const SHELL_TIME_MAX: Duration = Duration::from_secs(600);

/// How long a command that is ended may take to end by itself before it is killed.
pub const SHELL_GRACE_MAX: Duration = Duration::from_millis(500);

/// How long the output of an ended command is waited for where something still holds it open.
pub const SHELL_OUTPUT_LINGER_MAX: Duration = Duration::from_millis(500);

/// Shortest time between two pieces of progress of one command.
pub const SHELL_PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Bytes of one piece of progress; what came before them is not shown.
pub const SHELL_PROGRESS_BYTES_MAX: usize = 4 << 10;

/// Bytes of a file that `read_file`, `edit` and `grep_search` take.
pub const TOOL_FILE_BYTES_MAX: u64 = 32 << 20;

/// Rows of a directory listing, a glob or a search that the model is given.
pub const TOOL_ROWS_MAX: usize = 2_000;

/// Items of one list of `todo_write`; a longer one is no plan any more.
pub const TODO_ITEMS_MAX: usize = 100;

/// Bytes of the id and of the content of one item, as above.
pub const TODO_TEXT_BYTES_MAX: usize = 2 << 10;

/// Bytes of a prompt piped to standard input.
pub const STDIN_PROMPT_BYTES_MAX: usize = 8 << 20;

/// How long a run with another prompt waits for the first piped byte.
pub const STDIN_FIRST_BYTE_WAIT_MAX: Duration = Duration::from_millis(500);

/// Session events waiting for one output; beyond it the turn waits for its reader.
pub const OUTPUT_QUEUE_EVENTS_MAX: usize = 1_024;

/// Session events waiting for an output beside the main one; beyond it that output is given up, since
/// it must not hold up the work. Room for a fast turn of a minute.
pub const SIDE_OUTPUT_QUEUE_EVENTS_MAX: usize = 65_536;

/// Bytes of session events waiting for an output beside the main one, as above.
pub const SIDE_OUTPUT_QUEUE_BYTES_MAX: usize = 32 << 20;

/// How long an output may take nothing, once a signal has come, before the process ends without it. The
/// programs that start us kill 5 s after their signal.
pub const OUTPUT_STUCK_WAIT_MAX: Duration = Duration::from_secs(2);

/// How long the end of the process waits for an output beside the main one to be read.
pub const SIDE_OUTPUT_END_WAIT_MAX: Duration = Duration::from_secs(1);

/// Bytes of one line that a program sends us on standard input, images included; a longer one is
/// answered by an error.
pub const INPUT_LINE_BYTES_MAX: usize = 32 << 20;

/// Lines of standard input that wait to be understood; beyond it the program that writes them waits.
pub const INPUT_LINES_WAITING_MAX: usize = 16;

/// Bytes of prompts that wait for their turn; beyond it a prompt is refused with an error.
pub const INPUT_PROMPTS_BYTES_MAX: usize = 64 << 20;

/// Prompts that wait for their turn, as above.
pub const INPUT_PROMPTS_MAX: usize = 10_000;

/// How long the program that drives us may take to decide about a tool call, unless it says another
/// time.
pub const PERMISSION_WAIT_DEFAULT: Duration = Duration::from_secs(60);

/// The longest time that it can say.
pub const PERMISSION_WAIT_MAX: Duration = Duration::from_secs(600);

/// How long the program that drives us may take to answer any other request.
pub const HOST_ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);

/// Questions to the program that drives us that wait for an answer at a time.
pub const HOST_QUESTIONS_MAX: usize = 1_024;

/// How long an MCP server may take to say what it offers.
pub const MCP_CONNECT_WAIT_MAX: Duration = Duration::from_secs(30);

/// Answers of an MCP server that wait to be taken; each belongs to a request of ours.
pub const MCP_ANSWERS_WAITING_MAX: usize = 64;

/// Tools of one MCP server; those beyond are left out.
pub const MCP_TOOLS_MAX: usize = 512;

/// Bytes of one image of a prompt: what the larger providers take of a picture.
pub const IMAGE_BYTES_MAX: usize = 20 << 20;

/// Images of one prompt.
pub const PROMPT_IMAGES_MAX: usize = 20;

/// Bytes of all images that a model is sent with one conversation; the newest are kept. As text they
/// take a third more.
pub const MODEL_IMAGES_BYTES_MAX: usize = 32 << 20;

/// Bytes of all images that are kept beside one transcript; a further one is not saved.
pub const MEDIA_BYTES_MAX: u64 = 1 << 30;

/// Prompts and closes that wait in one session; a client sends one at a time.
pub const ACP_COMMANDS_WAITING_MAX: usize = 64;

/// How long a close may take that does not say.
pub const ACP_CLOSE_DRAIN_DEFAULT: Duration = Duration::from_secs(30);

/// Stored sessions that are read whole at a time; further requests wait for their turn.
pub const ACP_READS_MAX: usize = 4;

/// Updates of a stored session within one answer; the newest are kept.
pub const ACP_REPLAY_UPDATES_MAX: usize = 10_000;

/// Bytes of a stored session within one answer, half of what a line may have.
pub const ACP_REPLAY_BYTES_MAX: usize = 32 << 20;

/// Bytes of a guard's words that the model is told.
pub const GUARD_REASON_BYTES_MAX: usize = 500;

/// A nap between two looks at the file of commands of a second program.
pub const COMMAND_FILE_NAP: Duration = Duration::from_millis(100);

/// Files of one project that a listing looks at.
pub const LISTING_FILES_MAX: usize = 100_000;

/// How soon after the first signal another one still counts as the same: `timeout` signals a
/// process and then its group.
pub const SIGNAL_REPEAT_WAIT: Duration = Duration::from_millis(250);

/// Bytes of one JSON-RPC line, its newline included, both ways: where Qwen Code gives up the whole
/// channel. A session's replay takes up to 32 MiB of it.
pub const JSONRPC_LINE_BYTES_MAX: usize = 64 << 20;

/// Bytes kept of the beginning of a JSON-RPC line that is too long, to find in it whom to answer.
pub const JSONRPC_LINE_HEAD_BYTES: usize = 4 << 10;

/// Bytes of one read; a buffer that a long line made larger goes back to this size.
pub const JSONRPC_READ_BYTES: usize = 64 << 10;

/// Bytes of one JSON-RPC write, unless a frame alone is larger: large enough that calls cost nothing,
/// small enough that a slow reader makes room bit by bit.
pub const JSONRPC_WRITE_BYTES_MAX: usize = 256 << 10;

/// Bytes of JSON-RPC frames accepted and not yet written; beyond it senders wait.
pub const JSONRPC_OUTGOING_BYTES_MAX: usize = 16 << 20;

/// JSON-RPC frames accepted and not yet written; beyond it senders wait.
pub const JSONRPC_OUTGOING_FRAMES_MAX: usize = 1_024;

/// JSON-RPC notices that did not wait and are not yet written. They are rare: one per session whose
/// recording fails, say. Half of them may tell of levels, which are told again.
pub const JSONRPC_NOTICES_MAX: usize = 256;

/// Bytes of one JSON-RPC notice that does not wait.
pub const JSONRPC_NOTICE_BYTES_MAX: usize = 16 << 10;

/// Bytes of JSON-RPC lines that were read and not yet taken; beyond it nothing is read. Room for one
/// line of the largest size.
pub const JSONRPC_INCOMING_BYTES_MAX: usize = 64 << 20;

/// JSON-RPC messages that were read and not yet taken; beyond it nothing is read. As many as Qwen
/// Code holds.
pub const JSONRPC_INCOMING_MESSAGES_MAX: usize = 256;

/// JSON-RPC requests of ours without an answer, on one connection.
pub const JSONRPC_REQUESTS_MAX: usize = 1_024;

/// JSON-RPC requests of the other side whose answer is not written; further ones are refused.
pub const JSONRPC_UNANSWERED_MAX: usize = 1_024;

/// Bytes of a JSON-RPC id as it is written. Qwen Code takes texts of 256 bytes, which escapes and
/// quotes make longer.
pub const JSONRPC_ID_BYTES_MAX: usize = 512;

/// Bytes of a JSON-RPC method's name; Qwen Code gives up the channel beyond it.
pub const JSONRPC_METHOD_BYTES_MAX: usize = 1_024;

/// Bytes of the message of a JSON-RPC error that is sent; Qwen Code gives up the channel beyond it.
pub const JSONRPC_ERROR_MESSAGE_BYTES_MAX: usize = 1_024;

/// Events that a session's bus keeps for those who come back; as many as Qwen Code keeps.
pub const BUS_RING_EVENTS_MAX: usize = 8_000;

/// Bytes of the same, as they are written to a stream, so that a session with large results costs no more
/// memory than one with small ones. The newest event is kept whatever its size.
pub const BUS_RING_BYTES_MAX: usize = 8 << 20;

/// Bytes of one block of the ring, unless an event alone is larger: also the most that a slow stream holds
/// in memory. Large enough that calls cost nothing, small enough that blocks leave the ring bit by bit.
pub const BUS_BLOCK_BYTES_MAX: usize = 64 << 10;

/// Bytes of the first block of a ring; the next ones grow with it, so that an idle session costs little.
pub const BUS_BLOCK_BYTES_MIN: usize = 1 << 10;

/// Events that may be published while one stream writes what it was given; beyond it the stream is given
/// up, unless its client asked for another number.
pub const BUS_QUEUE_FRAMES_DEFAULT: usize = 256;
/// The smallest number that it can ask for.
pub const BUS_QUEUE_FRAMES_MIN: usize = 16;
/// The largest number that it can ask for.
pub const BUS_QUEUE_FRAMES_MAX: usize = 2_048;

/// Bytes of the same; a client that leaves more than this unread is told to come back for it.
pub const BUS_QUEUE_BYTES_MAX: usize = 2 << 20;

/// How full the queue of a stream may be, in percent of its limits, before its client is warned.
pub const BUS_QUEUE_WARN_PERCENT: u64 = 75;

/// How full it may be, in per mille, for the client to be warned again later: half of the other, so that a
/// queue that stays near its limit is not told of again and again.
pub const BUS_QUEUE_REARM_PER_MILLE: u64 = 375;

/// Bytes that one stream is given of what was before it; beyond it the session is read anew.
pub const BUS_REPLAY_BYTES_MAX: usize = 8 << 20;

/// Streams of one session at a time, as in Qwen Code.
pub const BUS_SUBSCRIBERS_MAX: usize = 64;

/// Bad lines of a daemon's child in a row after which it is ended: a program that says nothing else will
/// not come back, and one that prints now and then is borne.
pub const CHILD_BAD_LINES_MAX: u64 = 100;

/// Bytes of one line of a child's standard error; the rest of a longer one is dropped.
pub const CHILD_STDERR_LINE_BYTES_MAX: usize = 64 << 10;

/// Bytes of the end of a child's standard error that are kept, to be logged where it ends badly.
pub const CHILD_STDERR_TAIL_BYTES_MAX: usize = 16 << 10;

/// How long a child may take to end after SIGTERM before its whole group is killed.
pub const CHILD_END_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long an ended child's output, or the end of a child whose output ended, is waited for.
pub const CHILD_LINGER_WAIT_MAX: Duration = Duration::from_millis(500);

/// How often a child that takes part is asked whether it still answers.
pub const CHILD_PING_INTERVAL: Duration = Duration::from_secs(15);

/// How long a child may take to answer that.
pub const CHILD_PING_WAIT_MAX: Duration = Duration::from_secs(10);

/// Unanswered pings in a row after which a child is killed.
pub const CHILD_PINGS_LOST_MAX: u32 = 2;

/// How often a child is asked to say what is at work.
pub const CHILD_WORK_INTERVAL: Duration = Duration::from_secs(15);

/// Intervals without a word about what is at work after which it is unknown.
pub const CHILD_WORK_STALE_INTERVALS: u32 = 3;

/// Messages of a child that are handled in one go before streams get their turn.
pub const CHILD_RUN_MESSAGES_MAX: usize = 256;

/// How long a child may take for a request of the daemon that says nothing else.
pub const CHILD_ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);

/// How long a child may take to close a session before the session is given up here.
pub const CHILD_CLOSE_WAIT_MAX: Duration = Duration::from_secs(30);

/// Sessions that are not open yet and of which something is kept until they are (R17).
pub const EARLY_SESSIONS_MAX: usize = 64;

/// What is kept of one of them (R17).
pub const EARLY_FRAMES_MAX: usize = 32;

/// How long it is kept (R17).
pub const EARLY_WAIT_MAX: Duration = Duration::from_secs(60);

/// How long nothing is kept for a session that was closed: what still comes belongs to its past.
pub const TOMBSTONE_WAIT_MAX: Duration = Duration::from_secs(60);

/// Closed sessions that are remembered for it; the oldest make room.
pub const TOMBSTONES_MAX: usize = 1_024;

/// Permission requests of one session that are open at a time; further ones are answered as cancelled.
pub const PERMISSIONS_OPEN_MAX: usize = 64;

/// Decided permission requests of one session that are remembered, so that a late vote is told so.
pub const PERMISSIONS_DECIDED_MAX: usize = 512;

/// Prompts of one session, running and waiting, unless the daemon is told otherwise.
pub const PROMPTS_PENDING_DEFAULT: usize = 5;

/// Settled turns of one session that can be asked for.
pub const TURNS_REMEMBERED_MAX: usize = 64;

/// Bytes of the answer that a settled turn tells.
pub const TURN_RESULT_BYTES_MAX: usize = 16 << 10;

/// Bytes of finished turns that `load` of a live session answers; whole turns make room.
pub const HISTORY_TURNS_BYTES_MAX: usize = 4 << 20;

/// Bytes of what came since the last turn ended that `load` of a live session answers.
pub const HISTORY_JOURNAL_BYTES_MAX: usize = 8 << 20;

/// Entries of it.
pub const HISTORY_JOURNAL_ENTRIES_MAX: usize = 10_000;

/// How long the streams of a daemon that stops wait for the last words of its child.
pub const SHUTDOWN_STREAMS_WAIT_MAX: Duration = Duration::from_secs(3);

/// How often idle sessions are looked for.
pub const REAPER_INTERVAL: Duration = Duration::from_secs(60);

/// Bytes of a request's body.
pub const DAEMON_BODY_BYTES_MAX: usize = 10 << 20;

/// How long a request's body may take.
pub const DAEMON_BODY_WAIT_MAX: Duration = Duration::from_secs(60);

/// Bytes of an answer that gets an `ETag`; larger ones are sent whole every time.
pub const DAEMON_TAGGED_BYTES_MAX: u64 = 1 << 20;

/// Connections at a time; further ones wait to be accepted.
pub const DAEMON_CONNECTIONS_MAX: usize = 4_096;

/// How long a client may take to send the head of a request.
pub const DAEMON_HEADER_WAIT_MAX: Duration = Duration::from_secs(30);

/// How long a client may take nothing of what waits for it before its connection is given up.
pub const DAEMON_WRITE_STALL_MAX: Duration = Duration::from_secs(30);

/// Silence on an event stream after which a comment says that it lives.
pub const DAEMON_STREAM_HEARTBEAT: Duration = Duration::from_secs(15);

/// The wait after a connection that could not be accepted.
pub const DAEMON_ACCEPT_NAP: Duration = Duration::from_millis(100);

/// How long the last answers may take to be read when the daemon stops.
pub const DAEMON_END_WAIT_MAX: Duration = Duration::from_secs(2);

/// The window of the rate limit.
pub const DAEMON_RATE_WINDOW: Duration = Duration::from_secs(60);

/// Prompts of one address in a window.
pub const DAEMON_RATE_PROMPTS_MAX: u32 = 10;

/// Other changes of one address in a window.
pub const DAEMON_RATE_MUTATIONS_MAX: u32 = 30;

/// Reads of one address in a window.
pub const DAEMON_RATE_READS_MAX: u32 = 120;

/// Addresses and kinds of requests whose rates are remembered.
pub const DAEMON_RATE_CLIENTS_MAX: usize = 4_096;

/// Characters of a session's name; the rest is cut.
pub const SESSION_NAME_CHARS_MAX: usize = 256;

/// Rows of a list of sessions, where nobody says how many.
pub const DAEMON_LIST_ROWS_DEFAULT: usize = 20;

/// Rows of a list of sessions.
pub const DAEMON_LIST_ROWS_MAX: usize = 100;

/// Rows of a list of sessions in the organized view.
pub const DAEMON_LIST_ROWS_ORGANIZED_MAX: usize = 1_000;

/// Sessions of one request that archives or deletes.
pub const DAEMON_BATCH_SESSIONS_MAX: usize = 100;

/// Updates on a page of a transcript, where nobody says how many.
pub const DAEMON_HISTORY_PAGE_DEFAULT: u64 = 100;

/// Records of a page of history.
pub const DAEMON_HISTORY_PAGE_MAX: u64 = 500;

/// How long a question to the agent may take to be answered.
pub const DAEMON_ASK_WAIT_MAX: Duration = Duration::from_secs(10);

/// The same where it reads a whole transcript.
pub const DAEMON_ASK_TRANSCRIPT_WAIT_MAX: Duration = Duration::from_secs(60);

/// Bytes of a file of the page; larger ones are not served.
pub const DAEMON_PAGE_FILE_BYTES_MAX: u64 = 64 << 20;

/// How long after the daemon listens its agent is started, so that who waits for the daemon is answered first.
pub const AGENT_PREHEAT_DELAY: Duration = Duration::from_millis(50);

/// How long an agent may take to start and to answer `initialize`.
pub const AGENT_INITIALIZE_WAIT_MAX: Duration = Duration::from_secs(10);

/// How long a stored session may take to be brought back.
pub const AGENT_RESTORE_WAIT_MAX: Duration = Duration::from_secs(60);

/// How long a session without streams and turns stays live.
pub const SESSION_IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// Registered clients of one session; the one that was not seen for longest makes room.
pub const CLIENTS_MAX: usize = 1_024;

/// Bytes of one frame that a client takes.
pub const SDK_FRAME_BYTES_MAX: usize = 16 << 20;

/// Bytes of an answer that a client takes; the history of a long session comes in one.
pub const SDK_ANSWER_BYTES_MAX: usize = 96 << 20;

/// How long a client waits for an answer: longer than a daemon takes to bring a session back.
pub const SDK_ANSWER_WAIT_MAX: Duration = Duration::from_secs(90);

/// How long a client waits for a connection to its daemon.
pub const SDK_CONNECT_WAIT_MAX: Duration = Duration::from_secs(10);

/// Silence on an event stream after which a client takes it for dead: three heartbeats.
pub const SDK_SILENCE_MAX: Duration = Duration::from_secs(45);

/// A client's wait before it opens a stream again for the first time; it doubles with every one.
pub const SDK_RETRY_WAIT_FIRST: Duration = Duration::from_millis(250);

/// The longest of those waits.
pub const SDK_RETRY_WAIT_MAX: Duration = Duration::from_secs(30);

/// How long `onrecord remote prompt` tries to reach a daemon that was there before.
pub const REMOTE_GONE_MAX: Duration = Duration::from_secs(60);
