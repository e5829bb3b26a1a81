"""The paper's statements, confronted with data."""
