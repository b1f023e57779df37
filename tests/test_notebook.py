"""The notebooks: committed with outputs; they run, and the tabular one reaches its findings."""

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import rgb_to_hsv, to_rgb

from narl.palette import COLOURS

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = {name: ROOT / "notebooks" / f"{name}.ipynb" for name in ("tabular", "deep")}

PROBE = """
import json

print(json.dumps({
    "v_star": v_star,
    "regret": {label: trace.regret.sum(axis=1).tolist() for label, trace in traces.items()},
    "first_value": {label: trace.value[:, 0].tolist() for label, trace in traces.items()},
    "last_value": {label: trace.value[:, -1].tolist() for label, trace in traces.items()},
    "shape": [list(trace.regret.shape) for trace in traces.values()],
    "decomposition": decomposition,
    "solved": solved,
    "expected_shape": [SEEDS, EPISODES],
}))
"""
"""A cell that prints the notebook's results, run after the last one."""

DEEP_PROBE = """
import json

print(json.dumps({
    "steps": {label: [row["step"] for row in agent.history] for label, agent in agents.items()},
    "bonus": {label: agent.history[-1]["bonus"] for label, agent in agents.items()},
    "lengths": lengths,
    "same": bool(same),
}))
"""
TINY = {
    "STEPS = 4000": "STEPS = 60",
    "OPTIONS = {}": """OPTIONS = {
        "initial_steps": 20, "epoch_length": 20, "model_every": 20, "updates_per_step": 1,
        "batch": 16, "hidden": (8,), "model_width": 8, "model_depth": 1, "most_model_epochs": 2,
        "rollout_batch": 20, "eval_episodes": 1,
    }""",
}
"""Replacements that make the training of the deep notebook take moments."""
TWO_SIZES = {"SIZES = (6, 10, 14)": "SIZES = (6, 10)"}
"""Each size of Deep Sea is four more programs to compile; the stored outputs show the third."""


def code_cells(name: str) -> list[Any]:
    cells = nbformat.read(NOTEBOOKS[name], as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_is_committed_with_the_outputs_of_one_run(name: str) -> None:
    cells = code_cells(name)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"stream", "display_data"}
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert [output.name for output in outputs if output.get("name") == "stderr"] == []
    assert NOTEBOOKS[name].stat().st_size < 1e6
    text = NOTEBOOKS[name].read_text(encoding="utf-8")
    assert re.search(r"/(?:home|root|tmp|work)/", text) is None, "it shows a folder of one machine"


def execute(name: str, folder: Path, probe: str, changes: dict[str, str]) -> nbformat.NotebookNode:
    """Run a notebook and return it with its outputs and one more cell with its results."""
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOKS[name], as_version=4)
    for old, new in changes.items():
        (cell,) = (cell for cell in notebook.cells if old in cell.source)
        cell.source = cell.source.replace(old, new)
    notebook.cells.append(nbformat.v4.new_code_cell(probe))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT / "src"))
        # The user's own settings must not change the outputs, and nothing is left behind.
        for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(variable, str(folder / variable.lower()))
        client = NotebookClient(
            notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        client.execute()
    return notebook


@pytest.mark.slow
def test_tabular_notebook_runs_and_reaches_its_findings(tmp_path: Path) -> None:
    # A single test: parallel tests would run the notebook once each.
    executed = execute("tabular", tmp_path, PROBE, TWO_SIZES)
    check_stderr_is_empty(executed)
    check_pictures(executed, 3)
    (output,) = executed.cells[-1].outputs
    results = json.loads(output["text"])
    check_regret(results)
    check_decomposition(results)
    check_values(results)
    check_deep_sea(results)


@pytest.mark.slow
def test_deep_notebook_runs_with_small_sizes(tmp_path: Path) -> None:
    executed = execute("deep", tmp_path, DEEP_PROBE, TINY)
    check_stderr_is_empty(executed)
    check_pictures(executed, 2)
    (output,) = executed.cells[-1].outputs
    results = json.loads(output["text"])
    assert results["steps"] == {"NARL": [20, 40, 60], "MBPO": [20, 40, 60]}
    assert all(bonus > 0 for bonus in results["bonus"]["NARL"])
    assert results["bonus"]["MBPO"] == [0.0, 0.0]
    assert results["same"]


def stored_output(name: str, words: str) -> str:
    """Return the only stored output of a notebook in which the words occur."""
    outputs = (output for cell in code_cells(name) for output in cell.outputs)
    (printed,) = (output.text for output in outputs if words in output.get("text", ""))
    return printed


def test_stored_outputs_of_the_tabular_notebook_show_the_largest_deep_sea() -> None:
    """Both noises solve it with every seed, the agent as printed and the greedy one with none."""
    solved = re.findall(r"N=14: (\d+)/10$", stored_output("tabular", "N=14"), re.MULTILINE)
    assert solved == ["10", "10", "0", "0"]


def test_stored_outputs_of_the_deep_notebook_show_what_its_text_says() -> None:
    """NARL reaches the goal with both seeds, MBPO stays at 0: the text between the cells."""
    printed = stored_output("deep", "mean returns")
    narl_lines, mbpo_lines = printed.partition("MBPO")[::2]
    last = [re.findall(r"-?\d+\.\d+", lines.splitlines()[-1]) for lines in (narl_lines, mbpo_lines)]
    assert [float(value) > 90 for value in last[0]] == [True, True]
    assert [abs(float(value)) < 1 for value in last[1]] == [True, True]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_maps_of_colours_do_not_end_in_the_blue_of_narl(name: str) -> None:
    def hue(colour: Any) -> float:
        return float(rgb_to_hsv(to_rgb(colour))[0])

    source = "".join(cell.source for cell in code_cells(name))
    maps = [colormaps[each] for each in re.findall(r'cmap="(\w+)"', source)]
    hues = [hue(each(end)) for each in maps for end in (0.0, 1.0)]
    assert all(abs(each - hue(COLOURS[0].light)) > 0.1 for each in hues)
    assert len(hues) == 2 * (name == "deep")


def check_pictures(executed: nbformat.NotebookNode, count: int) -> None:
    pictures = [
        output
        for cell in executed.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == count


def check_stderr_is_empty(executed: nbformat.NotebookNode) -> None:
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    assert [output["text"] for output in outputs if output.get("name") == "stderr"] == []


def check_regret(results: dict[str, Any]) -> None:
    assert results["v_star"] == pytest.approx(3.3973, abs=1e-4)
    assert all(shape == results["expected_shape"] for shape in results["shape"])
    regret = {label: float(np.median(total)) for label, total in results["regret"].items()}
    assert regret["NARL Gaussian"] < regret["UCRL2"] / 10
    assert regret["NARL Gaussian"] < regret["NARL bootstrap"] < regret["PSRL"]
    assert regret["NARL Gaussian (as printed)"] > 0.9 * regret["UCRL2"]
    assert regret["UCRL2"] < regret["UCRL2 (TabulaRL)"]
    # Staying at the left end earns .1 in every episode.
    most = (results["v_star"] - 0.1) * results["expected_shape"][1]
    assert regret["greedy"] == pytest.approx(most, rel=0.01)


def check_decomposition(results: dict[str, Any]) -> None:
    optimism = {label: terms["optimism"] for label, terms in results["decomposition"].items()}
    assert optimism["UCRL2 (TabulaRL)"] < optimism["UCRL2"] < optimism["NARL Gaussian"] < 0
    assert optimism["greedy"] > 0
    assert results["decomposition"]["greedy"]["estimation_error"] == pytest.approx(0, abs=1)


def check_values(results: dict[str, Any]) -> None:
    first, last = (
        {label: float(np.median(values)) for label, values in results[key].items()}
        for key in ("first_value", "last_value")
    )
    assert last["NARL Gaussian"] == pytest.approx(results["v_star"], rel=0.25)
    assert last["UCRL2"] > 3 * results["v_star"]
    assert first["UCRL2"] == pytest.approx(20)
    assert first["UCRL2 (TabulaRL)"] > 20


def check_deep_sea(results: dict[str, Any]) -> None:
    gaussian, bootstrap = (
        results["solved"][f"NARL {noise}"] for noise in ("Gaussian", "bootstrap")
    )
    for size in gaussian:
        assert None not in gaussian[size] + bootstrap[size]
        assert np.median(gaussian[size]) < np.median(bootstrap[size])
    largest = max(gaussian, key=int)
    for label in ("NARL Gaussian (as printed)", "greedy"):
        assert set(results["solved"][label][largest]) == {None}
