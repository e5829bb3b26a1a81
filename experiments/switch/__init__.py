"""How many rounds SAVE needs before its radius follows the variance, by its constants."""
