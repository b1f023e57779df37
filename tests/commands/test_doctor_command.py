"""`narl doctor` and `narl paper`."""

import json
from types import SimpleNamespace

import pytest

import narl
from narl.commands import doctor
from narl.errors import InputError


@pytest.fixture(autouse=True)
def rendering(monkeypatch) -> None:
    """Let MuJoCo draw, whatever the machine lacks."""
    monkeypatch.setattr("narl.deep.rendering_backend.check_rendering", lambda: "egl")


def test_doctor_finds_no_problems_here(call, tmp_path):
    answer = call("doctor", "--json")
    assert answer.status == 0
    result = json.loads(answer.out)
    assert result["versions"]["narl"] == narl.__version__
    for package in ("jax", "optax", "mujoco", "imageio"):
        assert result["versions"][package]
    extras = {"imageio-ffmpeg", "pygame", "pandas", "tensorboardX", "wandb"}
    assert set(result["extras"]) == extras
    assert result["device"]["count"] >= 1
    assert 1 <= result["usable_cores"] <= result["cores"]
    assert (result["mujoco"], result["rendering"]) == (True, "egl")
    assert (result["runs"], result["writable"]) == ("runs", True)
    assert result["disk_free"] > 0
    assert result["problems"] == []
    text = call("doctor").out
    assert "no problems" in text
    assert result["versions"]["jax"] in text
    assert list(tmp_path.iterdir()) == []


def test_doctor_names_every_problem(call, tmp_path, monkeypatch):
    def broken(*args):
        raise RuntimeError("no\nbackend")

    def cannot_draw():
        raise InputError("rendering: neither libEGL nor libOSMesa")

    (tmp_path / "file").write_text("")
    monkeypatch.setattr(doctor, "PACKAGES", ("jax", "no-such-package"))
    monkeypatch.setattr(doctor, "MIN_FREE_BYTES", 2**80)
    monkeypatch.setattr("jax.devices", broken)
    monkeypatch.setattr("narl.deep.environment.open_env", broken)
    monkeypatch.setattr("narl.deep.rendering_backend.check_rendering", cannot_draw)
    answer = call("doctor", "--runs", "file", "--json")
    assert answer.status == 1
    result = json.loads(answer.out)
    assert result["versions"]["no-such-package"] is None
    assert result["device"]["count"] == 0
    assert (result["mujoco"], result["rendering"]) == (False, None)
    assert len(result["problems"]) == 6
    problems = "\n".join(result["problems"])
    for text in (
        *("no-such-package is not installed", "JAX does not work: no backend", "not a folder"),
        *("MiB are free", "MuJoCo does not work: no backend", "libOSMesa (videos need it"),
    ):
        assert text in problems
    text = call("doctor", "--runs", "file").out
    assert "problem: no-such-package" in text
    assert text.count("does not work") == 4


@pytest.mark.parametrize("installed", ["", "imageio-ffmpeg pygame-ce", "imageio-ffmpeg pygame"])
def test_doctor_notes_what_recording_lacks(call, monkeypatch, installed):
    version, names = doctor._version, ("imageio-ffmpeg", "pygame", "pygame-ce")
    known = {name: "1.0" if name in installed.split() else None for name in names}
    monkeypatch.setattr(
        doctor, "_version", lambda name: known[name] if name in known else version(name)
    )
    answer = call("doctor", "--json")
    result = json.loads(answer.out)
    assert (answer.status, result["problems"]) == (0, [])
    assert result["extras"]["pygame"] == ("1.0" if installed else None)
    assert len(result["notes"]) == (0 if installed else 2)
    text = call("doctor").out
    assert text.count(
        '; pip install -c constraints.txt ".[video]" in the folder of the clone'
    ) == len(result["notes"])
    assert "no problems" in text


def test_doctor_sees_a_gpu_that_jax_does_not_use(call, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "NVIDIA", tmp_path)
    monkeypatch.setattr("jax.devices", lambda: [SimpleNamespace(platform="cpu", device_kind="cpu")])
    (problem,) = json.loads(call("doctor", "--json").out)["problems"]
    assert problem.startswith("JAX uses the CPU although there is an NVIDIA GPU")


def test_paper_lists_the_code_of_every_entry(call):
    answer = call("paper", "--json")
    assert answer.status == 0
    result = json.loads(answer.out)
    entries = {entry["id"]: entry for entry in result["entries"]}
    assert len(entries) == len(narl.paper.ENTRIES)
    assert "narl.tabular.planning:naevi" in entries["eq:2"]["implemented_by"]
    assert entries["eq:2"]["kind"] == "equation"
    assert isinstance(result["missing"], list)
    text = call("paper", "eq:2", "proof:b1").out
    assert "narl.tabular.planning:naevi" in text
    assert "no algorithm uses it" in text
    assert "fig:1a" not in text
