//! Which rings there are: what the users' directories list.

use super::ring::Ring;
use super::Preload;
use crate::sources::user_dirs::Listing;
use crate::sources::Pass;
use crate::warn;
use std::collections::HashSet;

impl Preload {
    /// Takes in what appeared in a user's directory, and forgets what disappeared.
    fn take_listing(&mut self, listing: Listing) {
        let uid = listing.uid;
        let user = self.users.entry(uid).or_default();
        user.cut = listing.cut;
        let there: HashSet<&str> = listing.names.iter().map(String::as_str).collect();
        // A file that was removed under us is read as long as it is open: its program may still write.
        user.rings.retain(|r| {
            listing.cut || (r.file.is_some() && !r.finished) || there.contains(&r.name[..])
        });
        let known: HashSet<String> = user.rings.iter().map(|r| r.name.clone()).collect();
        for name in listing.names.iter().filter(|n| !known.contains(*n)) {
            let cursor = self
                .restored
                .remove(&(uid, name.clone()))
                .unwrap_or_default();
            match Ring::new(uid, name.clone(), self.serial + 1, cursor) {
                Some(ring) => {
                    self.serial += 1;
                    user.rings.push(ring);
                }
                None => {
                    warn!("ring's name", "ring {uid}/{name}: expected a name like PID-STARTTICKS-NONCE.ring; it is not read");
                }
            }
        }
        if !listing.cut {
            self.restored.retain(|(u, _), _| *u != uid);
            if user.rings.is_empty() {
                self.users.remove(&uid);
            }
        }
    }

    /// Takes in the directories that changed.
    pub(super) fn list(&mut self, pass: &mut Pass) {
        let mut unlisted = pass.settle.clone();
        for listing in self.dirs.poll(pass.last, |uid| pass.settle.contains(&uid)) {
            unlisted.remove(&listing.uid);
            self.take_listing(listing);
        }
        let cut = self.users.iter().filter(|(_, user)| user.cut);
        pass.unfinished.extend(cut.map(|(uid, _)| *uid));
        // An older listing may lack a ring that is there by now.
        pass.unfinished.extend(unlisted);
    }
}
