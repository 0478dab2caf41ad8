//! A directory as a store: names that are not files, names that lead out of it, and several
//! processes at once.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use walrow_log::{
    Directory, ErrorKind as LogErrorKind, Log, Objects, Put, SmallObjects, Store, Tag, Upkeep,
    Writer, WriterOptions,
};
use walrow_wire::Timestamp;

/// A directory, and a place beside it.
fn two() -> (TempDir, Directory) {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(parent.path().join("log")).unwrap();
    (parent, directory)
}

fn create(directory: &Directory, name: &str, bytes: &[u8]) -> Put {
    let mut staged = directory.stage().unwrap();
    staged.append(bytes).unwrap();
    staged.create(name)
}

fn read(directory: &Directory, name: &str) -> io::Result<Vec<u8>> {
    let mut object = directory.open(name)?;
    let mut bytes = vec![0; usize::try_from(object.size()?).unwrap()];
    object.read_at(0, &mut bytes)?;
    Ok(bytes)
}

fn tag(directory: &Directory, name: &str) -> Tag {
    directory.open(name).unwrap().tag().unwrap()
}

/// Names that begin like the names of staged objects.
fn staged(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap();
    let names = names.map(|it| it.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|it| it.starts_with(".walrow-")).collect()
}

/// Runs the call, which must end within a second.
fn at_once<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(call()));
    receive.recv_timeout(Duration::from_secs(1)).unwrap()
}

#[test]
fn a_small_object_is_created_once_or_replaced_by_comparison() {
    let (_parent, directory) = two();
    let objects = SmallObjects::new(Arc::new(directory.clone()));
    assert!(objects.create("_load-a", b"1").unwrap());
    assert!(!objects.create("_load-a", b"2").unwrap());
    // As after an answer that was lost.
    assert!(objects.create("_load-a", b"1").unwrap());
    let (bytes, tag) = objects.read("_load-a").unwrap();
    assert_eq!(bytes, b"1");
    assert!(objects.swap("_load-a", b"3", &tag).unwrap());
    assert!(!objects.swap("_load-a", b"4", &tag).unwrap());
    assert!(!objects.swap("_load-b", b"4", &tag).unwrap());
    objects.replace("_load-b", b"5").unwrap();
    objects.replace("_load-b", b"6").unwrap();
    assert_eq!(objects.list("_load-").unwrap(), ["_load-a", "_load-b"]);
    assert_eq!(objects.read("_load-b").unwrap().0, b"6");
    objects.remove("_load-b").unwrap();
    objects.remove("_load-b").unwrap();
    assert!(objects.read("_load-b").unwrap_err().is_not_found());
    assert!(staged(&directory.path("")).is_empty());
}

#[test]
fn a_wait_for_the_lock_can_be_interrupted() {
    let (_parent, directory) = two();
    drop(Writer::open(Arc::new(directory.clone()), WriterOptions::default()).unwrap());
    let _held = directory.lock("_lock").unwrap().unwrap();
    let directory = directory.with_pause(|_| Err(ErrorKind::Interrupted.into()));
    let store: Arc<dyn Store> = Arc::new(directory);
    let locked = SmallObjects::new(Arc::clone(&store)).lock();
    assert_eq!(locked.unwrap_err().kind, LogErrorKind::Interrupted);
    let registered = Upkeep::open(store)
        .unwrap()
        .register("r", None, Timestamp(0));
    assert_eq!(registered.unwrap_err().kind, LogErrorKind::Interrupted);
}

#[test]
fn a_name_is_given_once_or_by_comparison() {
    let (_parent, directory) = two();
    assert!(matches!(create(&directory, "a", b"1"), Put::Done));
    assert!(matches!(create(&directory, "a", b"2"), Put::Lost));
    let first = tag(&directory, "a");
    let mut second = directory.stage().unwrap();
    second.append(b"3").unwrap();
    assert!(matches!(second.swap("a", &first), Put::Done));
    // If an answer was lost, the caller asks again.
    assert!(matches!(second.swap("a", &first), Put::Done));
    assert!(matches!(second.create("a"), Put::Done));
    let mut third = directory.stage().unwrap();
    third.append(b"4").unwrap();
    assert!(matches!(third.swap("a", &first), Put::Lost));
    assert!(matches!(third.swap("b", &first), Put::Lost));
    assert_eq!(read(&directory, "a").unwrap(), b"3");
    drop((second, third));
    assert_eq!(directory.list().unwrap(), ["a"]);
    directory.remove(&["a", "b"]).unwrap();
    directory.remove(&["a", "b"]).unwrap();
    assert!(directory.list().unwrap().is_empty());
}

#[test]
fn a_name_does_not_lead_out_of_the_directory() {
    let (parent, directory) = two();
    let outside = parent.path().join("outside");
    fs::write(&outside, "important").unwrap();
    for name in [
        "",
        ".",
        "..",
        "../outside",
        "a/b",
        outside.to_str().unwrap(),
        "a\0",
    ] {
        assert_eq!(
            directory.open(name).unwrap_err().kind(),
            ErrorKind::InvalidInput,
            "{name}"
        );
        assert!(directory.lock(name).is_err());
        assert!(directory.journal(name).is_err());
        assert!(directory.remove(&[name]).is_err());
        assert!(matches!(create(&directory, name, b"1"), Put::Unknown(_)));
        let mut staged = directory.stage().unwrap();
        assert!(matches!(
            staged.swap(name, &Tag(String::new())),
            Put::Unknown(_)
        ));
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "important");
    assert!(directory.list().unwrap().is_empty());
}

#[test]
fn links_are_not_followed() {
    let (parent, directory) = two();
    let outside = parent.path().join("outside");
    fs::write(&outside, "important").unwrap();
    fs::set_permissions(&outside, PermissionsExt::from_mode(0o604)).unwrap();
    for target in [
        outside.clone(),
        parent.path().join("nothing"),
        "/dev/zero".into(),
    ] {
        symlink(&target, directory.path("a")).unwrap();
        let refused = directory.open("a").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(
            refused
                .to_string()
                .contains("move the file that it names back"),
            "{refused}"
        );
        assert!(directory.journal("a").is_err());
        assert!(directory.lock("a").is_err());
        assert!(matches!(create(&directory, "a", b"1"), Put::Lost));
        let mut staged = directory.stage().unwrap();
        assert!(matches!(staged.swap("a", &Tag(String::new())), Put::Lost));
        drop(staged);
        assert!(!parent.path().join("nothing").exists());
        directory.remove(&["a"]).unwrap();
        assert!(directory.list().unwrap().is_empty());
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "important");
    let mode = fs::metadata(&outside).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o604);
}

#[test]
fn a_link_for_the_open_file_does_not_open_new_files_to_the_group() {
    let (parent, directory) = two();
    // The mode of a link is 0777.
    symlink(parent.path().join("nothing"), directory.path("_open")).unwrap();
    let again = Directory::open(directory.path("")).unwrap();
    assert!(matches!(create(&again, "a", b"1"), Put::Done));
    let mode = fs::metadata(again.path("a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let (_parent, directory) = two();
    let pipe = Command::new("mkfifo").arg(directory.path("pipe")).status();
    assert!(pipe.unwrap().success());
    let _socket = UnixListener::bind(directory.path("socket")).unwrap();
    fs::create_dir(directory.path("directory")).unwrap();
    let mut names = vec!["pipe", "socket", "directory"];
    // Only root may do that.
    let mut zero = Command::new("mknod");
    let zero = zero.arg(directory.path("zero")).args(["c", "1", "5"]);
    let zero = zero.stderr(Stdio::null()).status();
    if zero.is_ok_and(|it| it.success()) {
        names.push("zero");
    }
    for name in names {
        let it = directory.clone();
        at_once(move || {
            assert!(it.open(name).is_err(), "{name}");
            assert!(it.journal(name).is_err(), "{name}");
            assert!(it.lock(name).is_err(), "{name}");
            assert!(matches!(create(&it, name, b"1"), Put::Lost), "{name}");
            assert_eq!(it.sweep().unwrap(), 0);
        });
    }
}

#[test]
fn an_open_file_with_another_name_is_not_written() {
    let (parent, directory) = two();
    let backup = parent.path().join("backup");
    fs::write(&backup, "important").unwrap();
    fs::hard_link(&backup, directory.path("_open")).unwrap();
    let store = Arc::new(directory.clone());
    let refused = Writer::open(store.clone(), WriterOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("hard link"), "{refused}");
    assert_eq!(fs::read_to_string(&backup).unwrap(), "important");
    fs::remove_file(directory.path("_open")).unwrap();
    // A crash may come before the staged name is removed. Then the file has two names.
    drop(directory.journal("_index").unwrap());
    fs::hard_link(directory.path("_index"), directory.path(".walrow-1-0")).unwrap();
    drop(directory.journal("_index").unwrap());
    let mut names = directory.list().unwrap();
    names.sort();
    assert_eq!(names, ["_index", "_writer"]);
    drop(Writer::open(store, WriterOptions::default()).unwrap());
}

#[test]
fn names_are_any_bytes() {
    let (_parent, directory) = two();
    let store = Arc::new(directory.clone());
    drop(Writer::open(store.clone(), WriterOptions::default()).unwrap());
    let path = directory.path("");
    fs::write(path.join(OsStr::from_bytes(b".walrow-\xff")), "").unwrap();
    assert_eq!(directory.sweep().unwrap(), 0);
    Log::open(store.clone()).unwrap();
    fs::write(path.join(OsStr::from_bytes(b"a\xff\n\x1b[2J")), "").unwrap();
    let refused = Log::open(store).unwrap_err();
    assert_eq!(refused.kind.code(), "foreign");
    assert!(!refused.to_string().contains(['\n', '\x1b']), "{refused}");
}

#[test]
fn the_path_is_resolved_once() {
    let parent = tempfile::tempdir().unwrap();
    let (one, other) = (parent.path().join("one"), parent.path().join("other"));
    let link = parent.path().join("link");
    fs::create_dir(&one).unwrap();
    fs::create_dir(&other).unwrap();
    symlink("one", &link).unwrap();
    let directory = Directory::create(&link).unwrap();
    fs::remove_file(&link).unwrap();
    symlink("other", &link).unwrap();
    assert!(matches!(create(&directory, "a", b"1"), Put::Done));
    assert!(one.join("a").exists());
    // The directory is still at its place.
    directory.check().unwrap();
}

#[test]
fn a_directory_that_is_replaced_is_noticed() {
    let (parent, directory) = two();
    let (path, moved) = (parent.path().join("log"), parent.path().join("moved"));
    let mut journal = directory.journal("_open").unwrap();
    journal.append(b"1").unwrap();
    journal.sync().unwrap();
    fs::rename(&path, &moved).unwrap();
    let is_stale = |it: io::Result<()>| it.unwrap_err().kind() == ErrorKind::StaleNetworkFileHandle;
    assert!(is_stale(directory.check()));
    fs::create_dir(&path).unwrap();
    assert!(is_stale(directory.check()));
    // All operations work in the directory that was opened.
    assert!(matches!(create(&directory, "a", b"1"), Put::Done));
    assert!(moved.join("a").exists());
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    fs::remove_dir(&path).unwrap();
    fs::rename(&moved, &path).unwrap();
    directory.check().unwrap();
    fs::remove_dir_all(&path).unwrap();
    assert!(is_stale(directory.check()));
    assert!(directory.stage().is_err());
    fs::write(&path, "a file").unwrap();
    assert!(is_stale(directory.check()));
}

#[test]
fn a_journal_that_loses_its_name_is_noticed() {
    for replaced in [false, true] {
        let (_parent, directory) = two();
        let mut journal = directory.journal("_open").unwrap();
        journal.append(b"1").unwrap();
        journal.sync().unwrap();
        assert!(journal.is_named().unwrap());
        fs::remove_file(directory.path("_open")).unwrap();
        if replaced {
            // Another process can create the journal again.
            directory.journal("_open").unwrap().append(b"2").unwrap();
        }
        assert!(!journal.is_named().unwrap());
        journal.append(b"3").unwrap();
        let error = journal.sync().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StaleNetworkFileHandle);
        if replaced {
            assert_eq!(read(&directory, "_open").unwrap(), b"2");
        }
    }
}

#[test]
fn what_has_no_name_goes_with_its_maker() {
    let (_parent, directory) = two();
    let mut mine = directory.stage().unwrap();
    mine.append(b"1").unwrap();
    fs::write(directory.path(".walrow-1-0"), "of a dead process").unwrap();
    let again = Directory::open(directory.path("")).unwrap();
    assert_eq!(again.sweep().unwrap(), 1);
    assert!(matches!(mine.create("a"), Put::Done));
    drop(directory.stage().unwrap());
    assert_eq!(directory.list().unwrap(), ["a"]);
}

/// Another process that runs `child` with these arguments.
fn start(mode: &str, directory: &Path, umask: &str) -> Child {
    Command::new("sh")
        .args(["-c", "umask $0; exec \"$@\"", umask])
        .arg(std::env::current_exe().unwrap())
        .args(["directory::child", "--exact", "--nocapture"])
        .env("WALROW_CHILD", mode)
        .env("WALROW_DIRECTORY", directory)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The work of the other processes.
#[test]
fn child() {
    let Ok(mode) = std::env::var("WALROW_CHILD") else {
        return;
    };
    let path = std::env::var_os("WALROW_DIRECTORY").unwrap();
    let directory = Directory::create_for(&path, mode == "group").unwrap();
    match &*mode {
        "create" => {
            let end = Instant::now() + Duration::from_secs(2);
            for number in 0_u64.. {
                if Instant::now() > end {
                    break;
                }
                directory.sweep().unwrap();
                let mut first = directory.stage().unwrap();
                let mut second = directory.stage().unwrap();
                first.append(b"whole").unwrap();
                second.append(b"whole").unwrap();
                let name = format!("{}-{number}", std::process::id());
                assert!(matches!(second.create(&name), Put::Done));
                assert!(matches!(
                    first.swap(&name, &tag(&directory, &name)),
                    Put::Done
                ));
            }
        }
        "hold" => {
            let _lock = directory.lock("_lock").unwrap().unwrap();
            let _journal = directory.journal("_open").unwrap();
            let _staged = directory.stage().unwrap();
            assert!(matches!(create(&directory, "ready", b""), Put::Done));
            thread::sleep(Duration::from_mins(1));
        }
        _ => {
            assert!(matches!(create(&directory, "a", b"1"), Put::Done));
            drop(directory.journal("_open").unwrap());
            drop(directory.lock("_lock").unwrap());
        }
    }
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    for umask in ["0000", "0077", "0277"] {
        for (group, of_directory, of_file) in [(true, 0o750, 0o640), (false, 0o700, 0o600)] {
            let parent = tempfile::tempdir().unwrap();
            let path = parent.path().join("log");
            let mode = if group { "group" } else { "owner" };
            assert!(start(mode, &path, umask).wait().unwrap().success());
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&path), of_directory, "{umask}");
            for name in ["a", "_open", "_lock"] {
                assert_eq!(mode(&path.join(name)), of_file, "{umask} {name}");
            }
            // A process that opens the directory later learns from it whether files are for the
            // group.
            let directory = Directory::open(&path).unwrap();
            assert!(matches!(create(&directory, "b", b"1"), Put::Done));
            assert_eq!(mode(&path.join("b")), of_file);
        }
    }
}

#[test]
fn locks_are_those_of_processes_that_live() {
    let (_parent, directory) = two();
    let path = directory.path("");
    let mut other = start("hold", &path, "0077");
    let end = Instant::now() + Duration::from_secs(30);
    while !path.join("ready").exists() {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(5));
    }
    assert!(directory.lock("_lock").unwrap().is_none());
    assert_eq!(
        directory.journal("_open").unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    assert_eq!(directory.sweep().unwrap(), 0);
    assert_eq!(staged(&path).len(), 1);
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(directory.lock("_lock").unwrap().is_some());
    directory.journal("_open").unwrap();
    assert_eq!(directory.sweep().unwrap(), 1);
    assert!(staged(&path).is_empty());
}

#[test]
fn many_processes_stage_and_sweep() {
    let (_parent, directory) = two();
    let path = directory.path("");
    let mut living: Vec<_> = (0..4).map(|_| start("create", &path, "0077")).collect();
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        let mut dying = start("create", &path, "0077");
        thread::sleep(Duration::from_millis(80));
        dying.kill().unwrap();
        dying.wait().unwrap();
        directory.sweep().unwrap();
    }
    for child in &mut living {
        assert!(child.wait().unwrap().success());
    }
    directory.sweep().unwrap();
    assert!(staged(&path).is_empty());
    let names = directory.list().unwrap();
    assert!(names.len() > 20, "{}", names.len());
    for name in names {
        assert_eq!(read(&directory, &name).unwrap(), b"whole", "{name}");
    }
}
