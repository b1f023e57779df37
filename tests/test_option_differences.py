"""The options in which configurations differ, from each other or from the defaults."""

from narl.option_differences import differing_options, without_defaults


def test_differing_options_are_those_without_one_value_for_all() -> None:
    configs = [
        {"same": (8, 8), "radius": 0.1, "joint": True, "only": None},
        {"same": [8, 8], "radius": None, "joint": True, "other": 1},
    ]
    assert differing_options(configs) == ["radius", "only", "other"]
    assert differing_options(configs[:1]) == differing_options([]) == []


def test_default_values_are_left_out_and_unknown_options_stay() -> None:
    options = {"hidden": [8, 8], "discount": 1, "radius": None, "new": 3}
    defaults = {"hidden": (8, 8), "discount": 1.0, "radius": 0.1, "batch": 256}
    assert without_defaults(options, defaults) == {"radius": None, "new": 3}
