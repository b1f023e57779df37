"""Files are read within bounds and written without following links; JSON is checked."""

import json
import os
import stat

import pytest

from narl.errors import InputError
from narl.storage.files import (
    SCHEMA,
    check_name,
    check_writable,
    create_file,
    make_folder,
    newer_schema,
    open_descriptor,
    parse_json,
    read_file,
    remove_file,
    with_checksum,
    without_checksum,
    write_file,
)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: os.mkfifo(path), "it is not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is a symbolic link"),
        (lambda path: path.symlink_to(path.with_name("other")), "it is a symbolic link"),
        (lambda path: path.symlink_to(path.name), "it is a symbolic link"),
        (lambda path: path.write_bytes(b"12345"), "it has more than 4 bytes"),
        (lambda path: None, "No such file or directory"),
    ],
)
def test_only_small_regular_files_are_read(tmp_path, make, reason):
    (tmp_path / "other").write_bytes(b"1")
    make(tmp_path / "file")
    with pytest.raises(OSError, match=reason) as error:
        read_file(tmp_path / "file", limit=4)
    assert error.value.filename


def test_links_are_followed_only_where_that_is_asked_for(tmp_path):
    (tmp_path / "other").write_bytes(b"1")
    (tmp_path / "link").symlink_to("other")
    assert read_file(tmp_path / "link", follow_links=True) == b"1"
    with pytest.raises(OSError, match="symbolic link"):
        open_descriptor(tmp_path / "link", os.O_WRONLY | os.O_CREAT)


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_name_that_no_file_can_have_is_an_error_of_the_system(tmp_path, name):
    with pytest.raises(OSError, match="the name is wrong"):
        read_file(tmp_path / name)


def test_written_file_takes_the_place_of_a_link(tmp_path):
    (tmp_path / "other").write_bytes(b"precious")
    (tmp_path / "file").symlink_to("other")
    write_file(tmp_path / "file", b"new")
    assert (tmp_path / "other").read_bytes() == b"precious"
    assert (tmp_path / "file").read_bytes() == b"new"
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "file", b"again")


def test_device_is_not_replaced_by_a_file(tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root can make a device")
    with pytest.raises(OSError, match="it is a device, not a file") as caught:
        write_file(device, b"x")
    assert caught.value.filename == str(device)
    assert stat.S_ISCHR(device.lstat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["null"]


def test_removed_file_may_be_missing_and_links_are_not_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"x")
    link.symlink_to(target)
    for _ in range(2):
        remove_file(link)
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_full_disk_names_the_file(tmp_path, fail_fsync):
    fail_fsync()
    with pytest.raises(OSError, match=r"No space left on device: .*/file'"):
        write_file(tmp_path / "file", b"new")


def test_new_folders_are_on_disk_before_files_are_written_into_them(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr("narl.storage.files.flush", flushed.append)
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert flushed == [tmp_path, tmp_path / "a"]
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")


@pytest.mark.parametrize(
    "content",
    [
        *(b'{"a": NaN}', b'[{"a": 1e999}]', b"-Infinity", b'"\\ud800"', b'{"\\udfff": 1}', b"\xff"),
        *(b"[" * 60 + b"]" * 60, b"[" * 100_000, b'{"a":' * 5000, b"9" * 400, b"", b"{"),
    ],
)
def test_json_that_narl_does_not_write_is_refused(content):
    with pytest.raises(ValueError):  # noqa: PT011 (the texts are Python's)
        parse_json(content)


def test_json_is_read_as_it_was_written():
    value = {"a": [1, 2.5, None, True, "ε", {"b": [[[]]]}], "big": 2**127 + 1, "tiny": 5e-324}
    assert parse_json(json.dumps(value).encode()) == value


def test_changed_values_differ_from_their_checksum():
    signed = with_checksum({"a": 1, "b": {"c": [0.1, None, "ε"]}})
    assert without_checksum(json.loads(json.dumps(signed))) == {
        "a": 1,
        "b": {"c": [0.1, None, "ε"]},
    }
    assert without_checksum({"a": 1}) == {"a": 1}  # older files have none
    for wrong in ({**signed, "a": 2}, {**signed, "d": 1}, {**signed, "sha256": None}):
        with pytest.raises(ValueError, match="differs from its checksum"):
            without_checksum(wrong)
    with pytest.raises(ValueError, match="not a JSON object"):
        without_checksum([1])


def test_formats_of_the_future_are_named():
    assert (
        newer_schema({}) == newer_schema({"schema": SCHEMA}) == newer_schema({"schema": "x"}) == ""
    )
    assert newer_schema({"schema": SCHEMA + 1}).startswith(f"it has format {SCHEMA + 1}, and this")


@pytest.mark.parametrize("name", ["x" * 256, "é" * 130, "a/" * 2500, "a\0b"])
def test_names_that_are_too_long_are_refused_in_one_line(tmp_path, name):
    for check in (check_name, check_writable):
        with pytest.raises(InputError, match=r"^--out: .* is no name of a file .*; choose"):
            check("--out", tmp_path / name, "choose another")
    check_writable("--out", tmp_path / ("x" * 255), "choose another")
