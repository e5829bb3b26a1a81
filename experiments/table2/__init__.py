"""The paper's table of algorithms for linear mixture MDPs: its exponents, claimed and measured, in one scale."""
