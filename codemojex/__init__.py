"""codemojex: a Telegram game, and the reference application of a Valkey-native job system."""
