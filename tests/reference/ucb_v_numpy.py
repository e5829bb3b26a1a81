"""UCB-V in both forms: with rho and ln T (Fan et al. 2024, Algorithm 1), and the classical one with zeta and c."""

import math

from . import ucb1_numpy


class Twin(ucb1_numpy.Twin):
    """UCB-V one round at a time: UCB1 with another index."""

    def index(self, seen: list[float], num_played: int) -> float:
        """maximum:    mean + max(sd, R sqrt(rho ln T / n)) sqrt(rho ln T / n)
        classical:  mean + sqrt(2 zeta sd^2 ln t / n) + 3 c R zeta ln t / n in round t
        """
        n, numbers = len(seen), self.numbers
        mean = sum(seen) / n
        variance = sum((y - mean) ** 2 for y in seen) / n
        if numbers["form"] == "maximum":
            root = math.sqrt(numbers["rho"] * math.log(numbers["num_rounds"]) / n)
            return mean + max(math.sqrt(variance), self.noise_bound * root) * root
        log_t = math.log(num_played + 1)
        first = math.sqrt(2 * numbers["zeta"] * variance * log_t / n)
        return mean + first + 3 * numbers["c"] * self.noise_bound * numbers["zeta"] * log_t / n
