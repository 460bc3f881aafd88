"""Facts about IR that passes and the lowering ask; no analysis writes IR."""
