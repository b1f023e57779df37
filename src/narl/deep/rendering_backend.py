"""Choice and check of the OpenGL backend with which MuJoCo draws without a screen."""

import contextlib
import ctypes
import os
import subprocess
import sys

from narl.errors import InputError

_LIBRARIES = {
    "egl": ("libEGL.so.1", "libEGL.so"),
    "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"),
}
"""Backends with which MuJoCo draws without a screen, and the library that each one needs."""

_MISSING = (
    "rendering: no screen, and neither libEGL nor libOSMesa can be loaded; "
    "install the package libegl1 (with libegl-mesa0) or libosmesa6"
)

_DRAW_ONE = """
import gymnasium
env = gymnasium.make("InvertedPendulum-v5", render_mode="rgb_array", width=64, height=64)
env.reset(seed=0)
print("contrast", int(env.render().max()) - int(env.render().min()))
env.close()
"""

_TIMEOUT = 60.0
"""Seconds that drawing one picture may take."""


def choose_backend() -> str:
    """Return the backend in force: the user's MUJOCO_GL, or the first that can be loaded.

    With a screen the backend is glfw. MuJoCo's own choice without a screen fails with an obscure
    error.
    """
    if user_choice := os.environ.get("MUJOCO_GL"):
        return user_choice
    if not is_headless():
        return "glfw"
    backend = next(iter(_loadable()), None)
    if backend is None:
        raise InputError(_MISSING)
    os.environ["MUJOCO_GL"] = backend
    return backend


def prepare_rendering() -> None:
    """Set up drawing without a screen where possible; call it before MuJoCo is loaded.

    There is no error where MuJoCo cannot draw: the environment may draw in some other way.
    """
    if is_headless():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame: Pendulum, Box2D
        with contextlib.suppress(InputError):
            choose_backend()


def check_rendering() -> str:
    """Draw one picture in another process; return the backend that worked.

    A library that can be loaded may still lack its driver; then the next backend is tried, unless
    the user set MUJOCO_GL. The backend that works is chosen for this process too.
    """
    user_choice = os.environ.get("MUJOCO_GL")
    with_screen = [] if is_headless() else ["glfw"]
    candidates = [user_choice] if user_choice else with_screen + _loadable()
    if not candidates:
        raise InputError(_MISSING)
    problems = {}
    for backend in candidates:
        problem = _draw_one(backend)
        if problem is None:
            os.environ["MUJOCO_GL"] = backend
            return backend
        problems[backend] = problem
    reasons = "; ".join(f"{backend}: {problem}" for backend, problem in problems.items())
    advice = "unset MUJOCO_GL" if user_choice else "install libegl1 and libegl-mesa0, or libosmesa6"
    raise InputError(f"rendering: MuJoCo cannot draw ({reasons}); {advice}")


def _draw_one(backend: str) -> str | None:
    """Draw one picture; return the problem in one line, or None where there is none."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _DRAW_ONE],
            env=os.environ | {"MUJOCO_GL": backend},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no picture within {_TIMEOUT:g} s"
    words = done.stdout.split()
    if done.returncode == 0 and words[:1] == ["contrast"]:
        return None if int(words[1]) > 0 else "the picture is empty"
    messages = done.stderr.strip().splitlines()
    return messages[-1].strip() if messages else f"exit status {done.returncode}"


def is_headless() -> bool:
    """Return whether there is no screen: Linux without a display server."""
    return sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def _loadable() -> list[str]:
    """Return the backends whose library can be loaded, the preferred one first."""
    return [backend for backend, names in _LIBRARIES.items() if any(map(_can_load, names))]


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
