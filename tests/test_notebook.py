"""The notebook: committed without outputs, it runs and reaches the paper's findings."""

import json
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "notebooks" / "tabular.ipynb"

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


def test_notebook_is_committed_without_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert len(code) >= 5
    for cell in code:
        assert not cell.outputs
        assert cell.execution_count is None


def execute(folder: Path) -> nbformat.NotebookNode:
    """Run the notebook and return it with its outputs and one more cell with its results."""
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(PROBE))
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
def test_notebook_runs_and_reaches_its_findings(tmp_path: Path) -> None:
    # A single test: parallel tests would run the notebook once each.
    executed = execute(tmp_path)
    check_stderr_is_empty(executed)
    check_pictures(executed)
    (output,) = executed.cells[-1].outputs
    results = json.loads(output["text"])
    check_regret(results)
    check_decomposition(results)
    check_values(results)
    check_deep_sea(results)


def check_pictures(executed: nbformat.NotebookNode) -> None:
    pictures = [
        output
        for cell in executed.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 3


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
