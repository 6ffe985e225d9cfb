"""What every screen shares: who acts where, what was pressed, and how people are answered."""
