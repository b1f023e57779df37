"""Colours and style of the drawings in docs/pictures.

Colours have one meaning in all drawings: blue is NARL (the optimistic choice), orange UCRL2 or a
confidence set, green what is true, grey what is left out. Curves of trainings have the colours of
their algorithms in reports and plots.
"""

NARL, UCRL2, TRUE, GREEDY, GREY, FAINT = (
    *("#0072b2", "#d55e00", "#009e73", "#000000", "#57606a", "#c3cad1"),
)
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "svg.hashsalt": "narl",
    "svg.fonttype": "path",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "axes.labelcolor": GREY,
}
