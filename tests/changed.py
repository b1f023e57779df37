"""Run the fast tests that belong to the files given as arguments; for the pre-commit hook.

`tests` mirrors `src/narl`: the tests of src/narl/deep/sac.py are tests/deep/test_sac*.py, those of
src/narl/cli.py are tests/test_cli*.py. A module without such tests has all those of its folder.
Pages and notebooks have the tests that read them.
"""

import subprocess
import sys
from pathlib import Path

NO_TESTS = 5
"""The exit status of pytest when it has selected no test."""


PAGE_TESTS = (
    *("test_api_docs.py", "test_doc_blocks.py", "test_docs.py", "test_errors.py"),
    *("test_notebook.py", "test_package.py", "test_policies.py", "theory/test_errata_page.py"),
)
"""The tests of pages and notebooks, beside test_architecture.py, which always runs."""


def related_tests(path: Path) -> list[Path]:
    """Return the test files of a source file or a page, or the test file itself."""
    if path.suffix in (".md", ".ipynb"):
        return [Path("tests", name) for name in PAGE_TESTS]
    if path.parts[0] == "tests":
        return [path] if path.name.startswith("test_") else []
    folder = Path("tests", *path.parts[2:-1])
    own = [*folder.glob(f"test_{path.stem}*.py"), *folder.glob(f"{path.stem}/test_*.py")]
    return sorted(own or folder.glob("test_*.py"))


def main(names: list[str]) -> int:
    """Run pytest on the tests of the named files; return its exit status."""
    files = sorted({test for name in names for test in related_tests(Path(name)) if test.exists()})
    files = [Path("tests", "test_architecture.py"), *files]
    command = [sys.executable, "-m", "pytest", "-m", "not slow", *map(str, files)]
    status = subprocess.run(command, check=False).returncode
    return 0 if status == NO_TESTS else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
