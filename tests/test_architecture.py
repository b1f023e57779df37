"""The rules of the package: imports, writing of files, sizes, tests of modules, names in docs."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

import narl
from changed import PAGE_TESTS, related_tests
from narl.deep.algorithm_registry import ALGORITHMS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "narl"
PAGES = (
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "README.md",
    *ROOT.glob("notebooks/*.ipynb"),
)
PYTHON_BLOCK = re.compile(r"^```python\b[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)

PACKAGES = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
MAY_IMPORT = {
    "storage": set(),
    "stats": set(),
    "theory": set(),
    "tabular": {"storage", "stats", "theory"},
    "tasks": set(),
    "deep": {"storage"},
    "report": {"storage", "stats", "tabular", "deep"},
    "sweeps": {"storage", "tabular", "deep"},
    "experiments": {"storage", "stats", "tabular", "deep", "report"},
    "commands": PACKAGES,
}
"""The packages that each package may import."""
ENTRY_POINTS = {"__init__", "__main__", "cli", "gymnasium_registration"}
"""Modules beside the packages that import packages; the others serve all packages."""


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of every import, those inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_imported_by(path: Path) -> set[str]:
    """Return the packages and modules directly below `narl` that a file imports."""
    names = imported_names(ast.parse(path.read_text(encoding="utf-8")))
    return {name.split(".")[1] for name in names if name.startswith("narl.")}


def test_every_package_has_a_rule() -> None:
    assert set(MAY_IMPORT) == PACKAGES


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_package_imports_only_packages_below_it(package: str) -> None:
    allowed = MAY_IMPORT[package] | {package}
    for path in (SOURCE / package).rglob("*.py"):
        assert parts_imported_by(path) & PACKAGES <= allowed, path


def test_storage_imports_errors_and_display_only() -> None:
    for path in (SOURCE / "storage").rglob("*.py"):
        assert parts_imported_by(path) <= {"storage", "errors", "display", "__version__"}, path


WORDS_OF_RL = re.compile(
    r"\b(algo|algorithms?|agents?|seeds?|episodes?|rewards?|final_return|regret|polic(y|ies))\b"
)


def test_storage_contains_nothing_about_reinforcement_learning() -> None:
    named = []
    for path in (SOURCE / "storage").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and WORDS_OF_RL.search(node.value):
                named.append((path.name, node.value))
    # fields of a configuration that make the readable part of an id (`SLUG_FIELDS`)
    assert named == [("runs.py", "agent"), ("runs.py", "algo")]


def test_modules_that_serve_all_packages_import_storage_and_stats_at_most() -> None:
    modules = [path for path in SOURCE.glob("*.py") if path.stem not in ENTRY_POINTS]
    assert len(modules) > 5
    for path in modules:
        # storage imports errors and display
        allowed = set() if path.stem in ("errors", "display") else {"storage", "stats"}
        assert parts_imported_by(path) & PACKAGES <= allowed, path


# --- files are written by storage only --------------------------------------------------------

WRITING_CALLS = {
    *("write_text", "write_bytes", "touch", "truncate", "ftruncate", "tofile", "savefig"),
    *("mkdir", "makedirs", "mkdtemp", "mkstemp", "mkfifo", "symlink_to", "hardlink_to"),
    *("TemporaryDirectory", "TemporaryFile", "NamedTemporaryFile"),
    *("unlink", "rmdir", "rmtree", "removedirs", "os.remove", "rename", "renames", "os.replace"),
    *("chmod", "utime", "os.link", "os.symlink", "os.write", "os.pwrite"),
    *("shutil.move", "shutil.copy", "shutil.copy2", "copyfile", "copytree"),
    *("np.save", "numpy.save", "savez", "savez_compressed", "savetxt"),
}
"""Calls that write, move or delete files, beside `open` with a mode for writing and `replace`."""
WRITERS = {
    "cli.py": {"open"},  # the null device, in place of closed streams
    "compilation.py": {"mkdir"},  # the folder in which JAX keeps compiled programs
    "deep/device_programs.py": {"replace"},  # the state on the device, no file
    "deep/trainer.py": {"replace"},  # the same
    "deep/video.py": {"TemporaryFile"},  # the messages of the program that makes the video
    "report/figures.py": {"savefig"},  # into memory; storage writes the bytes
    "sweeps/trial.py": {"TemporaryDirectory"},  # runs that are tried out and thrown away
}
"""Modules outside `storage` that may write, and the calls; the comment says why."""


def is_writing_mode(node: ast.expr) -> bool:
    """Return whether an argument of `open` is a mode such as "w" or "ab"."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    return re.fullmatch(r"[rwxabt+]+", node.value) is not None and bool({*node.value} & {*"wxa+"})


def writing_calls(tree: ast.AST) -> set[str]:
    """Return the names of the calls that write, move or delete files."""
    calls = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        full_name = ast.unparse(node.func)
        name = full_name.rpartition(".")[2]
        if {name, full_name} & WRITING_CALLS:
            calls.add(name)
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if name in ("open", "fdopen") and any(map(is_writing_mode, arguments)):
            calls.add(name)
        # A path has one argument, the target; str.replace has two, dataclasses.replace has fields.
        is_method = isinstance(node.func, ast.Attribute)
        if is_method and name == "replace" and len(arguments) == 1:
            calls.add(name)
    return calls


def test_files_are_written_by_storage_only() -> None:
    writers = {}
    for path in SOURCE.rglob("*.py"):
        calls = writing_calls(ast.parse(path.read_text(encoding="utf-8")))
        if calls and path.parent.name != "storage":
            writers[str(path.relative_to(SOURCE))] = calls
    assert writers == WRITERS


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        ("path.write_text('x'); folder.file.write_bytes(b'')", {"write_text", "write_bytes"}),
        ("open(p, 'w'); os.fdopen(d, mode='r+')", {"open", "fdopen"}),
        ("path.open(mode='xb')", {"open"}),
        ("path.open('ab')", {"open"}),
        ("shutil.rmtree(p)", {"rmtree"}),
        ("np.savez(p); numpy.savez_compressed(p)", {"savez", "savez_compressed"}),
        ("os.replace(a, b); path.rename(b)", {"replace", "rename"}),
        ("path.replace(b); path.replace(target=b)", {"replace"}),
        ("path.unlink(); p.parent.mkdir(); p.touch()", {"unlink", "mkdir", "touch"}),
        ("os.remove(p); os.makedirs(p); os.rmdir(p)", {"remove", "makedirs", "rmdir"}),
        ("np.save(p, x); x.tofile(p); figure.savefig(p)", {"save", "tofile", "savefig"}),
        ("open(p); path.open('rb'); path.read_text(); 'a'.replace('w', 'x')", set()),
        ("dataclasses.replace(x, a=1); replace(x, a=1); x._replace(a=1)", set()),
        ("agent.save(p); items.remove(x); x.copy()", set()),
    ],
)
def test_writing_calls_are_recognised(code: str, calls: set[str]) -> None:
    assert writing_calls(ast.parse(code)) == calls


# --- files are read by storage only, and nothing that is read is executed ---------------------

READING_CALLS = {
    *("open", "fdopen", "read_text", "read_bytes", "memmap", "fromfile", "loadtxt", "genfromtxt"),
    *("np.load", "numpy.load", "json.load", "tomllib.load"),
}
READERS = {
    "cli.py": {"open"},  # the null device, in place of closed streams
    "compilation.py": {"read_text"},  # /proc/cpuinfo
    "host_memory.py": {"read_text"},  # /proc/meminfo and control groups
    "paper.py": {"read_text"},  # the page that it has generated
    "deep/env_code.py": {"read_bytes"},  # the source of a user's environment
    "deep/env_process.py": {"load"},  # a message of another process, in memory
    "report/page.py": {"read_text"},  # files of the package
    "sweeps/local_worker.py": {"load"},  # stdin
    "tabular/io.py": {"open_file"},  # the file of an MDP that the user has typed
}
"""Modules outside `storage` that may read files, and the calls; the comment says which files."""
EXECUTING_CALLS = {
    *("eval", "exec", "builtins.eval", "builtins.exec", "yaml.load", "os.system", "os.popen"),
}
EXECUTING_MODULES = {
    *("pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"),
}


def calls_of(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield every call with its full name, such as "path.open"."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def reading_calls(tree: ast.AST) -> set[str]:
    """Return the names of the calls that open or read files, `open_file` of storage included."""
    # A recipe opens an environment.
    full_names = {name for name, _ in calls_of(tree) if "recipe" not in name}
    names = {(name, name.rpartition(".")[2]) for name in full_names}
    return {last for full, last in names if {full, last} & {*READING_CALLS, "open_file"}}


def executing_calls(tree: ast.AST) -> set[str]:
    """Return what would execute text or data: eval, exec, pickle, a shell."""
    found = {name.partition(".")[0] for name in imported_names(tree)} & EXECUTING_MODULES
    for name, node in calls_of(tree):
        shell = any(k.arg == "shell" and ast.unparse(k.value) != "False" for k in node.keywords)
        pickles = any(
            k.arg == "allow_pickle" and ast.unparse(k.value) != "False" for k in node.keywords
        )
        if name in EXECUTING_CALLS or shell or pickles:
            found.add(name)
    return found


def test_files_are_read_by_storage_only() -> None:
    for path in SOURCE.rglob("*.py"):
        name = str(path.relative_to(SOURCE))
        if path.parent.name != "storage":
            calls = reading_calls(ast.parse(path.read_text(encoding="utf-8")))
            assert calls <= READERS.get(name, set()), name


def test_nothing_is_unpickled_or_executed() -> None:
    for path in SOURCE.rglob("*.py"):
        assert executing_calls(ast.parse(path.read_text(encoding="utf-8"))) == set(), path


@pytest.mark.parametrize(
    ("code", "reading", "executing"),
    [
        ("open(p); path.open('rb'); os.open(p, 0)", {"open"}, set()),
        ("p.read_text(); np.load(p)", {"read_text", "load"}, set()),
        ("storage.open_file(p)", {"open_file"}, set()),
        ("import pickle\nfrom dill import loads", set(), {"pickle", "dill"}),
        ("eval(x); exec(y); model.eval()", set(), {"eval", "exec"}),
        ("import builtins\nbuiltins.eval(x)", set(), {"builtins.eval"}),
        ("from yaml import load\nload(x)", set(), {"yaml"}),
        ("yaml.load(x); run(x, shell=True); run(x, shell=False)", set(), {"yaml.load", "run"}),
        ("read(x, allow_pickle=True); read(x, allow_pickle=False)", set(), {"read"}),
    ],
)
def test_reading_and_executing_calls_are_recognised(
    code: str, reading: set[str], executing: set[str]
) -> None:
    tree = ast.parse(code)
    assert (reading_calls(tree), executing_calls(tree)) == (reading, executing)


# --- sizes, and names of algorithms -----------------------------------------------------------


def test_source_files_have_at_most_400_lines_and_functions_60() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 400, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 60, (path, node.name)


def compared_texts(tree: ast.AST) -> set[str]:
    """Return the texts with which something is compared: by ==, by `in (…)` and the like."""
    compared: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            compared += [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            compared.append(node.value)
    for node in list(compared):
        compared += node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
    return {
        node.value
        for node in compared
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_names_of_algorithms_are_compared_in_their_registry_only() -> None:
    for path in (SOURCE / "deep").rglob("*.py"):
        texts = compared_texts(ast.parse(path.read_text(encoding="utf-8")))
        assert path.name == "algorithm_registry.py" or texts.isdisjoint(ALGORITHMS), path


@pytest.mark.parametrize(
    "code",
    [
        "algo == 'sac'",
        "'sac' != config.algo",
        "algo in ('mbpo', 'sac')",
        "algo not in {'sac'}",
        "match algo:\n    case 'mbpo' | 'sac': pass",
    ],
)
def test_comparisons_with_texts_are_recognised(code: str) -> None:
    assert "sac" in compared_texts(ast.parse(code))
    assert compared_texts(ast.parse("f('sac') == x['sac']; algo = 'sac'")) == set()


# --- every module has tests -------------------------------------------------------------------


def test_every_module_has_tests_for_the_commit_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    modules = [path.relative_to(ROOT) for path in SOURCE.rglob("*.py")]
    assert [path for path in modules if not related_tests(path)] == []


def test_commit_hook_prefers_the_tests_of_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["deep/test_sac.py", "deep/test_sac_faults.py", "deep/test_agent.py", "test_cli.py"]
    tests = [Path("tests", name) for name in [*names, "theory/test_formulas.py"]]
    for path in (*tests, Path("tests/deep/tiny.py")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert related_tests(Path("src/narl/deep/sac.py")) == tests[:2]
    assert related_tests(Path("src/narl/deep/finite.py")) == [tests[2], *tests[:2]]
    assert related_tests(Path("src/narl/theory/tails.py")) == [tests[4]]
    assert related_tests(Path("src/narl/errors.py")) == [tests[3]]
    assert related_tests(tests[0]) == [tests[0]]
    assert related_tests(Path("tests/deep/tiny.py")) == []


def test_commit_hook_tests_every_page() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    files = hooks.partition("- id: tests\n")[2].partition("files: ")[2].split()[0]
    for page in PAGES:
        assert re.search(files, page.relative_to(ROOT).as_posix()), page
        assert Path("tests/test_docs.py") in related_tests(page.relative_to(ROOT))
    assert all((ROOT / "tests" / name).is_file() for name in PAGE_TESTS)


# --- the page on the architecture -------------------------------------------------------------


@pytest.mark.parametrize("package", ["deep", "tabular"])
def test_architecture_page_lists_every_file_of_a_half(package: str) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition(f"| file in `src/narl/{package}` |")[2].partition("\n\n")[0]
    files = {path.name for path in (SOURCE / package).glob("*.py")} - {"__init__.py"}
    assert set(re.findall(r"`(\w+\.py)`", table)) == files


@pytest.mark.parametrize("command", ["train", "tabular"])
def test_walk_of_a_command_names_at_most_15_files_each_once(command: str) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walk = page.partition(f"## The walk of `narl {command}`")[2].partition("\n## ")[0]
    files = re.findall(r"`([\w/]+\.py)", walk)
    assert 5 < len(files) <= 15
    assert len({*files}) == len(files)
    assert all((SOURCE / file).is_file() for file in files)


# --- docs use public names --------------------------------------------------------------------


def python_blocks(page: Path) -> list[str]:
    """Return the Python code of a page or a notebook."""
    if page.suffix == ".ipynb":
        cells = nbformat.read(page, as_version=4).cells
        code = [cell.source for cell in cells if cell.cell_type == "code"]
        return [re.sub(r"^%.*$", "", source, flags=re.MULTILINE) for source in code]
    return PYTHON_BLOCK.findall(page.read_text(encoding="utf-8"))


def names_used(code: str) -> Iterator[str]:
    """Yield the names of narl that are imported, or used as narl.deep.NARL and the like."""
    tree = ast.parse(code)
    yield from (name for name in imported_names(tree) if name.partition(".")[0] == "narl")
    for node in ast.walk(tree):
        chain: list[str] = []
        while isinstance(node, ast.Attribute):
            chain.insert(0, node.attr)
            node = node.value
        if chain and isinstance(node, ast.Name) and node.id == "narl":
            yield ".".join(["narl", *chain])


def is_public(name: str) -> bool:
    """Return whether a name is narl, one of its public names, or a public name of those."""
    _, *parts = name.split(".")
    if not parts:
        return True
    if parts[0] not in narl.__all__:
        return False
    return len(parts) == 1 or parts[1] in getattr(narl, parts[0]).__all__


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_docs_use_public_names_only(page: Path) -> None:
    names = {name for code in python_blocks(page) for name in names_used(code)}
    assert {name for name in names if not is_public(name)} == set()


def test_private_names_are_recognised() -> None:
    code = "import narl\nfrom narl.deep.sac import update\nnarl.tabular.run(narl.tabular.mdp.x)"
    private = {name for name in names_used(code) if not is_public(name)}
    assert private == {"narl.deep.sac.update", "narl.tabular.mdp.x", "narl.tabular.mdp"}
