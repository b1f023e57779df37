"""Groups of equal keys."""

from narl.grouping import group_by


def test_groups_are_in_the_order_of_their_first_things() -> None:
    assert group_by([5, 2, 7, 4], lambda x: x % 2) == [[5, 7], [2, 4]]
    assert group_by([], str) == []
