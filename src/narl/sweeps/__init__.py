"""Sweeps: many runs of a grid, on one machine or many, each done once.

`grid` makes the configurations, `tasks` groups those that share a program, `run_task` does the
work of one process, `driver` and the executors spread the tasks, `status` reads how far they are.
"""
