"""Algorithms for bandits and for episodes: one file each, reading like its specification."""
