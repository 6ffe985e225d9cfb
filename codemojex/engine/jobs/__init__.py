"""One job from its admission to its settlement: enqueue, claim, settle, cancel, progress. It knows no worker."""
