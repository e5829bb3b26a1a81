"""Regret against the horizon, the total reward being at most 1: whose is flat?"""
