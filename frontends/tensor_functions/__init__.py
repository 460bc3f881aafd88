"""Functions of tensors that operators of several frontends are made of, as ops of an `Emitter`."""
