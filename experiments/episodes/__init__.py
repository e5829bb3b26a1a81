"""Episodes: whose regret flattens on a near-deterministic mixture, and whose bends on RiverSwim?"""
