"""Pictures without a screen, and videos."""

import builtins
import importlib.util
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from narl.deep import rendering
from narl.deep.environment import open_env
from narl.errors import InputError

HAS_FFMPEG = importlib.util.find_spec("imageio_ffmpeg") is not None
needs_ffmpeg = pytest.mark.skipif(not HAS_FFMPEG, reason="imageio-ffmpeg is not installed")


@pytest.fixture
def headless(monkeypatch):
    """No screen, and nothing chosen yet."""
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.setenv(name, "")  # so that what narl sets is undone afterwards
        monkeypatch.delenv(name)
    return monkeypatch


def loads(*prefixes):
    """Stands for ctypes on a machine with these libraries."""
    return lambda library: library.startswith(prefixes) if prefixes else False


@pytest.mark.parametrize(
    ("libraries", "backend"),
    [(("libEGL", "libOSMesa"), "egl"), (("libEGL",), "egl"), (("libOSMesa",), "osmesa")],
)
def test_the_first_library_that_loads_is_chosen(headless, libraries, backend):
    headless.setattr(rendering, "_can_load", loads(*libraries))
    assert rendering.choose_backend() == backend
    assert rendering.os.environ["MUJOCO_GL"] == backend


def test_without_a_library_the_packages_are_named(headless):
    headless.setattr(rendering, "_can_load", loads())
    for check in (rendering.choose_backend, rendering.check_rendering):
        with pytest.raises(InputError, match=r"install the package libegl1 .* or libosmesa6$"):
            check()
    rendering.prepare_rendering()  # an environment may draw in some other way
    assert "MUJOCO_GL" not in rendering.os.environ
    assert rendering.os.environ["SDL_VIDEODRIVER"] == "dummy"


def test_the_users_choice_and_a_screen_come_first(headless):
    headless.setenv("DISPLAY", ":0")
    assert rendering.choose_backend() == "glfw"
    assert "MUJOCO_GL" not in rendering.os.environ
    headless.setenv("MUJOCO_GL", "osmesa")
    assert rendering.choose_backend() == "osmesa"


def test_the_next_backend_is_tried_when_one_cannot_draw(headless):
    headless.setattr(rendering, "_can_load", loads("lib"))
    headless.setattr(
        rendering, "_draw_one", lambda backend: "no driver" if backend == "egl" else None
    )
    assert rendering.check_rendering() == "osmesa"
    assert rendering.os.environ["MUJOCO_GL"] == "osmesa"


def test_when_nothing_draws_the_line_says_why(headless):
    headless.setattr(rendering, "_can_load", loads("lib"))
    headless.setattr(rendering, "_draw_one", lambda backend: "no driver")
    with pytest.raises(InputError) as refused:
        rendering.check_rendering()
    assert str(refused.value) == (
        "rendering: MuJoCo cannot draw (egl: no driver; osmesa: no driver); "
        "install libegl1 and libegl-mesa0, or libosmesa6"
    )
    headless.setenv("MUJOCO_GL", "osmesa")
    with pytest.raises(InputError, match=r"\(osmesa: no driver\); unset MUJOCO_GL$"):
        rendering.check_rendering()


def test_a_backend_that_does_not_exist_cannot_draw(headless):
    problem = rendering._draw_one("crayons")
    assert "crayons" in problem
    assert "\n" not in problem


def test_a_process_that_hangs_is_given_up(headless):
    def hang(*args, **kwargs):
        raise subprocess.TimeoutExpired("python", kwargs["timeout"])

    headless.setattr(subprocess, "run", hang)
    assert rendering._draw_one("egl") == "no picture within 60 s"


def test_mujoco_draws_here(headless):
    try:
        backend = rendering.check_rendering()
    except InputError as error:
        pytest.skip(str(error))
    assert backend in ("egl", "osmesa")
    host = open_env("InvertedPendulum-v5", 0, {"width": 64, "height": 48}, "rgb_array")
    host.reset()
    frame = host.render()
    host.close()
    assert frame.shape == (48, 64, 3)
    assert frame.dtype == np.uint8
    assert frame.max() > frame.min()


def pictures(num, height=48, width=64):
    """A white bar that moves to the right over red."""
    for index in range(num):
        picture = np.zeros((height, width, 3), np.uint8)
        picture[..., 0] = 200
        picture[:, 4 * index : 4 * index + 8] = 255
        yield picture


def read_video(path, height=48, width=64):
    """All pictures of the video, which must have this size."""
    import imageio_ffmpeg

    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(path)]
    raw = subprocess.run(
        [*command, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], capture_output=True, check=True
    )
    return np.frombuffer(raw.stdout, np.uint8).reshape(-1, height, width, 3)


def describe(path):
    """What ffmpeg prints about the file."""
    import imageio_ffmpeg

    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-hide_banner", "-i", str(path)]
    return subprocess.run(command, capture_output=True, check=False).stderr


@needs_ffmpeg
@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_a_video_shows_the_pictures(tmp_path, suffix):
    path = tmp_path / "new" / f"a{suffix}"
    rendering.write_video(pictures(6), path, fps=10)
    frames = read_video(path)
    assert b"10 fps" in describe(path)
    assert len(frames) == 6
    for shown, meant in zip(frames, pictures(6), strict=True):
        assert np.abs(shown.astype(int) - meant).mean() < 12
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@needs_ffmpeg
def test_odd_sizes_are_padded(tmp_path):
    path = tmp_path / "a.mp4"
    rendering.write_video(pictures(3, 47, 63), path, fps=30)
    frames = read_video(path)
    assert len(frames) == 3
    assert np.abs(frames[0][:47, :63].astype(int) - next(pictures(1, 47, 63))).mean() < 12


@needs_ffmpeg
def test_an_old_video_stays_when_the_new_one_fails(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"old")

    def broken():
        yield from pictures(2)
        raise RuntimeError("the environment fell over")

    with pytest.raises(RuntimeError, match=r"fell over"):
        rendering.write_video(broken(), path, fps=30)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@needs_ffmpeg
def test_a_video_beside_threads_of_jax(tmp_path):
    assert int(jnp.arange(3).sum()) == 3  # from now on JAX warns of every fork
    rendering.write_video(pictures(2), tmp_path / "a.mp4", fps=30)
    assert len(read_video(tmp_path / "a.mp4")) == 2


@needs_ffmpeg
def test_what_ffmpeg_says_when_it_fails(tmp_path, monkeypatch):
    script = tmp_path / "ffmpeg"
    script.write_text("#!/bin/sh\necho first >&2\necho No space left on device >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(script))
    with pytest.raises(InputError, match=r"could not write .*\.mp4: No space left on device$"):
        rendering.write_video(pictures(40, 480, 480), tmp_path / "a.mp4", fps=30)
    assert list(tmp_path.iterdir()) == [script]


BAD = {
    "video: no pictures for": [],
    "video: a picture has shape .* and dtype float64; it must be": [np.zeros((4, 4, 3))],
    r"video: a picture has shape \(4, 4\) and": [np.zeros((4, 4), np.uint8)],
    r"video: pictures differ in shape, \(4, 6, 3\) after \(4, 4, 3\)": [
        np.zeros((4, 4, 3), np.uint8),
        np.zeros((4, 6, 3), np.uint8),
    ],
}


@needs_ffmpeg
@pytest.mark.parametrize("line", BAD)
def test_pictures_that_cannot_be_written(tmp_path, line):
    with pytest.raises(InputError, match=f"^{line}"):
        rendering.write_video(BAD[line], tmp_path / "a.mp4", fps=30)
    assert list(tmp_path.iterdir()) == []


@needs_ffmpeg
def test_names_and_rates_that_are_wrong(tmp_path):
    with pytest.raises(InputError, match=r"^video: .*a\.avi must end in \.mp4 or \.gif$"):
        rendering.write_video(pictures(1), tmp_path / "a.avi", fps=30)
    for fps in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"^fps: .* it must be a number > 0"):
            rendering.write_video(pictures(1), tmp_path / "a.mp4", fps=fps)


def test_without_the_extra_the_line_says_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "imageio_ffmpeg":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"^video: .* pip install 'narl\[video\]'$"):
        rendering.write_video(pictures(1), tmp_path / "a.mp4", fps=30)
