"""How small the radius may be: the counts behind ``jaxvar.constants.practical``."""
