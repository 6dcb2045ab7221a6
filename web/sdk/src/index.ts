/** A client of the onrecord daemon. */

export { canonical } from './canonical.js';
export * from './client.js';
export type { Event, Payload, Snapshot, ToolCallFields } from './event.js';
export { recordingNoticeId, view, type Notice, type Status, type View } from './normalize.js';
export { apply, dismissNotice, load, type LoadedRecord } from './reduce.js';
export * from './state.js';
export { EVENT_SCHEMA_VERSION, InvalidFrame, checked, frame, type Reason } from './validate.js';
export * as words from './words.js';
