"""Commit–reveal: a fingerprint of the secret, published at the start, that anyone can re-compute at the end.

The digest is SHA-256 over the canonical tokens joined with U+001E, then U+001E and the 16-byte nonce in hex. The nonce
keeps the few possible codes from being tried out. Drawing the secret and the nonce is the caller's part.
"""

import hashlib
import hmac
from collections.abc import Sequence

from codemojex.game.emoji import canonical

NONCE_BYTES = 16
_SEPARATOR = "\x1e"


def commit(tokens: Sequence[str], nonce: bytes) -> str:
    """Give the commitment to a code as 64 hex digits. Raises `ValueError` for a nonce that is not 16 bytes."""
    if len(nonce) != NONCE_BYTES:
        raise ValueError(f"a nonce has {NONCE_BYTES} bytes, this one {len(nonce)}")
    parts = [canonical(token) for token in tokens]
    return hashlib.sha256(_SEPARATOR.join([*parts, nonce.hex()]).encode()).hexdigest()


def verify(tokens: Sequence[str], nonce: bytes, digest: str) -> bool:
    """Tell whether a revealed code and nonce are the ones committed to; a malformed nonce or digest is `False`."""
    if len(nonce) != NONCE_BYTES or not digest.isascii():
        return False
    return hmac.compare_digest(commit(tokens, nonce), digest.strip().lower())
