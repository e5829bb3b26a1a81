"""Bandit environments: where arms, means and noise come from."""
