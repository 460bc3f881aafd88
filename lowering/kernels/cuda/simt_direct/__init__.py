"""Direct convolution without tensor cores: depthwise, and small problems in f32."""
