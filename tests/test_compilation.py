"""The cache of compiled programs on disk, and the time that is spent waiting for programs."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

from narl import compilation

SOURCE = Path(__file__).resolve().parents[1] / "src"
COMPILE = """
import jax, jax.numpy as jnp
from narl.compilation import enable_cache
print(enable_cache())
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
print(jax.jit(lambda x: jnp.sin(x) + 1)(0.0))
"""


def compile_program(home: Path, **variables: str) -> list[str]:
    """Compile in another process; return the folder of the cache and the program's result."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "XDG_CACHE_HOME": str(home)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", COMPILE],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_programs_are_kept_and_a_damaged_one_is_compiled_again(tmp_path):
    folder, value = compile_program(tmp_path)
    assert Path(folder).parent == tmp_path / "narl" / "jax"
    assert value == "1.0"
    entries = list(Path(folder).glob("*-cache"))
    assert entries
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:20])
    assert compile_program(tmp_path) == [folder, "1.0"]


def test_cache_of_the_user_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert compilation.enable_cache() == tmp_path / "own"
    assert list(tmp_path.iterdir()) == []


def test_cache_is_off_where_it_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compilation.enable_cache() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert compilation.enable_cache() is None


def test_each_kind_of_processor_has_its_own_cache(monkeypatch):
    here = compilation.cache_folder()
    monkeypatch.setattr(Path, "read_text", lambda path, **kwargs: "flags : sse2 avx512\n")
    assert compilation.cache_folder() != here
    assert compilation.cache_folder().parent == here.parent


def test_time_of_several_waiting_threads_is_counted_once():
    before = compilation.seconds_waited()
    program: Future[None] = Future()
    compiler = compilation.BackgroundCompiler()
    threads = [threading.Thread(target=compiler.wait_for, args=(program,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    program.set_result(None)
    for thread in threads:
        thread.join()
    compiler.wait_for(program)  # it is ready: nobody waits
    assert 0.1 < compilation.seconds_waited() - before < 0.5
    compiler.close()
