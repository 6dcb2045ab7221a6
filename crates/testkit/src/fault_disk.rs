//! A disk that counts the calls of a recorder and lets one of them fail, or every one from there on.
//!
//! Faults are found by counting: a scenario is run with call 1 failing, then call 2, until it runs
//! clean. Beneath it is a real disk, so that what is left behind can be read by anything.

use std::{
    io,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use rustix::io::Errno;
use transcript::{
    disk::{Disk, DiskFile, OsDisk, Stat},
    lock::Lock,
};

/// A call to the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A folder is made.
    CreateDirAll,
    /// A file is made.
    Create,
    /// A file is opened.
    Open,
    /// A path is looked at.
    Stat,
    /// An open file is looked at.
    FileStat,
    /// Bytes are written.
    Write,
    /// A file is cut.
    Truncate,
    /// Bytes are read.
    Read,
}

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails, and does nothing.
    Fails(Errno),
    /// A write puts out this many bytes, and the next write fails; another call just fails.
    ShortWrite(usize, Errno),
    /// A write puts out this many bytes, and nothing fails.
    Short(usize),
}

/// Which calls fail. They are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// None.
    Sound,
    /// This one.
    Once(usize, Fault),
    /// This one, and every later one.
    From(usize, Fault),
}

/// The disk. Clones are one disk.
#[derive(Debug, Clone)]
pub struct FaultDisk {
    below: OsDisk,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    script: Mutex<Script>,
    gate: Mutex<Gate>,
    gate_moved: Condvar,
}

#[derive(Debug)]
struct Script {
    plan: Plan,
    calls: Vec<Call>,
    n_faults: usize,
    /// The next write fails, whatever the plan says.
    pending: Option<Errno>,
    /// Writes that still go through, and the fault of the one after them, whatever the plan says.
    write_fault: Option<(usize, Fault)>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            plan: Plan::Sound,
            calls: Vec::new(),
            n_faults: 0,
            pending: None,
            write_fault: None,
        }
    }
}

impl Script {
    fn due_write_fault(&mut self) -> Option<Fault> {
        let (n_before, fault) = self.write_fault.take()?;
        if let Some(n_before) = n_before.checked_sub(1) {
            self.write_fault = Some((n_before, fault));
            return None;
        }
        Some(fault)
    }
}

#[derive(Debug, Default)]
struct Gate {
    is_shut: bool,
    n_inside: usize,
}

/// What one call has to do.
enum Step {
    Go,
    Short(usize),
}

impl FaultDisk {
    /// A disk with this plan.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let disk = Self {
            below: OsDisk,
            state: Arc::default(),
        };
        disk.script().plan = plan;
        disk
    }

    /// The calls made so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.script().calls.clone()
    }

    /// The call at which the plan's fault stands; `None` where it was not reached.
    #[must_use]
    pub fn failed_call(&self) -> Option<Call> {
        let script = self.script();
        let at = match script.plan {
            Plan::Sound => return None,
            Plan::Once(at, _) | Plan::From(at, _) => at,
        };
        script.calls.get(at - 1).copied()
    }

    /// From now on this plan holds; calls are counted on.
    pub fn set_plan(&self, plan: Plan) {
        self.script().plan = plan;
    }

    /// Lets a write fail in this way: 1 is the next one, or the one that is held.
    pub fn fail_write(&self, nth: usize, fault: Fault) {
        self.script().write_fault = Some((nth - 1, fault));
    }

    /// How often something failed.
    #[must_use]
    pub fn n_faults(&self) -> usize {
        self.script().n_faults
    }

    /// Whether anybody but this clone still holds the disk or one of its files.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.state) > 1
    }

    /// Holds every write from now on until [`FaultDisk::release_writes`].
    pub fn hold_writes(&self) {
        self.gate().is_shut = true;
    }

    /// Lets the held writes go on.
    pub fn release_writes(&self) {
        self.gate().is_shut = false;
        self.state.gate_moved.notify_all();
    }

    /// Waits until a write is held.
    pub fn wait_for_held_write(&self) {
        let mut gate = self.gate();
        while gate.n_inside == 0 {
            gate = self
                .state
                .gate_moved
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.state
            .script
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.state
            .gate
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn pass_gate(&self) {
        let mut gate = self.gate();
        gate.n_inside += 1;
        self.state.gate_moved.notify_all();
        while gate.is_shut {
            gate = self
                .state
                .gate_moved
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        }
        gate.n_inside -= 1;
    }

    /// Counts a call and says what becomes of it.
    fn step(&self, call: Call) -> io::Result<Step> {
        if call == Call::Write {
            self.pass_gate();
        }
        let mut script = self.script();
        script.calls.push(call);
        let n_calls = script.calls.len();
        let planned = match script.plan {
            Plan::Once(at, fault) if at == n_calls => Some(fault),
            Plan::From(at, fault) if at == n_calls => Some(fault),
            // Once it has begun, a short write is no longer news: calls just fail.
            Plan::From(at, Fault::Fails(errno) | Fault::ShortWrite(_, errno)) if at < n_calls => {
                Some(Fault::Fails(errno))
            }
            Plan::From(at, fault @ Fault::Short(_)) if at < n_calls => Some(fault),
            Plan::Sound | Plan::Once(..) | Plan::From(..) => None,
        };
        let fault = if call == Call::Write {
            let pending = script.pending.take().map(Fault::Fails);
            pending.or_else(|| script.due_write_fault()).or(planned)
        } else {
            planned
        };
        let Some(fault) = fault else {
            return Ok(Step::Go);
        };
        script.n_faults += 1;
        match fault {
            Fault::ShortWrite(n_bytes, errno) if call == Call::Write => {
                script.pending = Some(errno);
                Ok(Step::Short(n_bytes))
            }
            Fault::Fails(errno) | Fault::ShortWrite(_, errno) => Err(errno.into()),
            Fault::Short(n_bytes) if call == Call::Write => Ok(Step::Short(n_bytes)),
            Fault::Short(_) => Ok(Step::Go),
        }
    }
}

impl Disk for FaultDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.step(Call::CreateDirAll)?;
        self.below.create_dir_all(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.step(Call::Create)?;
        Ok(self.over(self.below.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.step(Call::Open)?;
        Ok(self.over(self.below.open(path)?))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.step(Call::Stat)?;
        self.below.stat(path)
    }

    fn lock(&self, path: &Path) -> Option<Lock> {
        self.below.lock(path)
    }
}

impl FaultDisk {
    fn over(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(FaultFile {
            below: file,
            disk: self.clone(),
        })
    }
}

#[derive(Debug)]
struct FaultFile {
    below: Box<dyn DiskFile>,
    disk: FaultDisk,
}

impl DiskFile for FaultFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.disk.step(Call::Write)? {
            Step::Go => self.below.write(bytes),
            // Never all of several bytes: a whole write is no fault.
            Step::Short(n_bytes) => {
                let n_bytes_max = bytes.len().saturating_sub(1).max(1);
                self.below.write(&bytes[..n_bytes.min(n_bytes_max)])
            }
        }
    }

    fn stat(&self) -> io::Result<Stat> {
        self.disk.step(Call::FileStat)?;
        self.below.stat()
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.disk.step(Call::Truncate)?;
        self.below.truncate(size)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.step(Call::Read)?;
        self.below.read_at(bytes, offset)
    }
}
