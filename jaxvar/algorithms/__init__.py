"""Algorithms for bandits and for episodes: one file for each family, reading like its specification."""
