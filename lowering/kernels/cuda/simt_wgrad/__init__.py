"""`simt_wgrad`: backward weight of depthwise convolutions without tensor cores."""
