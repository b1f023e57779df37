"""Hints in errors: a name only where it is alike, extras as the README installs them."""

from pathlib import Path

import pytest

from narl.errors import did_you_mean, install_hint, nearest, unknown


@pytest.mark.parametrize(
    ("name", "valid", "expected"),
    [
        ("riverswm", ("riverswim", "deep-sea"), "riverswim"),
        ("TRAIN", ("train", "tabular"), "train"),
        ("foo", ("doctor", "train"), None),
        ("lr", ("algo", "learning-rate"), None),
        ("x", (), None),
    ],
)
def test_nearest_name_must_be_alike(name, valid, expected):
    assert nearest(name, valid) == expected


def test_error_lists_the_choices_with_or_without_a_suggestion():
    assert did_you_mean("narll", ["narl"]) == "; did you mean 'narl'?"
    line = "algo: unknown value 'narll'; did you mean 'narl'? (one of narl, sac)"
    assert str(unknown("algo", "narll", ["narl", "sac"])) == line
    line = "algo: unknown value 'ddpg'; it must be one of narl, sac"
    assert str(unknown("algo", "ddpg", ["narl", "sac"])) == line


def test_long_list_of_choices_is_left_out_beside_a_suggestion():
    names = ["steps", *(f"q{number}" for number in range(30))]
    assert str(unknown("option", "stps", names)) == (
        "option: unknown value 'stps'; did you mean 'steps'?"
    )
    assert str(unknown("option", "xyz", names)).endswith("it must be one of " + ", ".join(names))


def test_hint_on_an_extra_is_the_command_of_the_readme():
    readme = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
    command, _, place = install_hint("video").partition(" in the ")
    assert f"\n{command} " in readme
    assert place == "folder of the clone"


def test_no_message_or_page_installs_narl_from_an_index():
    root = Path(__file__).resolve().parents[1]
    pages = (*root.glob("src/**/*.py"), *root.glob("docs/**/*.md"), root / "README.md")
    wrong = ("pip install narl", "pip install 'narl", 'pip install "narl')
    texts = {path: path.read_text(encoding="utf-8") for path in pages}
    assert [path for path, text in texts.items() if any(word in text for word in wrong)] == []
