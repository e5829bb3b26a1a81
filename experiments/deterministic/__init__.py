"""Regret without noise: does it stop growing?"""
