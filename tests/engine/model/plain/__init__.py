"""The protocol in plain Python: what a server holds, and what each verb does to it. It knows no server."""
