"""Videos of episodes, and their encoding as .mp4 or .gif."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from narl.deep.environment import HostEnv
from narl.deep.networks import Network
from narl.deep.policy import act_in_numpy
from narl.errors import InputError, install_hint
from narl.storage.files import partial_file

DEFAULT_FPS = 30.0


def record_episode(actor: Network, env: HostEnv, seed: int, horizon: int, path: Path) -> None:
    """Write a video of one deterministic episode, at the environment's own speed."""
    fps = float(env.env.metadata.get("render_fps") or DEFAULT_FPS)
    write_video(_draw_episode(actor, env, seed, horizon), path, fps)


def _draw_episode(actor: Network, env: HostEnv, seed: int, horizon: int) -> Iterator[np.ndarray]:
    """Yield a picture of every state, from the first observation of an episode to the last."""
    obs, length, over = env.reset(seed=seed), 0, False
    yield env.render()
    while not over and length < horizon:
        step = env.step(act_in_numpy(actor, obs, discrete=env.spaces.discrete))
        obs, length, over = step.obs, length + 1, step.terminated or step.truncated
        yield env.render()


def write_video(frames: Iterable[np.ndarray], path: Path, fps: float) -> None:
    """Write pictures [height, width, 3] of uint8 as .mp4 or .gif.

    The file appears under its name when it is complete, and not at all after an error.
    """
    check_video(path)
    if not fps > 0 or not np.isfinite(fps):
        raise InputError(f"fps: {fps} is wrong; it must be a number > 0, such as 30")
    pictures = iter(frames)
    first = next(pictures, None)
    if first is None:
        raise InputError(f"video: no pictures for {path}")
    with partial_file(path) as unfinished:
        _encode(first, pictures, unfinished, fps)


def check_video(path: Path) -> None:
    """Refuse a path to which no video could be written, before an episode is run for it."""
    check_video_name(path)
    _find_ffmpeg()


def check_video_name(path: Path) -> None:
    """Refuse a file whose name does not say in which format it is written."""
    if path.suffix not in (".mp4", ".gif"):
        raise InputError(f"video: {path} must end in .mp4 or .gif")


def _find_ffmpeg() -> str:
    try:
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except ImportError as error:
        raise InputError(
            f"video: imageio-ffmpeg is not installed; {install_hint('video')}"
        ) from error
    except RuntimeError as error:
        raise InputError(
            "video: imageio-ffmpeg finds no ffmpeg; install the package ffmpeg"
        ) from error


def _encode(first: np.ndarray, others: Iterable[np.ndarray], path: Path, fps: float) -> None:
    """Pipe the pictures through ffmpeg.

    imageio-ffmpeg's own writer is not used: it runs Python between fork and exec, which may hang
    in a process where JAX has threads.
    """
    height, width = _pad_to_even(first, first.shape).shape[:2]
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:g}"]
    if path.suffix == ".mp4":
        coding = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20"]
    else:  # without a palette of its own a GIF looks poor
        coding = ["-filter_complex", "split[a][b];[a]palettegen[p];[b][p]paletteuse"]
    command = [_find_ffmpeg(), "-v", "error", "-y", *source, "-i", "-", *coding, str(path)]
    with tempfile.TemporaryFile() as messages:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=messages) as ffmpeg:
            assert ffmpeg.stdin is not None
            try:
                for picture in itertools.chain([first], others):
                    ffmpeg.stdin.write(_pad_to_even(picture, first.shape).tobytes())
            except BrokenPipeError:
                pass  # ffmpeg stopped reading; its exit status and messages tell why
            except BaseException:
                ffmpeg.kill()
                raise
            finally:
                with contextlib.suppress(BrokenPipeError):
                    ffmpeg.stdin.close()
        if ffmpeg.returncode != 0:
            messages.seek(0)
            lines = messages.read().decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else f"exit status {ffmpeg.returncode}"
            raise InputError(f"video: ffmpeg failed: {reason}")


def _pad_to_even(picture: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a picture with even sizes, which H.264 needs: the last row or column is repeated."""
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise InputError(
            f"video: a picture has shape {picture.shape} and dtype {picture.dtype}; "
            "it must be [height, width, 3] of uint8"
        )
    if picture.shape != shape:
        raise InputError(f"video: pictures differ in shape, {picture.shape} after {shape}")
    return np.pad(picture, [(0, shape[0] % 2), (0, shape[1] % 2), (0, 0)], mode="edge")
