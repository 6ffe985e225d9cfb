"""Divides a queue fairly: lanes, and the limits that every claim keeps. It runs nothing."""
