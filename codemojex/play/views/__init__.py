"""What a game looks like: folds of its stream."""
