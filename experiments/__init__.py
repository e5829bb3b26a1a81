"""Experiments: one folder each, with its claim, its command, what it is expected to show, and the figure it makes."""
