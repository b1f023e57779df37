"""The OpenGL backend with which MuJoCo draws without a screen."""

import os
import subprocess
import sys

import numpy as np
import pytest

from narl.deep import rendering_backend
from narl.deep.environment import open_env
from narl.errors import InputError


@pytest.fixture
def headless(monkeypatch):
    """A process without a screen, in which no backend is chosen yet."""
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.setenv(name, "")  # so that changes are undone afterwards
        monkeypatch.delenv(name)
    return monkeypatch


@pytest.mark.parametrize(
    ("libraries", "backend"),
    [(("libEGL", "libOSMesa"), "egl"), (("libEGL",), "egl"), (("libOSMesa",), "osmesa")],
)
def test_first_library_that_loads_is_chosen(headless, libraries, backend):
    headless.setattr(rendering_backend, "_can_load", lambda library: library.startswith(libraries))
    assert rendering_backend.choose_backend() == backend
    assert os.environ["MUJOCO_GL"] == backend


def test_missing_libraries_are_named(headless):
    headless.setattr(rendering_backend, "_can_load", lambda library: False)
    for check in (rendering_backend.choose_backend, rendering_backend.check_rendering):
        with pytest.raises(InputError, match=r"install the package libegl1 .* or libosmesa6$"):
            check()
    rendering_backend.prepare_rendering()  # an environment may draw in some other way
    assert "MUJOCO_GL" not in os.environ
    assert os.environ["SDL_VIDEODRIVER"] == "dummy"


def test_users_choice_and_screen_are_preferred(headless):
    headless.setenv("DISPLAY", ":0")
    assert rendering_backend.choose_backend() == "glfw"
    assert "MUJOCO_GL" not in os.environ
    headless.setenv("MUJOCO_GL", "osmesa")
    assert rendering_backend.choose_backend() == "osmesa"


def test_next_backend_is_tried_when_one_cannot_draw(headless):
    problems = {"egl": "no driver", "osmesa": None}
    headless.setattr(rendering_backend, "_can_load", lambda library: True)
    headless.setattr(rendering_backend, "_draw_one", problems.get)
    assert rendering_backend.check_rendering() == "osmesa"
    assert os.environ["MUJOCO_GL"] == "osmesa"
    headless.setenv("MUJOCO_GL", "egl")
    with pytest.raises(InputError, match=r"\(egl: no driver\); unset MUJOCO_GL$"):
        rendering_backend.check_rendering()


def test_problems_of_all_backends_are_named(headless):
    headless.setattr(rendering_backend, "_can_load", lambda library: True)
    headless.setattr(rendering_backend, "_draw_one", lambda backend: "no driver")
    with pytest.raises(InputError) as refused:
        rendering_backend.check_rendering()
    assert str(refused.value) == (
        "rendering: MuJoCo cannot draw (egl: no driver; osmesa: no driver); "
        "install libegl1 and libegl-mesa0, or libosmesa6"
    )


def test_unknown_backend_cannot_draw(headless):
    problem = rendering_backend._draw_one("crayons")
    assert "crayons" in problem
    assert "\n" not in problem


def test_process_that_hangs_is_given_up(headless):
    def hang(*args, **kwargs):
        raise subprocess.TimeoutExpired("python", kwargs["timeout"])

    headless.setattr(subprocess, "run", hang)
    assert rendering_backend._draw_one("egl") == "no picture within 60 s"


def test_mujoco_draws_on_this_machine(headless):
    try:
        backend = rendering_backend.check_rendering()
    except InputError as error:
        pytest.skip(str(error))
    assert backend in ("egl", "osmesa")
    host = open_env("InvertedPendulum-v5", 0, {"width": 64, "height": 48}, "rgb_array")
    host.reset()
    picture = host.render()
    host.close()
    assert picture.shape == (48, 64, 3)
    assert picture.dtype == np.uint8
    assert picture.max() > picture.min()
