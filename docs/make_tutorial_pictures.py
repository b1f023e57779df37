"""Make the pictures of the tutorials and of the tasks in docs/pictures (PNG).

usage: python docs/make_tutorial_pictures.py regret         the regret curve of tutorial.md
       python docs/make_tutorial_pictures.py pair report    the two trainings of tutorial-deep.md
       python docs/make_tutorial_pictures.py tasks          one frame of every task of tasks.md

The trainings take a quarter of an hour on two cores and are kept in build/pair. The picture of the
report needs playwright and Chromium, that of the tasks MuJoCo's rendering (without a display
MUJOCO_GL=egl or osmesa).
"""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gymnasium
import numpy as np
from PIL import Image, ImageDraw, ImageFont

DOCS = Path(__file__).resolve().parent
FOLDER, PAIR = DOCS / "pictures", DOCS.parent / "build" / "pair"
TASKS = {
    "SparsePendulum": "sparse pendulum",
    "SparseCartPole": "sparse cart-pole",
    "SparseReacher": "sparse reacher",
    "SparseArmReacher": "sparse arm reacher",
    "Pusher": "pusher",
    "HalfCheetah": "HalfCheetah",
}
TILE, CAPTION, COLUMNS = 240, 26, 3


def code_of(page: str, part: str) -> str:
    """Return the block of a page in which a text stands."""
    blocks = re.findall(r"^```\w+[^\n]*\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.M | re.S)
    (block,) = [block for block in blocks if part in block]
    return block


def draw_regret() -> Image.Image:
    """Run the block of the tutorial that saves the curve."""
    import matplotlib

    matplotlib.use("agg")
    exec(code_of("tutorial.md", 'savefig("regret.png")'), {})
    return Image.open("regret.png")


def train_pair() -> Path:
    """Run the commands of the tutorial that train NARL and MBPO; return the page that they make.

    A training that is there already is found and not repeated.
    """
    PAIR.mkdir(parents=True, exist_ok=True)
    for line in code_of("tutorial-deep.md", "--out comparison.html").splitlines():
        subprocess.run([sys.executable, "-m", *line.split()], cwd=PAIR, check=True)
    return PAIR / "comparison.html"


def draw_pair() -> Image.Image:
    """Draw the returns of both trainings as `narl.plot` does."""
    import matplotlib

    matplotlib.use("agg")
    import narl

    train_pair()
    axes = narl.plot("train-narl", "train-mbpo", root=PAIR / "pair", labels=["NARL", "MBPO"])
    file = io.BytesIO()
    axes.figure.savefig(file, format="png", dpi=120)
    return Image.open(file)


def draw_report() -> Image.Image:
    """Take a picture of the top of the report on both trainings."""
    from playwright.sync_api import sync_playwright

    programs = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    with sync_playwright() as driver:
        program = next(filter(None, programs), None)
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 980})
        page.goto(train_pair().as_uri())
        page.wait_for_selector("html[data-ready=drawn]", state="attached")
        picture = page.screenshot()
        browser.close()
    return Image.open(io.BytesIO(picture))


def draw_tasks() -> Image.Image:
    """Render one frame of every task, after some random steps."""
    import narl  # noqa: F401, which registers the tasks

    rows = -(-len(TASKS) // COLUMNS)
    picture = Image.new("RGB", (COLUMNS * TILE, rows * (TILE + CAPTION)), "white")
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(size=15)
    for place, (name, caption) in enumerate(TASKS.items()):
        env = gymnasium.make(f"narl/{name}-v0", render_mode="rgb_array")
        env.reset(seed=0)
        env.action_space.seed(0)
        for _ in range(20):
            env.step(env.action_space.sample())
        frame = np.asarray(env.render())
        env.close()
        row, column = divmod(place, COLUMNS)
        x, y = column * TILE, row * (TILE + CAPTION)
        draw.text((x + TILE / 2, y + CAPTION / 2), caption, "#1f2328", font, anchor="mm")
        side = min(frame.shape[:2])
        top, left = (frame.shape[0] - side) // 2, (frame.shape[1] - side) // 2
        square = Image.fromarray(frame[top : top + side, left : left + side])
        picture.paste(square.resize((TILE, TILE), Image.Resampling.LANCZOS), (x, y + CAPTION))
    return picture


DRAWINGS = {"regret": draw_regret, "pair": draw_pair, "report": draw_report, "tasks": draw_tasks}


def main(names: list[str]) -> int:
    """Draw the named pictures, or all of them."""
    if unknown := set(names) - set(DRAWINGS):
        one = sorted(unknown)[0]
        print(f"unknown picture {one}; it must be one of {', '.join(DRAWINGS)}", file=sys.stderr)
        return 2
    os.environ.pop("NARL_RUNS", None)
    for name in names or DRAWINGS:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # for MuJoCo's log
            picture = DRAWINGS[name]().convert("RGB")
        target = FOLDER / f"{name}.png"
        picture.quantize(128, dither=Image.Dither.NONE).save(target, optimize=True)
        print(target.name, picture.size, f"{target.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
