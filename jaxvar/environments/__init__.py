"""Bandits and linear mixture MDPs: one file for each kind, with the noise and the checks they share."""
