//! The state of each relation version: its batch under construction, and its layout for the next
//! rows.

use crate::envelope::Forms;
use crate::layout::Layout;
use crate::table::Table;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use walrow_stream::Relation;
use walrow_wire::Oid;

/// The maximum memory of layouts that are kept for the next rows. A table with a thousand columns
/// needs about 1 MiB. Other layouts are built again when they are needed.
const LAYOUT_MEMORY: usize = 16 << 20;

/// The state of a relation version.
#[derive(Debug)]
pub(crate) enum Slot {
    /// Not seen, or forgotten.
    New,
    Skipped,
    /// It has rows, a layout for the next rows, or both.
    Table(Box<Table>),
    /// Its rows go to the envelope.
    Enveloped(Forms),
}

/// The state of all relation versions.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    slots: Vec<Slot>,
    /// The versions that have a layout, the oldest layout first.
    laid_out: VecDeque<u32>,
    layout_bytes: usize,
    /// The version with the latest rows, by schema and name, and by OID, until it is forgotten.
    by_name: HashMap<(Box<str>, Box<str>), u32>,
    by_oid: HashMap<Oid, u32>,
}

impl Versions {
    #[inline]
    pub(crate) fn get(&self, version: u32) -> &Slot {
        self.slots.get(version as usize).unwrap_or(&Slot::New)
    }

    #[inline]
    pub(crate) fn table(&self, version: u32) -> Option<&Table> {
        match self.slots.get(version as usize) {
            Some(Slot::Table(table)) => Some(table),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn table_mut(&mut self, version: u32) -> Option<&mut Table> {
        match self.slots.get_mut(version as usize) {
            Some(Slot::Table(table)) => Some(table),
            _ => None,
        }
    }

    fn slot_mut(&mut self, version: u32) -> Option<&mut Slot> {
        let index = version as usize;
        while self.slots.len() <= index {
            self.slots.push(Slot::New);
        }
        self.slots.get_mut(index)
    }

    pub(crate) fn skip(&mut self, version: u32) {
        if let Some(slot) = self.slot_mut(version) {
            *slot = Slot::Skipped;
        }
    }

    /// Stores how the version's columns become text.
    pub(crate) fn envelop(&mut self, version: u32, forms: Forms) {
        self.make_room(forms.bytes());
        self.layout_bytes = self.layout_bytes.saturating_add(forms.bytes());
        self.laid_out.push_back(version);
        if let Some(slot) = self.slot_mut(version) {
            *slot = Slot::Enveloped(forms);
        }
    }

    /// Stores the version's layout.
    pub(crate) fn lay_out(&mut self, relation: &Arc<Relation>, layout: Layout) {
        self.layout_bytes = self.layout_bytes.saturating_add(layout.bytes());
        self.laid_out.push_back(relation.version);
        match self.slot_mut(relation.version) {
            Some(Slot::Table(table)) => table.set_layout(layout),
            Some(slot) => {
                *slot = Slot::Table(Box::new(Table::new(Arc::clone(relation), layout)));
            }
            None => {}
        }
    }

    /// Drops the oldest layouts until there is room for one with this number of bytes. So memory
    /// does not grow with the number of tables.
    pub(crate) fn make_room(&mut self, bytes: usize) {
        while self.layout_bytes.saturating_add(bytes) > LAYOUT_MEMORY {
            let Some(oldest) = self.laid_out.pop_front() else {
                break;
            };
            self.drop_layout(oldest);
        }
    }

    /// Drops a layout, and also its table if that has no rows.
    fn drop_layout(&mut self, version: u32) {
        match self.slots.get_mut(version as usize) {
            Some(Slot::Table(table)) => {
                let bytes = table.drop_layout();
                self.layout_bytes = self.layout_bytes.saturating_sub(bytes);
                if table.rows() == 0 {
                    self.forget(version);
                }
            }
            Some(slot @ Slot::Enveloped(_)) => {
                if let Slot::Enveloped(forms) = std::mem::replace(slot, Slot::New) {
                    self.layout_bytes = self.layout_bytes.saturating_sub(forms.bytes());
                }
            }
            _ => {}
        }
    }

    /// Makes this version the latest of its name and OID. Returns the versions that it replaces.
    pub(crate) fn make_latest(&mut self, relation: &Relation) -> impl Iterator<Item = u32> + use<> {
        let version = relation.version;
        let name = (relation.namespace.clone(), relation.name.clone());
        let earlier = [
            self.by_name.insert(name, version),
            self.by_oid.insert(relation.oid, version),
        ];
        let earlier = earlier.into_iter().flatten();
        earlier.filter(move |earlier| *earlier != version)
    }

    /// Drops a version whose rows were taken, and its layout.
    pub(crate) fn retire(&mut self, version: u32) {
        self.laid_out.retain(|other| *other != version);
        self.forget(version);
    }

    fn forget(&mut self, version: u32) {
        let Some(slot) = self.slots.get_mut(version as usize) else {
            return;
        };
        let Slot::Table(mut table) = std::mem::replace(slot, Slot::New) else {
            return;
        };
        self.layout_bytes = self.layout_bytes.saturating_sub(table.drop_layout());
        let relation = &table.relation;
        if self.by_oid.get(&relation.oid) == Some(&version) {
            self.by_oid.remove(&relation.oid);
        }
        let name = (relation.namespace.clone(), relation.name.clone());
        if self.by_name.get(&name) == Some(&version) {
            self.by_name.remove(&name);
        }
    }
}
