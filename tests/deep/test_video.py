"""Videos: encoded pictures, complete files, errors."""

import builtins
import importlib.util
import subprocess

import jax.numpy as jnp
import numpy as np
import pytest

from narl.deep.video import write_video
from narl.errors import InputError

HAS_FFMPEG = importlib.util.find_spec("imageio_ffmpeg") is not None
needs_ffmpeg = pytest.mark.skipif(not HAS_FFMPEG, reason="imageio-ffmpeg is not installed")


def pictures(num, height=48, width=64):
    """Yield a white bar that moves to the right over red."""
    for index in range(num):
        picture = np.zeros((height, width, 3), np.uint8)
        picture[..., 0] = 200
        picture[:, 4 * index : 4 * index + 8] = 255
        yield picture


def run_ffmpeg(*arguments):
    import imageio_ffmpeg

    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-hide_banner", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False)


def read_video(path, height=48, width=64):
    """Return all pictures of a video, which must have this size."""
    raw = run_ffmpeg("-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-")
    return np.frombuffer(raw.stdout, np.uint8).reshape(-1, height, width, 3)


@needs_ffmpeg
@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_video_shows_pictures(tmp_path, suffix):
    assert int(jnp.arange(3).sum()) == 3  # from now on JAX warns of every fork
    path = tmp_path / "new" / f"a{suffix}"
    write_video(pictures(6), path, fps=10)
    frames = read_video(path)
    assert b"10 fps" in run_ffmpeg("-i", path).stderr
    assert len(frames) == 6
    for frame, picture in zip(frames, pictures(6), strict=True):
        assert np.abs(frame.astype(int) - picture).mean() < 12
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@needs_ffmpeg
def test_odd_sizes_are_padded(tmp_path):
    path = tmp_path / "a.mp4"
    write_video(pictures(3, 47, 63), path, fps=30)
    frames = read_video(path)
    assert len(frames) == 3
    assert np.abs(frames[0][:47, :63].astype(int) - next(pictures(1, 47, 63))).mean() < 12


@needs_ffmpeg
def test_old_video_stays_after_error(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"old")

    def broken():
        yield from pictures(2)
        raise RuntimeError("the environment fell over")

    with pytest.raises(RuntimeError, match=r"fell over"):
        write_video(broken(), path, fps=30)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@needs_ffmpeg
def test_error_of_ffmpeg_is_named(tmp_path, monkeypatch):
    script = tmp_path / "ffmpeg"
    script.write_text("#!/bin/sh\necho first >&2\necho No space left on device >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(script))
    with pytest.raises(InputError, match=r"^video: ffmpeg failed: No space left on device$"):
        write_video(pictures(40, 480, 480), tmp_path / "a.mp4", fps=30)
    assert list(tmp_path.iterdir()) == [script]


BAD_PICTURES = {
    "video: no pictures for": [],
    "video: a picture has shape .* and dtype float64; it must be": [np.zeros((4, 4, 3))],
    r"video: a picture has shape \(4, 4\) and": [np.zeros((4, 4), np.uint8)],
    r"video: pictures differ in shape, \(4, 6, 3\) after \(4, 4, 3\)": [
        np.zeros((4, 4, 3), np.uint8),
        np.zeros((4, 6, 3), np.uint8),
    ],
}


@needs_ffmpeg
@pytest.mark.parametrize("line", BAD_PICTURES)
def test_unusable_pictures_are_refused(tmp_path, line):
    with pytest.raises(InputError, match=f"^{line}"):
        write_video(BAD_PICTURES[line], tmp_path / "a.mp4", fps=30)
    assert list(tmp_path.iterdir()) == []


@needs_ffmpeg
@pytest.mark.parametrize(
    ("name", "fps", "line"),
    [
        ("a.avi", 30, r"video: .*a\.avi must end in \.mp4 or \.gif$"),
        ("a.mp4", 0, "fps: 0 is wrong; it must be a number > 0"),
        ("a.mp4", float("nan"), "fps: nan is wrong"),
        ("a.mp4", float("inf"), "fps: inf is wrong"),
    ],
)
def test_wrong_name_or_rate_is_refused(tmp_path, name, fps, line):
    with pytest.raises(InputError, match=f"^{line}"):
        write_video(pictures(1), tmp_path / name, fps=fps)


def test_missing_package_is_named(tmp_path, monkeypatch):
    real_import = builtins.__import__

    def without_ffmpeg(name, *args, **kwargs):
        if name == "imageio_ffmpeg":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_ffmpeg)
    with pytest.raises(
        InputError, match=r'^video: .* pip install .* "\.\[video\]" in the folder of the clone$'
    ):
        write_video(pictures(1), tmp_path / "a.mp4", fps=30)
