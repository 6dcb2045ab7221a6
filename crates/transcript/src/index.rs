//! Where every record of a file is, and what it hangs from, in about 40 bytes each.
//!
//! It keeps no text: an id is its 128 bits, or a keyed hash of them where it is no UUID.

use std::{collections::hash_map::RandomState, hash::BuildHasher, io};

/// No record.
const NONE: u32 = u32::MAX;
/// A record that is not in the file.
const MISSING: u32 = u32::MAX - 1;
const RECORDS_MAX: usize = (u32::MAX - 2) as usize;

/// A record's id, as the index knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key([u64; 2]);

/// What the index keeps of a record beside its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Beside the conversation.
    Side = 1,
    /// Says something of the session.
    Title = 2,
    /// Copied from behind a gap.
    GapBefore = 4,
    /// Holds half a surrogate pair.
    LoneSurrogate = 8,
    /// Is another record's parent.
    HasChild = 16,
    /// Its envelope has to be looked for in the whole record.
    Late = 32,
}

/// Where a record hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Above {
    /// From nothing.
    Root,
    /// From a record that is not in the file.
    Missing,
    /// From the record with this number.
    Record(u32),
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: Key,
    /// Offset in the file, and 8 bits of marks.
    place: u64,
    len: u32,
    above: u32,
}

/// All records of a file, numbered in their order.
#[derive(Debug)]
pub(crate) struct Index {
    entries: Vec<Entry>,
    /// Open addressing with linear probing over numbers; a power of two, at most three quarters full.
    slots: Vec<u32>,
    hashers: [RandomState; 2],
}

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            slots: Vec::new(),
            hashers: [RandomState::new(), RandomState::new()],
        }
    }

    pub(crate) fn len(&self) -> u32 {
        // `push` keeps the number within 32 bits.
        u32::try_from(self.entries.len()).unwrap_or(NONE)
    }

    pub(crate) fn key(&self, id: &str) -> Key {
        Key(uuid_bits(id).unwrap_or_else(|| self.hashers.each_ref().map(|h| h.hash_one(id))))
    }

    /// The first record with an id.
    pub(crate) fn find(&self, key: Key) -> Option<u32> {
        if let Some(last) = self.entries.last()
            && last.key == key
        {
            // The usual parent.
            return Some(self.len() - 1);
        }
        if self.slots.is_empty() {
            return None;
        }
        match self.slots[self.slot(key)] {
            NONE => None,
            number => Some(number),
        }
    }

    /// Adds a record whose id is not there yet.
    pub(crate) fn push(
        &mut self,
        key: Key,
        offset: u64,
        len: usize,
        above: Above,
    ) -> io::Result<u32> {
        let number = self.len();
        let len = u32::try_from(len).map_err(io::Error::other)?;
        if self.entries.len() >= RECORDS_MAX {
            return Err(io::Error::other("too many records for one transcript"));
        }
        if self.entries.len() * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        let slot = self.slot(key);
        self.slots[slot] = number;
        self.entries.push(Entry {
            key,
            place: offset << 8,
            len,
            above: NONE,
        });
        self.hang(number, above);
        Ok(number)
    }

    pub(crate) fn mark(&mut self, number: u32, mark: Mark) {
        self.entries[number as usize].place |= mark as u64;
    }

    pub(crate) fn is(&self, number: u32, mark: Mark) -> bool {
        self.entries[number as usize].place & mark as u64 != 0
    }

    pub(crate) fn hang(&mut self, number: u32, above: Above) {
        self.entries[number as usize].above = match above {
            Above::Root => NONE,
            Above::Missing => MISSING,
            Above::Record(above) => above,
        };
    }

    pub(crate) fn above(&self, number: u32) -> Above {
        match self.entries[number as usize].above {
            NONE => Above::Root,
            MISSING => Above::Missing,
            above => Above::Record(above),
        }
    }

    /// Offset and length of a record's text.
    pub(crate) fn place(&self, number: u32) -> (u64, usize) {
        let entry = &self.entries[number as usize];
        (entry.place >> 8, entry.len as usize)
    }

    /// The slot of a key, or the free one where it would go. There always is a free one.
    fn slot(&self, key: Key) -> usize {
        let mask = self.slots.len() - 1;
        // Keyed, so that ids chosen by somebody cannot all meet in one place.
        let hash = self.hashers[0].hash_one(key.0);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "only the low bits are used"
        )]
        let mut slot = hash as usize & mask;
        loop {
            match self.slots[slot] {
                NONE => return slot,
                number if self.entries[number as usize].key == key => return slot,
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn grow(&mut self) {
        let n_slots = (self.slots.len() * 2).max(64);
        // The old ones are dropped first: both at once would be the peak of the whole reading.
        self.slots = Vec::new();
        self.slots = vec![NONE; n_slots];
        for number in 0..self.len() {
            let slot = self.slot(self.entries[number as usize].key);
            self.slots[slot] = number;
        }
    }
}

/// The bits of a UUID as it is usually written, in lower case; other spellings are other ids.
fn uuid_bits(id: &str) -> Option<[u64; 2]> {
    let bytes: &[u8; 36] = id.as_bytes().try_into().ok()?;
    let mut bits = 0_u128;
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if *byte != b'-' {
                return None;
            }
            continue;
        }
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        bits = bits << 4 | u128::from(digit);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    Some([(bits >> 64) as u64, bits as u64])
}
