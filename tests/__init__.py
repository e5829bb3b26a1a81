"""Tests of jaxvar."""
