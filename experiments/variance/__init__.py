"""Regret against the total variance, against a loose bound on the noise, and against how the variance is made up."""
