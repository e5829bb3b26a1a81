"""How fast jaxvar is beside other programs, how time grows, and what the compiler makes of a round."""
