"""The parts of the page, in their order on it."""
