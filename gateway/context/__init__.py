"""The conversation of one agent: the log is the truth, messages are its projection."""
