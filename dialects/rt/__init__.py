"""The rt dialect: programs of runtime calls on memrefs."""
