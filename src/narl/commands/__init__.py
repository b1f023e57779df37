"""The commands of `narl`, a file each: a frozen dataclass of its configuration, and `main`."""
