//! Values of the relations whose rows came last, found without hashing.

use walrow_wire::Oid;

/// Places that each lookup tries first. A run of rows mostly belongs to one table, and a transaction
/// alternates between few.
const FIRST: usize = 8;
/// Other places at most.
const MOST: usize = 4096;

/// A value for each of some relations, at the place that the low bits of the OID name.
///
/// A relation whose first place is taken gets one of the other places, where it may replace another
/// relation. There are twice as many once as many relations were replaced as there are places.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    first: [Option<(Oid, T)>; FIRST],
    /// None, or as many as a power of two.
    others: Vec<Option<(Oid, T)>>,
    replaced: usize,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self {
            first: [const { None }; FIRST],
            others: Vec::new(),
            replaced: 0,
        }
    }
}

impl<T> Recent<T> {
    /// A relation's value, and its place.
    #[inline]
    pub(crate) fn get(&self, oid: Oid) -> Option<(usize, &T)> {
        let place = oid as usize % FIRST;
        match self.first.get(place) {
            Some(Some((found, value))) if *found == oid => Some((place, value)),
            _ => self.other(oid),
        }
    }

    #[inline]
    fn other(&self, oid: Oid) -> Option<(usize, &T)> {
        let place = self.other_place(oid);
        match self.others.get(place) {
            Some(Some((found, value))) if *found == oid => {
                Some((place.saturating_add(FIRST), value))
            }
            _ => None,
        }
    }

    #[inline]
    const fn other_place(&self, oid: Oid) -> usize {
        oid as usize & self.others.len().wrapping_sub(1)
    }

    /// The value at a place.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> Option<&T> {
        let found = match self.first.get(place) {
            Some(found) => found,
            None => self.others.get(place.saturating_sub(FIRST))?,
        };
        found.as_ref().map(|(_, value)| value)
    }

    /// Adds a relation, and returns its place.
    pub(crate) fn insert(&mut self, oid: Oid, value: T) -> usize {
        let place = oid as usize % FIRST;
        if let Some(first @ None) = self.first.get_mut(place) {
            *first = Some((oid, value));
            return place;
        }
        let is_taken = matches!(self.others.get(self.other_place(oid)), Some(Some(_)));
        self.replaced = self.replaced.saturating_add(is_taken.into());
        if self.replaced >= self.others.len() && self.others.len() < MOST {
            self.grow();
        }
        let place = self.other_place(oid);
        if let Some(other) = self.others.get_mut(place) {
            *other = Some((oid, value));
        }
        place.saturating_add(FIRST)
    }

    fn grow(&mut self) {
        let count = self.others.len().saturating_mul(2).max(FIRST);
        let before = std::mem::take(&mut self.others);
        self.others.resize_with(count, || None);
        self.replaced = 0;
        for found in before.into_iter().flatten() {
            let place = self.other_place(found.0);
            if let Some(other) = self.others.get_mut(place) {
                *other = Some(found);
            }
        }
    }

    /// Removes a relation.
    pub(crate) fn remove(&mut self, oid: Oid) {
        let other = self.other_place(oid);
        let places = [
            self.first.get_mut(oid as usize % FIRST),
            self.others.get_mut(other),
        ];
        for place in places.into_iter().flatten() {
            if place.as_ref().is_some_and(|(found, _)| *found == oid) {
                *place = None;
            }
        }
    }

    /// Removes all relations.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(recent: &Recent<Oid>, oid: Oid) -> bool {
        let found = recent.get(oid);
        if let Some((place, value)) = found {
            assert_eq!((recent.at(place), *value), (Some(&oid), oid));
        }
        found.is_some()
    }

    #[test]
    fn many_relations_in_turn_are_all_found() {
        let mut recent = Recent::default();
        // Each table takes some OIDs: its TOAST table and its indexes have their own.
        let oids: Vec<Oid> = (0..1000).map(|n| 16_384 + 3 * n).collect();
        for _ in 0..10 {
            for oid in &oids {
                if !has(&recent, *oid) {
                    let place = recent.insert(*oid, *oid);
                    assert_eq!(recent.at(place), Some(oid));
                }
            }
        }
        assert!(oids.iter().all(|oid| has(&recent, *oid)));
        // No two of them have the same last ten bits, as 3 is odd.
        assert_eq!(recent.others.len(), 1024);
        recent.remove(oids[7]);
        recent.remove(oids[700]);
        assert!(!has(&recent, oids[7]) && !has(&recent, oids[700]));
        assert!(has(&recent, oids[8]) && has(&recent, oids[701]));
        recent.clear();
        assert!(oids.iter().all(|oid| !has(&recent, *oid)));
    }

    #[test]
    fn relations_of_one_place_replace_each_other() {
        let mut recent = Recent::default();
        let more = Oid::try_from(MOST).unwrap();
        let [one, other, third] = [5, 5 + more, 5 + 2 * more];
        recent.insert(one, one);
        for _ in 0..2 * MOST {
            recent.insert(other, other);
            assert!(has(&recent, other) && !has(&recent, third));
            recent.insert(third, third);
            assert!(has(&recent, third) && !has(&recent, other));
        }
        assert!(has(&recent, one));
        assert_eq!(recent.others.len(), MOST);
        // The first place is free again, and the relation is still found at the other one.
        recent.remove(one);
        assert!(!has(&recent, one) && has(&recent, third));
        recent.insert(one, one);
        recent.remove(third);
        assert!(has(&recent, one) && !has(&recent, third));
    }

    #[test]
    fn a_few_relations_need_no_other_place() {
        let mut recent = Recent::default();
        for oid in 0..8 {
            assert_eq!(recent.insert(oid, oid), oid as usize);
        }
        assert!((0..8).all(|oid| has(&recent, oid)));
        assert!(recent.others.is_empty());
    }
}
