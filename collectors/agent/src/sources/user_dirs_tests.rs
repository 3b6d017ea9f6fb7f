use super::*;
use crate::testing::{own_uid, temp_dir};
use std::os::unix::fs::chown;

fn dirs(path: &Path, users_max: usize) -> (UserDirs, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let path = path.to_path_buf();
    (
        UserDirs::new(path, ".ring", users_max, 10, counters.clone()),
        counters,
    )
}

/// The users whose directories are there, after a new listing.
fn users(dirs: &mut UserDirs) -> Vec<u32> {
    dirs.base = None;
    dirs.poll(false, |_| true);
    let mut users: Vec<u32> = dirs.users.iter().map(|(uid, _)| *uid).collect();
    users.sort_unstable();
    users
}

#[test]
fn directories_that_belong_to_somebody_else_crowd_nobody_out() {
    let base = temp_dir("crowd");
    fs::create_dir(base.join(own_uid().to_string())).unwrap();
    fs::write(base.join("file"), "").unwrap();
    let (mut dirs, counters) = dirs(&base, 3);
    assert_eq!(users(&mut dirs), [own_uid()]);
    // On tmpfs these come first, on others some do.
    for forged in 0..1100 {
        fs::create_dir(base.join((2_000_000 + forged).to_string())).unwrap();
    }
    std::os::unix::fs::symlink("/", base.join("1999999")).unwrap();
    for _ in 0..3 {
        assert_eq!(users(&mut dirs), [own_uid()]);
        assert_eq!(counters.bad_rings.get(), 1101, "each is counted once");
    }
    let (mut later, _) = self::dirs(&base, 3);
    assert_eq!(users(&mut later), [own_uid()]);
}

#[test]
fn the_cut_keeps_known_users_and_prefers_small_numbers() {
    let base = temp_dir("cut-users");
    let user = |uid: u32| {
        let dir = base.join(uid.to_string());
        fs::create_dir(&dir).unwrap();
        chown(&dir, Some(uid), None).is_ok()
    };
    if !user(2_000_000) {
        return; // only root can make other users' directories
    }
    let (mut dirs, _) = dirs(&base, 3);
    assert_eq!(users(&mut dirs), [2_000_000]);
    (0..30).for_each(|more| assert!(user(100_000 + more)));
    assert_eq!(users(&mut dirs), [100_000, 100_001, 2_000_000]);
    (0..30).for_each(|more| assert!(user(1000 + more)));
    assert_eq!(users(&mut dirs), [100_000, 100_001, 2_000_000]);
    fs::remove_dir(base.join("100000")).unwrap();
    users(&mut dirs);
    assert_eq!(users(&mut dirs), [1000, 100_001, 2_000_000]);
}

#[test]
fn the_base_belongs_to_root_or_the_agent_and_nobody_else_can_move_what_is_in_it() {
    let dir = temp_dir("base");
    let base = dir.join("rings");
    let mode = |mode: u32| fs::set_permissions(&base, Permissions::from_mode(mode)).unwrap();
    assert_eq!(prepare_base(&base, 1), Ok(()), "not there yet");
    // As root it is made, whatever the umask; its parent is not.
    prepare_base(&base, 0).ok();
    assert_eq!(fs::metadata(&base).unwrap().mode() & 0o7777, 0o1777);
    assert!(prepare_base(&dir.join("a/b"), 0)
        .unwrap_err()
        .contains("mkdir -p"));
    let own = own_uid();
    for (bits, good) in [
        (0o1777, true),
        (0o700, true),
        (0o755, true),
        (0o777, false),
        (0o775, false),
    ] {
        mode(bits);
        assert_eq!(prepare_base(&base, own).is_ok(), good, "{bits:o}");
    }
    std::os::unix::fs::symlink(&dir, dir.join("link")).unwrap();
    assert!(prepare_base(&dir.join("link"), own).is_err());
    mode(0o1777);
    if chown(&base, Some(own + 1), None).is_ok() {
        for agent in [0, own, own + 2] {
            let error = prepare_base(&base, agent).unwrap_err();
            assert!(error.contains("mkdir -m 1777"), "{error}");
        }
        assert_eq!(prepare_base(&base, own + 1), Ok(()));
    }
}
