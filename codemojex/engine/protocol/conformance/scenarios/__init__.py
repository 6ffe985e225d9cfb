"""The scenarios, one module per subject; `ext_` modules go beyond the protocol."""
