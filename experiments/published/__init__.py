"""Settings of published experiments, as their sources state them, with our numbers: one module each."""
