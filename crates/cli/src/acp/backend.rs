//! Where the sessions of ACP clients come from: the same store, models and settings as those of a run.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use acp_agent::backend::{Backend, History, OpenError, Opened, Row, Voices};
use agent::{
    config::{Config, RecordingSettings},
    controls::Controls,
    model::Provider,
    replay::replay,
    session::{Session, SessionParts},
    tool::Workspace,
};
use transcript::{
    disk::OsDisk,
    lock::Lock,
    reader::Loaded,
    store::{self, FindError},
};

use wire::words;

use crate::{
    conversation::{load, lock_of, readable},
    place::Place,
    resolve::{Plan, Refusal},
    run::version,
};

/// The sessions of one process.
#[derive(Debug)]
pub(super) struct Sessions {
    plan: Plan,
    place: Place,
    /// The soft limit of open files that commands get.
    open_files: Option<u64>,
}

impl Sessions {
    pub(super) fn new(plan: Plan, place: Place, open_files: Option<u64>) -> Self {
        Self {
            plan,
            place,
            open_files,
        }
    }

    fn open(
        &self,
        session_id: &str,
        cwd: &Path,
        transcript: Option<PathBuf>,
        voices: Voices,
        stored: Option<(Loaded, Option<Lock>)>,
    ) -> Opened {
        let plan = &self.plan;
        let config = Config::new(RecordingSettings {
            enabled: plan.recording,
            required: plan.required,
            disk: Arc::new(OsDisk),
            log: self.place.log(),
            version: version(),
            clock: Arc::new(jiff::Timestamp::now),
        });
        (voices.listen)(&config);
        let controls = Controls::new(plan.mode, Arc::clone(&plan.models.first));
        let history = stored
            .as_ref()
            .map_or_else(History::default, |(loaded, _)| history(loaded));
        let ends_torn = stored
            .as_ref()
            .is_some_and(|(loaded, _)| loaded.ends_torn());
        let title = stored
            .as_ref()
            .and_then(|(loaded, _)| loaded.title.as_ref())
            .map(|title| title.text.clone());
        let parts = SessionParts {
            config: config.clone(),
            session_id: session_id.to_owned(),
            transcript,
            workspace: Arc::new(Workspace {
                root: cwd.to_owned(),
                allowed: plan.workspace.allowed.clone(),
                data_root: plan.workspace.data_root.clone(),
                open_files: self.open_files,
            }),
            controls: controls.clone(),
            tools: plan.tools.clone(),
            system_prompt: plan.instructions.for_folder(cwd),
            allowed_tools: plan.allowed_tools.clone(),
            approver: Some(voices.approver),
            guard: voices.guard,
            editor: voices.editor,
            limits: plan.limits,
        };
        let session = match stored {
            Some((loaded, lock)) => Session::resume(parts, &loaded, lock),
            None => Session::begin(parts),
        };
        Opened {
            session,
            config,
            controls,
            history,
            title,
            ends_torn,
        }
    }

    /// The transcript of a session, by its whole id.
    fn find(&self, session_id: &str) -> Result<PathBuf, OpenError> {
        let root = self.place.root.as_ref().ok_or(OpenError::NotFound)?;
        match store::find(root, session_id) {
            Ok(found) if found.session_id == session_id => Ok(found.path),
            // The beginning of an id is no id.
            Err(FindError::Ambiguous { found, .. })
                if found.iter().any(|found| found.session_id == session_id) =>
            {
                Err(OpenError::Other(
                    "several projects hold a session of this id".to_owned(),
                ))
            }
            Ok(_) | Err(FindError::NotFound { .. } | FindError::Ambiguous { .. }) => {
                // Where nothing can be read, nobody knows that there is no such session.
                readable(&root.projects_dir()).map_err(other)?;
                let project = root.project(&self.place.cwd);
                let (_, archived) = store::whereabouts(&project, session_id);
                Err(match archived {
                    Some(_) => OpenError::Archived,
                    None => OpenError::NotFound,
                })
            }
        }
    }
}

impl Backend for Sessions {
    fn begin(&self, session_id: &str, cwd: &Path, voices: Voices) -> Result<Opened, OpenError> {
        let cwd = folder(cwd)?;
        let project = self.place.root.as_ref().map(|root| root.project(&cwd));
        let in_project = project
            .as_ref()
            .is_some_and(|project| store::exists(project, session_id));
        // An id that two projects hold could not be loaded any more.
        if in_project || self.find(session_id).is_ok() {
            return Err(OpenError::Invalid(format!(
                "session {session_id} already exists: load it, or choose another id"
            )));
        }
        let transcript = project.map(|project| project.transcript(session_id));
        Ok(self.open(session_id, &cwd, transcript, voices, None))
    }

    fn take_up(&self, session_id: &str, cwd: &Path, voices: Voices) -> Result<Opened, OpenError> {
        let cwd = folder(cwd)?;
        let path = self.find(session_id)?;
        let lock = lock_of(&path).map_err(|refusal| OpenError::Busy(refusal.message))?;
        let loaded = load(&path).map_err(other)?;
        Ok(self.open(session_id, &cwd, Some(path), voices, Some((loaded, lock))))
    }

    fn list(&self, cwd: Option<&Path>) -> Result<Vec<Row>, OpenError> {
        let Some(root) = &self.place.root else {
            return Ok(Vec::new());
        };
        let listing = match cwd {
            Some(cwd) => {
                let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
                let project = root.project(&cwd);
                readable(&project.chats_dir()).map_err(other)?;
                store::list(&project, Some(&cwd.to_string_lossy()), None)
            }
            None => {
                readable(&root.projects_dir()).map_err(other)?;
                store::list_all(root, None)
            }
        };
        Ok(listing.rows.into_iter().map(row).collect())
    }

    fn replay(&self, session_id: &str) -> Result<History, OpenError> {
        let path = self.find(session_id)?;
        Ok(history(&load(&path).map_err(other)?))
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    fn models(&self) -> Vec<String> {
        self.plan.models.known()
    }

    fn model(&self, name: &str) -> Result<Arc<dyn Provider>, String> {
        self.plan.models.named(name)
    }
}

fn history(loaded: &Loaded) -> History {
    let damage = || words::damaged(loaded.n_damage, loaded.n_gaps);
    History {
        steps: replay(loaded),
        damage: loaded.is_damaged().then(damage),
    }
}

fn row(row: store::Row) -> Row {
    let millis = i64::try_from(row.mtime).unwrap_or(i64::MAX);
    let updated = jiff::Timestamp::from_millisecond(millis).ok();
    Row {
        session_id: row.session_id,
        cwd: row.cwd.unwrap_or_default(),
        title: row.title.or_else(|| row.prompt.clone()),
        preview: row.prompt,
        created_at: row.start_time,
        updated_at: updated.map(|time| time.to_string()),
    }
}

/// The folder of a session, physical.
fn folder(cwd: &Path) -> Result<PathBuf, OpenError> {
    match cwd.canonicalize() {
        Ok(folder) if folder.is_dir() => Ok(folder),
        Ok(_) | Err(_) => Err(OpenError::Invalid(
            "`cwd` is no folder; make it, or name another".to_owned(),
        )),
    }
}

fn other(refusal: Refusal) -> OpenError {
    OpenError::Other(refusal.message)
}
