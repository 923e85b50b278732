"""Kinds and a policy of somebody else's: nothing under src knows them."""
