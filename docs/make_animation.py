"""Make docs/pictures/mountain-car.gif: NARL and MBPO on MountainCarContinuous after 4000 steps.

usage: python docs/make_animation.py        (trains both, a few minutes on two cores)
"""

import io
from pathlib import Path

import gymnasium
import matplotlib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import narl

TARGET = Path(__file__).with_name("pictures") / "mountain-car.gif"
STEPS, SEED = 4000, 0
FRAME_EVERY, FRAMES_AT_END, MILLISECONDS = 2, 20, 60
NARL_COLOUR, MBPO_COLOUR, GREY = "#0072b2", "#d55e00", "#57606a"


def height(x: np.ndarray | float) -> np.ndarray:
    """Return the height of the mountain, as Gymnasium draws it."""
    return np.sin(3 * np.asarray(x)) * 0.45 + 0.55


def positions(agent: narl.Agent) -> list[float]:
    """Return the positions of the car in one episode of the trained policy."""
    env = gymnasium.make("MountainCarContinuous-v0")
    obs, _ = env.reset(seed=SEED)
    path, over = [float(obs[0])], False
    while not over:
        action, _ = agent.predict(obs)
        obs, _, terminated, truncated, _ = env.step(action)
        path.append(float(obs[0]))
        over = terminated or truncated
    return path


def frame(step: int, paths: dict[str, list[float]], colours: dict[str, str]) -> Image.Image:
    """Return one picture of the cars side by side."""
    figure = Figure(figsize=(7.2, 2.3), dpi=100, layout="constrained")
    slope = np.linspace(-1.2, 0.6, 200)
    for axes, (label, path) in zip(figure.subplots(1, len(paths)), paths.items(), strict=True):
        x = path[min(step, len(path) - 1)]
        axes.fill_between(slope, height(slope), color="#e3e7eb", linewidth=0)
        axes.plot([0.45, 0.45], [height(0.45), height(0.45) + 0.22], color=GREY, linewidth=1.2)
        axes.plot(0.49, height(0.45) + 0.18, marker=">", color="#e69f00", markersize=8)
        axes.plot(x, height(x) + 0.05, marker="o", color=colours[label], markersize=11)
        arrived = step >= len(path) - 1 and path[-1] >= 0.45
        where = "at the goal" if arrived else f"step {min(step, len(path) - 1)}"
        axes.set_title(f"{label}: {where}", fontsize=10, loc="left", color=colours[label])
        axes.set(xlim=(-1.2, 0.6), ylim=(0, 1.3), xticks=[], yticks=[], frame_on=False)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return Image.open(file).convert("P", palette=Image.Palette.ADAPTIVE, colors=32)


def main() -> None:
    """Train both agents and write the animation."""
    agents = {
        f"NARL after {STEPS} steps": narl.NARL(
            "MountainCarContinuous-v0", noise="reward", seed=SEED
        ),
        f"MBPO after {STEPS} steps": narl.MBPO("MountainCarContinuous-v0", seed=SEED),
    }
    paths = {}
    for label, agent in agents.items():
        agent.learn(STEPS, callback=lambda row: print(row["step"], row["eval_return"], flush=True))
        paths[label] = positions(agent)
        print(label, "final position", paths[label][-1], "after", len(paths[label]) - 1, flush=True)
    colours = dict(zip(paths, (NARL_COLOUR, MBPO_COLOUR), strict=True))
    length = min(map(len, paths.values()))
    steps = [*range(0, length, FRAME_EVERY), *[length] * FRAMES_AT_END]
    with matplotlib.rc_context({"font.family": "DejaVu Sans"}):
        frames = [frame(step, paths, colours) for step in steps]
    frames[0].save(
        TARGET,
        save_all=True,
        append_images=frames[1:],
        duration=MILLISECONDS,
        loop=0,
        optimize=True,
    )
    print(f"{TARGET}: {len(frames)} frames, {TARGET.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
