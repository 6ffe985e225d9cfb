"""What several test folders share: real servers and clients of the local Telegram."""
