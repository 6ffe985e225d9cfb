"""Imported before aiogram, so that a test process does not wait for models that it does not use."""

from codemojex import deferred_aiogram

deferred_aiogram.load()
