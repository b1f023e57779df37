"""The wheel: its files, and a run in an empty environment outside the checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import narl

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without this checkout on Python's path and return its output."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == f"narl-{narl.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "narl").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    metadata = f"narl-{narl.__version__}.dist-info/"
    assert {name for name in names if not name.startswith(metadata)} == files
    assert f"{metadata}licenses/LICENSE" in names


@pytest.mark.slow
def test_wheel_runs_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    environment, elsewhere = tmp_path / "environment", tmp_path / "elsewhere"
    elsewhere.mkdir()
    run(sys.executable, "-m", "venv", environment, cwd=tmp_path)
    python, command = environment / "bin" / "python", environment / "bin" / "narl"
    # --no-compile: most of the packages' modules are not imported below.
    install = [python, "-m", "pip", "install", "-q", "--no-compile"]
    run(*install, "-c", ROOT / "constraints.txt", wheel, cwd=elsewhere)

    location = run(python, "-c", "import narl; print(narl.__file__)", cwd=elsewhere)
    assert Path(location.strip()).is_relative_to(environment)
    assert narl.__version__ in run(command, "--version", cwd=elsewhere)
    listed = run(command, "--help", cwd=elsewhere)
    for name in ("tabular", "train", "reproduce", "report", "runs", "paper", "doctor"):
        assert name in listed

    arguments = ["tabular", "greedy", "riverswim", "--episodes", "5", "--seeds", "0:2", "--json"]
    outcome = json.loads(run(command, *arguments, cwd=elsewhere))
    for term in ("regret", "optimism", "estimation_error"):
        assert set(outcome[term]) == {"median", "q25", "q75", "mean", "worst"}
    assert outcome["v_star"] == pytest.approx(3.3973, abs=1e-3)
    assert set(outcome["seconds"]) == {"compile", "run"}
    assert "run" in outcome
