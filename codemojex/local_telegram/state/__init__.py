"""What the local Telegram remembers, and what people do."""
