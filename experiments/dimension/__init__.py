"""Regret against the dimension, with noise and without."""
