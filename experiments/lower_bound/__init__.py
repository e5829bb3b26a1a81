"""Regret against the lower bounds, on the instances that prove them."""
