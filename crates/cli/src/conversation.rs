//! Which conversation a run takes part in: a new one, a stored one, or a copy of a stored one.

use std::path::{Path, PathBuf};

use transcript::{
    layout::ProjectDir,
    lock::{self, Lock},
    reader::{self, Loaded},
    store::{self, Fork, Found},
};
use uuid::Uuid;
use wire::words;

use crate::{
    place::Place,
    resolve::{Origin, Plan, Refusal},
    stdio,
};

/// The conversation that a run takes part in.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) session_id: String,
    /// `None` where no data root is known.
    pub(crate) transcript: Option<PathBuf>,
    /// What is recorded of it, and the lock on its file where one could be had.
    pub(crate) stored: Option<(Loaded, Option<Lock>)>,
}

/// Finds it, or makes its id; a session that cannot be taken up is a refusal, never another session.
pub(crate) fn find_conversation(plan: &Plan, place: &Place) -> Result<Conversation, Refusal> {
    let project = place.project();
    match &plan.origin {
        Origin::New(id) => new_session(id.clone(), project.as_ref()),
        Origin::Continue { fork } => match newest(project.as_ref(), place)? {
            Some(found) => take_up(&found.path, *fork, place),
            None => {
                stdio::say("There is no session to continue in this project; a new one begins.");
                new_session(None, project.as_ref())
            }
        },
        Origin::Resume { id, fork } => take_up(&find(place, id)?.path, *fork, place),
    }
}

fn new_session(id: Option<String>, project: Option<&ProjectDir>) -> Result<Conversation, Refusal> {
    if let (Some(id), Some(project)) = (&id, project)
        && store::exists(project, id)
    {
        return Err(Refusal::usage(format!(
            "session {id} already exists, active or archived: go on with --resume {id}, or choose another id"
        )));
    }
    let session_id = id.unwrap_or_else(|| Uuid::new_v4().to_string());
    let transcript = project.map(|project| project.transcript(&session_id));
    Ok(Conversation {
        session_id,
        transcript,
        stored: None,
    })
}

/// The session named by its id or a beginning of it.
pub(crate) fn find(place: &Place, id: &str) -> Result<Found, Refusal> {
    let Some(root) = &place.root else {
        return Err(Refusal::no_root());
    };
    store::find(root, id).or_else(|error| {
        // Where nothing can be read, nobody knows that there is no such session.
        for project in store::projects(root) {
            readable(&project.chats_dir())?;
        }
        readable(&root.projects_dir())?;
        Err(Refusal::usage(error.to_string()))
    })
}

/// Whether what is stored in a folder can be known; a folder that is not there holds nothing.
///
/// # Errors
/// It is there, or may be, and cannot be read: that must not pass for empty (R27).
pub(crate) fn readable(folder: &Path) -> Result<(), Refusal> {
    match std::fs::read_dir(folder) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Refusal::usage(format!(
            "the stored sessions cannot be read ({}); `onrecord doctor` names the cause",
            error.kind()
        ))),
    }
}

/// The last readable session, and says which it skipped.
fn newest(project: Option<&ProjectDir>, place: &Place) -> Result<Option<Found>, Refusal> {
    let Some(project) = project else {
        return Ok(None);
    };
    readable(&project.chats_dir())?;
    let newest = store::newest(project, &place.cwd.to_string_lossy());
    for skipped in &newest.skipped {
        stdio::say(&format!(
            "Skipped session {}: {}.",
            skipped.session_id,
            skipped.reason.as_str()
        ));
    }
    Ok(newest.found)
}

fn take_up(path: &Path, copy: bool, place: &Place) -> Result<Conversation, Refusal> {
    let copied;
    let (path, lock) = if copy {
        // The copy leaves out what cannot be read, so it is said of the original.
        tell_damage(&load(path)?);
        copied = copy_of(path, place)?;
        (copied.as_path(), lock_of(&copied)?)
    } else {
        (path, lock_of(path)?)
    };
    let loaded = load(path)?;
    let Some(session_id) = loaded.session_id.clone() else {
        return Err(Refusal::usage(
            "the session holds no readable record; start a new one",
        ));
    };
    if !copy {
        tell_damage(&loaded);
    }
    Ok(Conversation {
        session_id,
        transcript: Some(path.to_owned()),
        stored: Some((loaded, lock)),
    })
}

/// What is recorded of a session.
pub(crate) fn load(path: &Path) -> Result<Loaded, Refusal> {
    reader::load(path).map_err(|error| Refusal::usage(error.to_string()))
}

/// R5: a second opener is refused with the mend.
pub(crate) fn lock_of(path: &Path) -> Result<Option<Lock>, Refusal> {
    lock::acquire(path).map_err(|_held| {
        Refusal::usage(
            "the session is open in another process: end it there, or go on in a copy with --fork-session",
        )
    })
}

fn copy_of(path: &Path, place: &Place) -> Result<PathBuf, Refusal> {
    let Some(project) = place.project() else {
        return Err(Refusal::no_root());
    };
    let id = Uuid::new_v4().to_string();
    let target = project.transcript(&id);
    let cwd = place.cwd.to_string_lossy();
    store::fork(&Fork {
        source: path,
        target: &target,
        session_id: &id,
        cwd: &cwd,
    })
    .map_err(|error| Refusal::usage(error.to_string()))?;
    Ok(target)
}

/// Damage is shown to the person, once, and never as a reason to delete anything.
fn tell_damage(loaded: &Loaded) {
    if loaded.is_damaged() {
        stdio::say(&words::damaged(loaded.n_damage, loaded.n_gaps));
    }
}
