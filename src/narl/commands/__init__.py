"""The commands of `narl`, a file each (a frozen dataclass and `main`), and what they share."""
