"""Pictures of an environment without a screen, and videos made of them."""

import contextlib
import ctypes
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from narl.errors import InputError

_LIBRARIES = {
    "egl": ("libEGL.so.1", "libEGL.so"),
    "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"),
}
"""Each way in which MuJoCo draws without a screen, and the library it needs."""

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

_PATIENCE = 60.0
"""Seconds that drawing one picture may take."""


def choose_backend() -> str:
    """The value of MUJOCO_GL in force: the user's; without a screen, the first that can be loaded.

    MuJoCo's own choice without a screen fails with an obscure error.
    """
    if chosen := os.environ.get("MUJOCO_GL"):
        return chosen
    if not _headless():
        return "glfw"
    backend = next(iter(_loadable()), None)
    if backend is None:
        raise InputError(_MISSING)
    os.environ["MUJOCO_GL"] = backend
    return backend


def prepare_rendering() -> None:
    """Makes drawing without a screen possible where it can be; call it before MuJoCo is loaded.

    Says nothing if MuJoCo cannot draw: the environment may draw in some other way.
    """
    if _headless():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame: Pendulum, Box2D
        with contextlib.suppress(InputError):
            choose_backend()


def check_rendering() -> str:
    """Draws one picture in a process of its own; returns the backend that did it.

    A library that can be loaded may still lack its driver, so the next one is tried, unless
    the user set MUJOCO_GL. The one that works is chosen for this process too.
    """
    given = os.environ.get("MUJOCO_GL")
    screen = [] if _headless() else ["glfw"]
    candidates = [given] if given else screen + _loadable()
    if not candidates:
        raise InputError(_MISSING)
    problems = {}
    for backend in candidates:
        problem = _draw_one(backend)
        if problem is None:
            os.environ["MUJOCO_GL"] = backend
            return backend
        problems[backend] = problem
    said = "; ".join(f"{backend}: {problem}" for backend, problem in problems.items())
    advice = "unset MUJOCO_GL" if given else "install libegl1 and libegl-mesa0, or libosmesa6"
    raise InputError(f"rendering: MuJoCo cannot draw ({said}); {advice}")


def _draw_one(backend: str) -> str | None:
    """What went wrong with one picture, in one line; None if it was drawn."""
    environment = os.environ | {"MUJOCO_GL": backend}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _DRAW_ONE],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no picture within {_PATIENCE:g} s"
    lines = done.stdout.split()
    if done.returncode == 0 and lines[:1] == ["contrast"]:
        return None if int(lines[1]) > 0 else "the picture is empty"
    said = done.stderr.strip().splitlines()
    return said[-1].strip() if said else f"exit status {done.returncode}"


def _headless() -> bool:
    """On Linux, no display server; elsewhere MuJoCo does not need one."""
    return sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def _loadable() -> list[str]:
    """The backends whose library is there, the preferred one first."""
    return [backend for backend, names in _LIBRARIES.items() if any(map(_can_load, names))]


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def write_video(frames: Iterable[np.ndarray], path: Path, fps: float) -> None:
    """Writes pictures [height, width, 3] of uint8 as .mp4 or .gif; all or nothing.

    The file appears under its name when it is complete.
    """
    check_video(path)
    if not fps > 0 or not np.isfinite(fps):
        raise InputError(f"fps: {fps} is wrong; it must be a number > 0, such as 30")
    pictures = iter(frames)
    first = next(pictures, None)
    if first is None:
        raise InputError(f"video: no pictures for {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        _encode(first, pictures, unfinished, fps)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def check_video(path: Path) -> None:
    """Refuses, before an episode is run for it, a video that could not be written."""
    if path.suffix not in (".mp4", ".gif"):
        raise InputError(f"video: {path} must end in .mp4 or .gif")
    _find_ffmpeg()


def _find_ffmpeg() -> str:
    try:
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except ImportError as error:
        raise InputError(
            "video: imageio-ffmpeg is not installed; pip install 'narl[video]'"
        ) from error
    except RuntimeError as error:
        raise InputError(
            "video: imageio-ffmpeg finds no ffmpeg; install the package ffmpeg"
        ) from error


def _encode(first: np.ndarray, others: Iterable[np.ndarray], path: Path, fps: float) -> None:
    """Pipes the pictures through ffmpeg.

    Not with imageio-ffmpeg's own writer: it runs Python between fork and exec, which may hang
    in a process where JAX has threads.
    """
    height, width = _even(first, first.shape).shape[:2]
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:g}"]
    if path.suffix == ".mp4":
        coding = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20"]
    else:  # a palette of its own, without which a GIF looks poor
        coding = ["-filter_complex", "split[a][b];[a]palettegen[p];[b][p]paletteuse"]
    command = [_find_ffmpeg(), "-v", "error", "-y", *source, "-i", "-", *coding, str(path)]
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said) as ffmpeg:
            assert ffmpeg.stdin is not None
            try:
                for picture in itertools.chain([first], others):
                    ffmpeg.stdin.write(_even(picture, first.shape).tobytes())
            except BrokenPipeError:
                pass  # it stopped reading; its exit status and what it said tell more
            except BaseException:
                ffmpeg.kill()
                raise
            with contextlib.suppress(BrokenPipeError):
                ffmpeg.stdin.close()
        if ffmpeg.returncode != 0:
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else f"exit status {ffmpeg.returncode}"
            raise InputError(f"video: ffmpeg could not write {path.name}: {reason}")


def _even(picture: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The picture, with its last row and column repeated where H.264 wants even sizes."""
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise InputError(
            f"video: a picture has shape {picture.shape} and dtype {picture.dtype}; "
            "it must be [height, width, 3] of uint8"
        )
    if picture.shape != shape:
        raise InputError(f"video: pictures differ in shape, {picture.shape} after {shape}")
    return np.pad(picture, [(0, shape[0] % 2), (0, shape[1] % 2), (0, 0)], mode="edge")
