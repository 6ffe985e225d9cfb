"""The Bot API and the control API over HTTP."""
