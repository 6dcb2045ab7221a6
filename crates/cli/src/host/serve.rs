//! What becomes of each line of the host.

use std::sync::Arc;

use tokio::sync::mpsc;
use wire::stream_json::{
    Message,
    control::{ControlResponse, HostRequest, Response},
    input::{Input, InvalidInput, InvalidReason, parse},
};

use super::{Control, Host, input::Line};
use crate::{
    output::{line, messages::Messages},
    prompts::{Sender, Work},
    questions::{Questions, Reply},
};

/// Serves the host until its input ends. `prompts` is held that long, and keeps the run alive.
pub(crate) async fn serve(
    mut lines: mpsc::Receiver<Line>,
    host: Arc<Host>,
    questions: Questions,
    mut control: Control,
    prompts: Sender,
    others_answer: bool,
) {
    let mut number = 0;
    while let Some(line) = lines.recv().await {
        number += 1;
        let input = match line {
            Line::Whole(bytes) => parse(&bytes),
            Line::TooLong => Err(InvalidInput::too_long()),
        };
        let served = match input {
            Ok(Input::User(prompt)) => prompts
                .send(Work::Prompt(prompt))
                .map_err(|_full| too_many_prompts()),
            Ok(Input::Request {
                request_id,
                subtype,
                request,
            }) => {
                answer(&host, &mut control, request_id, &subtype, request, &prompts).await;
                Ok(())
            }
            Ok(Input::Response { request_id, answer }) => {
                // Dropped: an answer that nobody waits for came too late, and its asker has gone on.
                _ = questions.answer(&request_id, Reply::Host(answer));
                Ok(())
            }
            // Every request has its answer before the next line is read: none is left to withdraw.
            Ok(Input::Cancel { .. } | Input::Nothing) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            complain(&host, &control, &error, number).await;
        }
    }
    host.close_input(others_answer);
}

async fn answer(
    host: &Host,
    control: &mut Control,
    request_id: String,
    subtype: &str,
    request: HostRequest,
    prompts: &Sender,
) {
    let initialize = if let HostRequest::Initialize(initialize) = &request {
        Some(initialize.clone())
    } else {
        None
    };
    let response = match control.answer(subtype, request, prompts) {
        Ok(response) => Response::Success {
            request_id,
            response,
        },
        Err(error) => Response::Error { request_id, error },
    };
    let is_served = matches!(response, Response::Success { .. });
    respond(host, response).await;
    // A host that was refused does not expect questions.
    if let Some(initialize) = initialize.filter(|_| is_served) {
        host.initialize(initialize.timeout);
        control.connect_servers(&initialize);
    }
}

async fn respond(host: &Host, response: Response) {
    let response = Message::ControlResponse(ControlResponse { response });
    host.feed.send_line(line(&response)).await;
}

/// A bad request is answered as a request; any other bad line by a message of its own.
async fn complain(host: &Host, control: &Control, error: &InvalidInput, number: u64) {
    if let Some(request_id) = error.request_id.clone() {
        let error = error.message.clone();
        respond(host, Response::Error { request_id, error }).await;
        return;
    }
    let message = Messages::invalid_input(&control.session_id(), error, number);
    host.feed.send_line(line(&message)).await;
}

fn too_many_prompts() -> InvalidInput {
    InvalidInput {
        reason: InvalidReason::TooManyPrompts,
        message: "too many prompts wait for their turn; send this one again after a result"
            .to_owned(),
        request_id: None,
    }
}
