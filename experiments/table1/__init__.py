"""The paper's comparison of linear bandit algorithms, measured: regret, how it grows, and what a round costs."""
