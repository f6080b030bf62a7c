//! The processes of a session by id: running ones, and exited ones for as long as they are retained.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use sidecar_protocol::RpcError;

use super::Process;

/// The processes of a session.
#[derive(Debug)]
pub(crate) struct Table {
    entries: HashMap<String, Arc<Process>>,
    max: usize,
    /// Whether the client acknowledges.
    acks: bool,
}

impl Table {
    pub(crate) fn new(max: usize) -> Table {
        Table { entries: HashMap::new(), max, acks: false }
    }

    /// Adds a process. A full table forgets its closed processes before their time rather than refuse; not those whose
    /// end a client that acknowledges may not have heard of.
    pub(crate) fn reserve(&mut self, process: &Arc<Process>) -> Result<(), RpcError> {
        if self.entries.len() >= self.max {
            self.entries.retain(|_, process| !process.is_settled());
        }
        let full = self.entries.len() >= self.max;
        match self.entries.entry(process.id().to_owned()) {
            Entry::Occupied(_) => {
                Err(RpcError::invalid_request(format!("process {} already exists", process.id())))
            }
            Entry::Vacant(_) if full => {
                let message = format!(
                    "this session has {} processes already that run, or whose end is not acknowledged (limits.processes)",
                    self.max
                );
                Err(RpcError::limit("limits.processes", message))
            }
            Entry::Vacant(entry) => {
                if self.acks {
                    process.acknowledge(0);
                }
                entry.insert(process.clone());
                Ok(())
            }
        }
    }

    pub(crate) fn find(&self, process_id: &str) -> Option<Arc<Process>> {
        self.entries.get(process_id).cloned()
    }

    /// The client acknowledges what it has of a process. It is taken at its word for all of them from then on.
    pub(crate) fn acknowledge(&mut self, process_id: &str, seq: u64) {
        if !self.acks {
            self.acks = true;
            self.entries.values().for_each(|process| process.acknowledge(0));
        }
        if let Some(process) = self.entries.get(process_id) {
            process.acknowledge(seq);
        }
    }

    /// In the order of their starts.
    pub(crate) fn all(&self) -> Vec<Arc<Process>> {
        let mut all: Vec<_> = self.entries.values().cloned().collect();
        all.sort_by_key(|process| process.started());
        all
    }

    /// Removes this very process; one that has taken its id since stays.
    pub(crate) fn forget(&mut self, process: &Arc<Process>) {
        if self.entries.get(process.id()).is_some_and(|entry| Arc::ptr_eq(entry, process)) {
            self.entries.remove(process.id());
        }
    }
}
