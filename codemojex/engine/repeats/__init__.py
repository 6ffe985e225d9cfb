"""Jobs that come again: one registration, one job per slot. The pump fires them."""
