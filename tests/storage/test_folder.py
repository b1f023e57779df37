"""Files and folders are written completely or not at all, verified, and locked."""

import ctypes
import errno
import fcntl
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from narl.errors import InputError
from narl.storage.files import (
    create_file,
    json_bytes,
    partial_file,
    to_json_values,
    with_checksum,
    without_checksum,
    write_file,
)
from narl.storage.folder import (
    MANIFEST,
    clear_folder,
    open_folder,
    refuse_links,
    remove_folder,
    remove_tree,
    write_folder,
)
from narl.storage.folder_lock import FolderLocked, is_locked, lock_folder, lock_holder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_pair(final: Path, content: bytes = b"old", **options) -> None:
    def write(partial: Path) -> dict:
        return {name: create_file(partial / name, content) for name in ("a", "b")}

    write_folder(final, write, {"step": 3}, **options)


def problems(folder: Path, step: int = 3) -> tuple[str, ...]:
    with open_folder(folder, ("a", "b"), {"step": step}) as content:
        return content.problems


def test_write_file_creates_parents_and_replaces(tmp_path):
    path = tmp_path / "new" / "folder" / "file.json"
    for content in (b"first", b"second", b""):
        write_file(path, content)
        assert path.read_bytes() == content
    assert names(path.parent) == ["file.json"]


@pytest.mark.parametrize("error", [None, KeyboardInterrupt()])
def test_write_file_that_fails_leaves_the_old_file(tmp_path, fail_fsync, error):
    path = tmp_path / ("long-name-" * 20)
    write_file(path, b"old")
    fail_fsync(error=error)
    with pytest.raises((OSError, KeyboardInterrupt)):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == [path.name]


def test_partial_file_keeps_the_suffix_and_appears_when_complete(tmp_path):
    with partial_file(tmp_path / "video.mp4") as partial:
        assert partial.suffix == ".mp4"
        partial.write_bytes(b"frames")
        assert not (tmp_path / "video.mp4").exists()
    assert (tmp_path / "video.mp4").read_bytes() == b"frames"
    assert names(tmp_path) == ["video.mp4"]


@pytest.mark.parametrize("kept", [False, True])
def test_write_folder_replaces_unless_the_old_folder_is_kept(tmp_path, kept):
    final = tmp_path / "new" / "final"
    write_pair(final)
    assert problems(final) == ()
    write_pair(final, b"new", keep=lambda existing: existing == final and kept)
    assert (final / "a").read_bytes() == (b"old" if kept else b"new")
    assert names(tmp_path / "new") == ["final"]


def test_write_folder_replaces_a_link_and_leaves_its_target(tmp_path):
    write_pair(tmp_path / "target")
    (tmp_path / "final").symlink_to("target")
    write_pair(tmp_path / "final", b"new")
    assert not (tmp_path / "final").is_symlink()
    assert (tmp_path / "final" / "a").read_bytes() == b"new"
    assert problems(tmp_path / "target") == ()


def test_write_folder_never_replaces_a_file(tmp_path):
    (tmp_path / "final").write_text("mine")
    with pytest.raises(NotADirectoryError):
        write_pair(tmp_path / "final")
    assert (tmp_path / "final").read_text() == "mine"
    assert names(tmp_path) == ["final"]


# Two files, the manifest, the folder and, after the rename, the folder above: five flushes.
@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("count", range(1, 6))
def test_full_disk_leaves_the_old_folder_or_the_new_one(tmp_path, fail_fsync, count, replaces):
    final = tmp_path / "final"
    if replaces:
        write_pair(final)
    fail_fsync(count)
    with pytest.raises(OSError, match="No space left on device"):
        write_pair(final, b"new")
    if count < 5 and not replaces:
        assert names(tmp_path) == []
    else:
        assert problems(final) == ()
        assert (final / "a").read_bytes() == (b"old" if count < 5 else b"new")
        assert [name for name in names(tmp_path) if not name.startswith(".")] == ["final"]


def test_folder_written_by_many_threads_at_once_is_complete(tmp_path):
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda i: write_pair(tmp_path / "final", b"%d" % i), range(40)))
    assert problems(tmp_path / "final") == ()
    assert (tmp_path / "final" / "a").read_bytes() == (tmp_path / "final" / "b").read_bytes()
    assert names(tmp_path) == ["final"]


def test_remove_deletes_links_without_their_targets(tmp_path):
    write_pair(tmp_path / "target")
    for remove in (remove_tree, remove_folder):
        (tmp_path / "link").symlink_to("target")
        remove(tmp_path / "link")
        assert names(tmp_path) == ["target"]
    remove_folder(tmp_path / "target")
    remove_folder(tmp_path / "target")  # not there any more
    assert names(tmp_path) == []


def test_clear_folder_keeps_the_lock(tmp_path):
    with lock_folder(tmp_path):
        write_pair(tmp_path / "folder")
        write_file(tmp_path / "file", b"")
        clear_folder(tmp_path)
        assert names(tmp_path) == [".lock"]
        assert lock_holder(tmp_path) == os.getpid()


def test_every_flipped_bit_is_noticed(tmp_path):
    write_pair(tmp_path)
    for name in ("a", MANIFEST):
        content = (tmp_path / name).read_bytes()
        for place in range(len(content)):
            damaged = bytearray(content)
            damaged[place] ^= 1 << place % 8
            (tmp_path / name).write_bytes(damaged)
            assert problems(tmp_path) != (), (name, place)
        (tmp_path / name).write_bytes(content)
    assert problems(tmp_path) == ()


def edit_manifest(**changes):
    def edit(folder: Path) -> None:
        manifest = without_checksum(json.loads((folder / MANIFEST).read_text()))
        (folder / MANIFEST).write_bytes(json_bytes(with_checksum({**manifest, **changes})))

    return edit


def edit_listed(name: str):
    def edit(folder: Path) -> None:
        files = json.loads((folder / MANIFEST).read_text())["files"]
        edit_manifest(files={**files, name: files["a"]})(folder)

    return edit


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (lambda path: (path / "a").write_bytes(b"ol"), "a differs from its checksum"),
        (lambda path: (path / "b").write_bytes(b"old\n"), "b differs from its checksum"),
        (lambda path: (path / "b").unlink(), "b cannot be read (No such file"),
        (lambda path: ((path / "b").unlink(), (path / "b").mkdir()), "b cannot be read (Is a dir"),
        (lambda path: (path / MANIFEST).unlink(), "manifest.json cannot be read (No such file"),
        (lambda path: (path / MANIFEST).write_text(""), "manifest.json is damaged"),
        (lambda path: (path / MANIFEST).write_text("[1]"), "manifest.json is damaged"),
        (lambda path: (path / MANIFEST).write_text('{"step":3}'), "manifest.json is damaged"),
        (edit_manifest(files={}), "manifest.json is damaged"),
        (edit_manifest(files=[["a", 1]]), "manifest.json is damaged"),
        (edit_manifest(files={"a": 1}), "a differs from its checksum"),
        (edit_manifest(more=1), "manifest.json is damaged"),
        (edit_manifest(step=4), "manifest.json is of step 4, not 3"),
        (edit_manifest(schema=2), "it has format 2, and this narl reads formats up to 1"),
        (edit_manifest(schema=0), "manifest.json is damaged"),
        (edit_manifest(schema="1"), "manifest.json is damaged"),
        (lambda path: (path / MANIFEST).write_bytes(b"[" * 100_000), "manifest.json is damaged"),
        (lambda path: (path / MANIFEST).write_bytes(b"[NaN]"), "manifest.json is damaged"),
        (edit_listed("../a"), "manifest.json is damaged"),
        (edit_listed("a\0"), "manifest.json is damaged"),
        (edit_listed("c"), "c cannot be read (No such file"),
    ],
)
def test_damage_is_named(tmp_path, damage, cause):
    write_pair(tmp_path)
    damage(tmp_path)
    assert problems(tmp_path)[0].startswith(cause)


HOLDER = """
import pathlib, sys
from narl.storage import lock_folder

with lock_folder(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_folder_is_locked_by_one_process_until_it_ends(tmp_path, start_program):
    folder = tmp_path / "run"
    assert lock_holder(folder) is None
    assert not is_locked(folder)
    assert not folder.exists()
    holder = start_program(HOLDER, folder)
    try:
        assert holder.stdout.readline() == "locked\n"
        assert lock_holder(folder) == holder.pid
        assert is_locked(folder)
        with pytest.raises(FolderLocked, match=rf"process {holder.pid} is writing to .*run;"):
            lock_folder(folder).__enter__()
    finally:
        holder.kill()
        holder.communicate(timeout=60)
    assert lock_holder(folder) is None
    assert not is_locked(folder)
    # The lock of a dead process is free, though its id is still there; an error frees a lock too.
    with pytest.raises(InputError, match=f"process {os.getpid()} is writing"), lock_folder(folder):
        lock_folder(folder).__enter__()  # one process cannot lock it twice either
    assert lock_holder(folder) is None


def test_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    words = r"run folder: .*/run cannot be locked \(flock: Function not implemented\); choose"
    with pytest.raises(InputError, match=words):
        lock_folder(tmp_path / "run").__enter__()


@pytest.mark.parametrize("created_again", [False, True])
def test_lock_of_a_deleted_folder_is_taken_anew(tmp_path, monkeypatch, created_again):
    run, flock = tmp_path / "run", fcntl.flock
    deletions = []

    def flock_after_deletion(descriptor: int, operation: int) -> None:
        """Delete the folder between the opening of its lock and the first call of flock."""
        if not deletions:
            deletions.append(run)
            remove_folder(run)
            if created_again:
                run.mkdir()
                (run / ".lock").touch()
        flock(descriptor, operation)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", flock_after_deletion)
        first = lock_folder(run)
        first.__enter__()
    assert deletions
    assert lock_holder(run) == os.getpid()
    with pytest.raises(InputError, match="is writing"):
        lock_folder(run).__enter__()
    first.__exit__(None, None, None)
    assert lock_holder(run) is None


@pytest.mark.parametrize("content", ["", "no number", "-7", str(10**30)])
def test_damaged_lock_has_no_holder(tmp_path, content):
    (tmp_path / ".lock").write_text(content)
    assert lock_holder(tmp_path) is None


def test_holder_on_another_machine_is_seen_and_named(tmp_path):
    """The lock is of the file system; no process here has the id in it."""
    with lock_folder(tmp_path):
        (tmp_path / ".lock").write_text("4194000 elsewhere\n")
        assert lock_holder(tmp_path) == 4194000
        with (
            pytest.raises(InputError, match="process 4194000 on elsewhere is writing to"),
            lock_folder(tmp_path),
        ):
            pass
    assert lock_holder(tmp_path) is None


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device"])
def test_lock_that_is_no_file_is_refused_and_nothing_is_followed(tmp_path, kind):
    run, lock = tmp_path / "run", tmp_path / "run" / ".lock"
    run.mkdir()
    (tmp_path / "other").write_text("precious")
    make = {
        "link": lambda: lock.symlink_to(tmp_path / "other"),
        "pipe": lambda: os.mkfifo(lock),
        "folder": lock.mkdir,
        "device": lambda: lock.symlink_to("/dev/zero"),
    }
    make[kind]()
    assert lock_holder(run) is None
    assert not is_locked(run)
    with pytest.raises(InputError, match=r"run folder: .* cannot be written to"):
        lock_folder(run).__enter__()
    assert (tmp_path / "other").read_text() == "precious"


def test_folder_that_is_or_holds_a_link_is_not_written_to(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to("elsewhere")
    with pytest.raises(InputError, match=r"run folder: .*run is a symbolic link; remove it"):
        lock_folder(tmp_path / "run").__enter__()
    assert names(tmp_path / "elsewhere") == []
    (tmp_path / "elsewhere" / "checkpoints").symlink_to("..")
    with pytest.raises(InputError, match=r"run folder: .*checkpoints is a symbolic link"):
        refuse_links(tmp_path / "elsewhere")


def test_replaced_folder_has_its_name_at_every_moment(tmp_path, monkeypatch):
    write_pair(tmp_path / "final")
    renamed = []
    monkeypatch.setattr(Path, "rename", lambda path, to: renamed.append(to) or os.rename(path, to))
    write_pair(tmp_path / "final", b"new")
    if not hasattr(ctypes.CDLL(None), "renameat2"):
        pytest.skip("this system cannot swap folders")
    assert renamed == [tmp_path / "final"]  # refused, as the name is taken; then they are swapped
    assert (tmp_path / "final" / "a").read_bytes() == b"new"


def test_folder_is_replaced_where_the_system_cannot_swap(tmp_path, monkeypatch):
    monkeypatch.setattr("narl.storage.folder._swap", lambda folder, other: False)
    write_pair(tmp_path / "final")
    write_pair(tmp_path / "final", b"new")
    assert (tmp_path / "final" / "a").read_bytes() == b"new"
    assert names(tmp_path) == ["final"]


def test_folder_that_cannot_be_locked_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"run folder: .*file cannot be written to \(File exists"):
        lock_folder(tmp_path / "file").__enter__()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"c": float("nan")}, "config.c: nan"),
        ({"a": {"b": [1, object()]}}, "config.a.b[1]: a object"),
        ({1: 2}, "config: key 1"),
        ({"x": 1j}, "config.x: a complex"),
        ({"x": {1}}, "config.x: a set given; must be a JSON value"),
    ],
)
def test_values_that_are_not_json_are_named(value, message):
    with pytest.raises(InputError) as error:
        to_json_values("config", value)
    assert str(error.value).startswith(message)


def test_a_reader_that_looks_at_a_lock_does_not_count_as_its_holder(tmp_path):
    (tmp_path / ".lock").write_text("1 another-host\n")
    with (tmp_path / ".lock").open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        done = threading.Timer(0.05, fcntl.flock, (reader, fcntl.LOCK_UN))
        done.start()
        with lock_folder(tmp_path):
            done.join()
        fcntl.flock(reader, fcntl.LOCK_SH)  # for longer than a look
        with pytest.raises(InputError, match="is writing to"), lock_folder(tmp_path):
            pass
