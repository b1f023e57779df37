"""Memory that this machine has left."""

from narl import host_memory
from narl.host_memory import available_host_memory, size_as_text


def test_available_memory_is_that_of_the_machine_and_the_container(monkeypatch, tmp_path):
    listed = tmp_path / "meminfo"
    monkeypatch.setattr(host_memory, "_MEMINFO", listed)
    monkeypatch.setattr(host_memory, "_CGROUP", tmp_path)
    assert available_host_memory() is None
    listed.write_text("MemTotal:  9 kB\n")
    assert available_host_memory() is None
    listed.write_text("MemTotal:  9 kB\nMemAvailable:    2048 kB\nSwapFree: 7 kB\n")
    assert available_host_memory() == 2 * 2**20
    (tmp_path / "memory.current").write_text("300\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert available_host_memory() == 2 * 2**20
    (tmp_path / "memory.max").write_text("5300\n")
    assert available_host_memory() == 5000


def test_sizes_are_shown_in_megabytes_or_gigabytes():
    assert [size_as_text(size) for size in (1_500_000, 2_000_000_000)] == ["1.5 MB", "2.0 GB"]
