"""Calls that are decided, dispatched by C++ that the user's compiler makes."""
