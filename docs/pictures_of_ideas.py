"""Drawings that explain: the idea, three ways to be optimistic, RiverSwim, a run of 20 seeds."""

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from picture_style import FAINT, GREEDY, GREY, NARL, TRUE, UCRL2

import narl

# --- the idea -------------------------------------------------------------------------------


def bootstrap_members(
    rng: np.random.Generator, num_members: int, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return data of a curve, and the predictions of members that saw random halves of the data."""
    data_x = np.concatenate([rng.uniform(0.02, 0.42, 16), rng.uniform(0.68, 0.78, 4)])
    data_y = _truth(data_x) + rng.normal(0, 0.03, data_x.size)
    centres = np.linspace(-0.1, 1.1, 9)

    def features(points: np.ndarray) -> np.ndarray:
        bumps = np.exp(-((points[:, None] - centres) ** 2) / (2 * 0.14**2))
        return np.concatenate([np.ones((len(points), 1)), bumps], axis=1)

    members = []
    for _ in range(num_members):
        chosen = rng.random(data_x.size) < 0.6
        design, prior = features(data_x[chosen]), rng.normal(0, 0.45, centres.size + 1)
        target = data_y[chosen] - design @ prior
        gram = design.T @ design + 0.01 * np.eye(design.shape[1])
        members.append(features(x) @ (prior + np.linalg.solve(gram, design.T @ target)))
    return data_x, data_y, np.stack(members)


def _truth(x: np.ndarray) -> np.ndarray:
    return 0.45 + 0.25 * np.sin(5.5 * x)


def draw_idea() -> Figure:
    """Draw an ensemble, the radius and the optimistic choice, and the loop around them."""
    figure = Figure(figsize=(8.4, 5.0), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(4.3, 1.1), width_ratios=(1.5, 1))
    x = np.linspace(0, 1, 200)
    data_x, data_y, members = bootstrap_members(np.random.default_rng(241), 5, x)
    at = 165
    radius = 0.24
    choice = narl.optimism.optimistic(jnp.asarray(members), radius)
    chosen, admitted = np.asarray(choice.member), np.asarray(choice.admitted)
    axes = figure.add_subplot(grid[0, 0])
    mean = members.mean(axis=0)
    axes.fill_between(x, mean - radius, mean + radius, color=NARL, alpha=0.1, linewidth=0)
    for member in members:
        axes.plot(x, member, color=FAINT, linewidth=1.3)
    # Where another member is chosen the line jumps.
    axes.plot(x, choice.value, color=NARL, linewidth=2.6, solid_joinstyle="round")
    axes.plot(data_x, data_y, "o", color=GREY, markersize=4)
    axes.axvline(x[at], color=GREY, linewidth=1, linestyle=(0, (3, 3)))
    axes.set(xlim=(0, 1), ylim=(-0.35, 1.35), xticks=[], yticks=[])
    axes.set_xlabel("states and actions")
    axes.set_ylabel("predicted reward and value")
    axes.set_title("Each model of the ensemble fits the data", loc="left", fontsize=11)
    axes.text(0.2, -0.26, "much data:\nthe models agree", ha="center", color=GREY)
    axes.text(0.57, -0.26, "little or no data:\nthey disagree", ha="center", color=GREY)
    axes.text(0.02, 1.24, "dots: data    grey: models    blue: NARL", color=GREY)
    _draw_choice(
        figure.add_subplot(grid[0, 1]), members[:, at], radius, chosen[at], admitted[:, at]
    )
    _draw_loop(figure.add_subplot(grid[1, :]))
    return figure


def _draw_choice(
    axes: Axes, values: np.ndarray, radius: float, chosen: int, admitted: np.ndarray
) -> None:
    mean = values.mean()
    axes.axhspan(mean - radius, mean + radius, color=NARL, alpha=0.1, linewidth=0)
    axes.axhline(mean, color=GREY, linewidth=1)
    for i, value in enumerate(values):
        colour = NARL if i == chosen else "#8c959f" if admitted[i] else UCRL2
        axes.plot(0.3, value, "o" if admitted[i] else "X", color=colour, markersize=11)
    outside = values[~admitted].max()
    notes = {
        "left out: outside the radius": (outside, UCRL2),
        "chosen: the best one inside": (values[chosen], NARL),
        "mean of the models": (mean - 0.02, GREY),
    }
    for text, (height, colour) in notes.items():
        axes.text(0.4, height, text, va="top" if colour == GREY else "center", color=colour)
    axes.annotate(
        "",
        (0.12, mean + radius),
        (0.12, mean),
        arrowprops={"arrowstyle": "<->", "color": NARL, "shrinkA": 0, "shrinkB": 0},
    )
    axes.text(0.09, mean + radius / 2, "radius ε", ha="right", va="center", color=NARL)
    axes.set(xlim=(-0.28, 1.35), ylim=(-0.35, 1.35), xticks=[], yticks=[])
    axes.set_title("The choice at the dashed line", loc="left", fontsize=11)


def _draw_loop(axes: Axes) -> None:
    steps = (
        ("environment", "real steps"),
        ("ensemble", "fitted to the data"),
        ("imagined steps", "optimistic choice"),
        ("policy", "learns from both"),
    )
    axes.set(xlim=(0, 4), ylim=(0, 1), xticks=[], yticks=[])
    axes.axis("off")
    for i, (title, note) in enumerate(steps):
        box = FancyBboxPatch(
            (i + 0.08, 0.36),
            0.78,
            0.56,
            boxstyle="round,pad=0,rounding_size=0.06",
            facecolor=NARL if i == 2 else "white",
            edgecolor=NARL,
            linewidth=1.4,
        )
        axes.add_patch(box)
        ink = "white" if i == 2 else "#1f2328"
        axes.text(i + 0.47, 0.73, title, ha="center", va="center", weight="bold", color=ink)
        axes.text(i + 0.47, 0.52, note, ha="center", va="center", fontsize=9, color=ink)
        if i < 3:
            arrow = {"arrowstyle": "-|>", "mutation_scale": 13, "color": GREY}
            axes.add_patch(FancyArrowPatch((i + 0.87, 0.64), (i + 1.07, 0.64), **arrow))
    axes.plot([3.47, 3.47, 0.47], [0.34, 0.14, 0.14], color=GREY, linewidth=1.2)
    axes.add_patch(
        FancyArrowPatch((0.47, 0.12), (0.47, 0.36), arrowstyle="-|>", mutation_scale=13, color=GREY)
    )
    axes.text(1.97, 0.0, "the policy acts where it hopes for most, and the data show the truth",
              ha="center", color=GREY)  # fmt: skip


# --- from UCRL2 to NARL to deep ensembles -----------------------------------------------------


def draw_three_ways() -> Figure:
    """Draw how UCRL2, NARL and a deep ensemble arrive at an optimistic value."""
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    ucrl2, narl_axes, deep = figure.subplots(1, 3, sharey=True)
    estimate, truth, rng = 0.45, 0.55, np.random.default_rng(3)
    place, beside = 0.2, 0.32
    for axes, title in (
        (ucrl2, "UCRL2:\na confidence set"),
        (narl_axes, "NARL: noise,\nand a maximum"),
        (deep, "Deep NARL:\nan ensemble"),
    ):
        axes.axhline(truth, color=TRUE, linewidth=1.4, linestyle=(0, (4, 3)))
        axes.set(xlim=(0, 1), ylim=(0, 1.1), xticks=[])
        axes.set_title(title, loc="left", fontsize=12)
    ucrl2.set_ylabel("value of an action", fontsize=11)
    ucrl2.set_yticks([])
    ucrl2.text(beside, truth + 0.02, "true value", color=TRUE, fontsize=11)
    ucrl2.plot(
        [place, place], [0.05, 0.85], color=UCRL2, linewidth=9, alpha=0.25, solid_capstyle="butt"
    )
    ucrl2.plot(place, estimate, "o", color=GREY, markersize=9)
    ucrl2.plot(place, 0.85, "o", color=UCRL2, markersize=11)
    ucrl2.text(beside, estimate - 0.03, "estimate", color=GREY, fontsize=11)
    ucrl2.text(beside, 0.87, "upper end of\nlikely values", va="center", color=UCRL2, fontsize=11)
    draws = estimate + 0.11 * rng.normal(size=10)
    spots = place + 0.06 * rng.normal(size=10)
    narl_axes.plot(spots, draws, "o", color=FAINT, markersize=8)
    narl_axes.plot(place, estimate, "o", color=GREY, markersize=9)
    best = draws.argmax()
    narl_axes.plot(spots[best], draws[best], "o", color=NARL, markersize=11)
    for axes, x, y, text, colour in (
        (narl_axes, 0.4, draws[best] + 0.03, "largest of\nM draws", NARL),
        (narl_axes, 0.4, estimate - 0.06, "estimate\nplus noise", GREY),
        (deep, beside, 0.68, "largest inside\nthe radius", NARL),
        (deep, beside, 0.98, "left out", UCRL2),
        (deep, beside, 0.42, "other\nmembers", GREY),
    ):
        axes.text(x, y, text, va="center", color=colour, fontsize=11)
    members = np.array([0.4, 0.46, 0.52, 0.68, 0.98])
    mean, radius = members.mean(), 0.22
    deep.axhspan(mean - radius, mean + radius, color=NARL, alpha=0.1, linewidth=0)
    deep.plot(np.full(3, place), members[:3], "o", color="#8c959f", markersize=9)
    deep.plot(place, members[3], "o", color=NARL, markersize=11)
    deep.plot(place, members[4], "X", color=UCRL2, markersize=11)
    return figure


def draw_shrinking() -> Figure:
    """Draw how much optimism is left after N visits, for UCRL2's interval and NARL's noise."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.subplots()
    visits = np.arange(1, 1001)
    width = narl.theory.beta_r(visits, 0.05 / (2 * 6 * 2))
    rng = np.random.default_rng(0)
    expected_max = rng.normal(size=(20_000, 10)).max(axis=1).mean()
    axes.plot(visits, width, color=UCRL2, label="UCRL2: half width of the interval, β(N)")
    for c, style in ((1.0, (0, (4, 2))), (0.005, "solid")):
        label = f"NARL: mean of the largest of 10 draws, variance {c:g}/N"
        axes.plot(
            visits, expected_max * np.sqrt(c / visits), color=NARL, linestyle=style, label=label
        )
    axes.set(xscale="log", yscale="log", ylim=(1e-3, 5))
    axes.set_xlabel("visits N of a state and action")
    axes.set_ylabel("added to the reward")
    axes.legend(frameon=False, fontsize=9, loc="lower left")
    return figure


# --- from runs ------------------------------------------------------------------------------


def draw_decomposition() -> Figure:
    """Draw what three agents expect and what they get on RiverSwim: the terms of Eq. 1."""
    mdp = narl.tabular.riverswim()
    agents = {"narl-ucrl": ("NARL", NARL), "ucrl2": ("UCRL2", UCRL2), "greedy": ("greedy", GREEDY)}
    figure = Figure(figsize=(10, 3.7), layout="constrained")
    for axes, (name, (label, colour)) in zip(
        figure.subplots(1, 3, sharey=True), agents.items(), strict=True
    ):
        trace = narl.tabular.run(name, mdp, num_episodes=300, seeds=range(20))
        episodes = np.arange(1, 301)
        believed, played = trace.value.mean(axis=0), trace.policy_value.mean(axis=0)
        axes.fill_between(
            episodes,
            believed,
            trace.v_star,
            where=believed > trace.v_star,
            color=colour,
            alpha=0.16,
        )
        axes.fill_between(episodes, played, trace.v_star, color=GREY, alpha=0.16, linewidth=0)
        axes.axhline(trace.v_star, color=TRUE, linewidth=1.4, linestyle=(0, (4, 3)))
        axes.plot(episodes, played, color=GREY, linewidth=1.6)
        dashes = (0, (3, 3)) if name == "greedy" else "solid"  # it hides the other line
        axes.plot(episodes, believed, color=colour, linewidth=2, linestyle=dashes)
        regret = trace.regret.sum(axis=1).mean()
        axes.set_title(f"{label}: regret {regret:.0f} in 300 episodes", loc="left", fontsize=11)
        axes.set(xscale="log", xlim=(1, 300), ylim=(0, 21))
        axes.set_xlabel("episode")
        axes.set_xticks([1, 10, 100], ["1", "10", "100"])
        axes.set_yticks([0, 5, 10, 15, 20])
        axes.minorticks_off()
    first, middle, last = figure.axes
    first.set_ylabel("return of an episode")
    first.text(2.4, 14, "what the agent expects, Ṽ", color=NARL)
    first.text(30, trace.v_star + 0.5, "best possible, V*", color=TRUE, fontsize=9)
    middle.text(1.3, 8, "too high: optimism\n(V* − Ṽ, negative)", color=UCRL2)
    middle.text(8, 1.1, "grey area: regret", color=GREY, fontsize=9)
    last.text(
        1.3, 5, "it expects exactly what it gets,\nV(π), and never tries the rest", color=GREEDY
    )
    first.text(9, 1.6, "what it gets, V(π)", color=GREY, fontsize=9)
    return figure


def draw_riverswim() -> Figure:
    """Draw RiverSwim: six states, the current, the two rewards."""
    low, high = (-1.14, -1.08), (6.12, 1.12)
    figure = Figure(figsize=(5.2, 5.2 * (high[1] - low[1]) / (high[0] - low[0])))
    axes = figure.add_axes((0, 0, 1, 1))  # without margins, which cost much on a phone
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.axis("off")
    for state in range(6):
        colour = TRUE if state == 5 else UCRL2 if state == 0 else "white"
        ring = {"boxstyle": "circle,pad=0.45", "facecolor": colour, "edgecolor": GREY, "alpha": 0.9}
        ink = "white" if state in (0, 5) else GREY
        axes.text(
            state, 0, str(state), ha="center", va="center", color=ink, bbox=ring, weight="bold"
        )
    for state in range(5):
        right = {"connectionstyle": "arc3,rad=-0.45", "arrowstyle": "-|>", "mutation_scale": 12}
        axes.add_patch(
            FancyArrowPatch((state + 0.15, 0.3), (state + 0.85, 0.3), color=NARL, **right)
        )
        axes.add_patch(
            FancyArrowPatch((state + 0.85, -0.3), (state + 0.15, -0.3), color=GREY, **right)
        )
    axes.text(2.5, 0.85, "swim right: against the current, it often fails", ha="center", color=NARL)
    axes.text(2.5, -0.95, "swim left: always works", ha="center", color=GREY)
    axes.text(-0.4, 0, "reward\n0.005", ha="right", va="center", color=UCRL2)
    axes.text(5.4, 0, "reward\n1", ha="left", va="center", color=TRUE)
    return figure
