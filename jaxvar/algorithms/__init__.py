"""Bandit algorithms: one file each, reading like its specification."""
