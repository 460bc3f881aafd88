"""Gradients of weights of few channels, by wgmma on halos."""
