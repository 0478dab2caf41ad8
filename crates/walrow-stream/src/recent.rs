//! The relations whose rows came last, found without hashing.

use crate::relation::Relation;
use std::sync::Arc;
use walrow_wire::Oid;

/// Places at first. A run of rows mostly belongs to one table, and a transaction alternates between
/// few.
const LEAST: usize = 8;
/// Places at most, of 16 bytes.
const MOST: usize = 4096;

/// Relations, each at the place that the low bits of its OID name.
///
/// A relation replaces another one at its place. There are twice as many places once as many
/// relations were replaced as there are places.
#[derive(Debug)]
pub(crate) struct Recent {
    /// As many as a power of two.
    places: Vec<Option<Used>>,
    replaced: usize,
}

/// A relation whose rows came.
#[derive(Clone, Debug)]
pub(crate) struct Used {
    pub(crate) relation: Arc<Relation>,
    /// Whether its rows are returned.
    pub(crate) is_wanted: bool,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            places: vec![None; LEAST],
            replaced: 0,
        }
    }
}

impl Recent {
    #[inline]
    const fn place(&self, oid: Oid) -> usize {
        oid as usize & self.places.len().wrapping_sub(1)
    }

    /// The relation, and its place.
    #[inline]
    pub(crate) fn get(&self, oid: Oid) -> Option<(usize, &Used)> {
        let place = self.place(oid);
        let used = self.at(place).filter(|used| used.relation.oid == oid);
        used.map(|used| (place, used))
    }

    /// The relation at a place.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> Option<&Used> {
        self.places.get(place)?.as_ref()
    }

    /// Adds a relation, and returns its place.
    pub(crate) fn insert(&mut self, used: Used) -> usize {
        let oid = used.relation.oid;
        if self.at(self.place(oid)).is_some() {
            self.replaced = self.replaced.saturating_add(1);
            if self.replaced >= self.places.len() && self.places.len() < MOST {
                self.grow();
            }
        }
        let place = self.place(oid);
        self.put(place, Some(used));
        place
    }

    fn grow(&mut self) {
        let more = vec![None; self.places.len().saturating_mul(2)];
        let places = std::mem::replace(&mut self.places, more);
        self.replaced = 0;
        for used in places.into_iter().flatten() {
            self.put(self.place(used.relation.oid), Some(used));
        }
    }

    fn put(&mut self, place: usize, used: Option<Used>) {
        if let Some(at) = self.places.get_mut(place) {
            *at = used;
        }
    }

    /// Removes a relation.
    pub(crate) fn remove(&mut self, oid: Oid) {
        self.put(self.place(oid), None);
    }

    /// Removes all relations.
    pub(crate) fn clear(&mut self) {
        self.places.truncate(LEAST);
        self.places.fill(None);
        self.replaced = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walrow_wire::ReplicaIdentity;

    fn used(oid: Oid) -> Used {
        let relation = Relation {
            version: 0,
            oid,
            namespace: "public".into(),
            name: "t".into(),
            replica_identity: ReplicaIdentity::Default,
            columns: [].into(),
        };
        Used {
            relation: Arc::new(relation),
            is_wanted: true,
        }
    }

    fn has(recent: &Recent, oid: Oid) -> bool {
        recent.get(oid).is_some()
    }

    #[test]
    fn many_relations_in_turn_are_all_found() {
        let mut recent = Recent::default();
        // A table and what belongs to it take some OIDs each.
        let oids: Vec<Oid> = (0..1000).map(|n| 16_384 + 3 * n).collect();
        for _ in 0..10 {
            for oid in &oids {
                if !has(&recent, *oid) {
                    let place = recent.insert(used(*oid));
                    assert_eq!(recent.at(place).unwrap().relation.oid, *oid);
                }
            }
        }
        assert!(oids.iter().all(|oid| has(&recent, *oid)));
        // No two of them have the same last ten bits, as 3 is odd.
        assert_eq!(recent.places.len(), 1024);
        recent.remove(oids[7]);
        assert!(!has(&recent, oids[7]) && has(&recent, oids[8]));
        recent.clear();
        assert!(oids.iter().all(|oid| !has(&recent, *oid)));
        assert_eq!(recent.places.len(), LEAST);
    }

    #[test]
    fn two_relations_of_one_place_replace_each_other() {
        let mut recent = Recent::default();
        let (one, other) = (5, 5 + Oid::try_from(MOST).unwrap());
        for _ in 0..2 * MOST {
            recent.insert(used(one));
            recent.insert(used(other));
            assert!(has(&recent, other) && !has(&recent, one));
        }
        assert_eq!(recent.places.len(), MOST);
    }

    #[test]
    fn a_few_relations_take_few_places() {
        let mut recent = Recent::default();
        for oid in 0..8 {
            recent.insert(used(oid));
        }
        assert!((0..8).all(|oid| has(&recent, oid)));
        assert_eq!(recent.places.len(), LEAST);
    }
}
