"""The rules of random stories: each calls a verb of the engine and the model's function of the same meaning."""
