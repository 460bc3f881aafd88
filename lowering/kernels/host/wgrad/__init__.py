"""Gradients of weights as outer products."""
