"""`few_channels_wgrad`: the gradient of the weights of a layer with a few channels on one side."""
