"""Checkpoints: the states of threads, each stored as a change of an earlier one."""
