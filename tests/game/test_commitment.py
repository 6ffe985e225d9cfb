"""Commit and reveal: the published digest, and that nothing but the right code and nonce verifies."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemojex.game.commitment import commit, verify
from codemojex.game.sets import EMOJI_SETS

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "scoring.json").read_text(encoding="utf-8"))
VECTOR = VECTORS["commitment"]
NONCE = bytes.fromhex(VECTOR["nonce"])

codes = st.permutations(EMOJI_SETS["fruit"].tokens).map(lambda order: order[:6])
nonces = st.binary(min_size=16, max_size=16)


def test_the_published_commitment_comes_out_exactly() -> None:
    assert commit(VECTOR["tokens"], NONCE) == VECTOR["sha256"]
    assert verify(VECTOR["tokens"], NONCE, VECTOR["sha256"])


def test_spelling_of_the_emojis_and_of_the_digest_do_not_matter() -> None:
    spelled = [token + "\ufe0f" for token in VECTOR["tokens"]]
    assert verify(spelled, NONCE, " " + VECTOR["sha256"].upper() + "\n")


@given(codes, codes, nonces, nonces)
def test_only_the_same_code_and_nonce_verify(
    code: list[str], other: list[str], nonce: bytes, other_nonce: bytes
) -> None:
    digest = commit(code, nonce)
    assert verify(code, nonce, digest)
    assert verify(other, nonce, digest) == (other == code)
    assert verify(code, other_nonce, digest) == (other_nonce == nonce)


def test_a_malformed_nonce_or_digest_verifies_nothing() -> None:
    assert not verify(VECTOR["tokens"], NONCE[:8], VECTOR["sha256"])
    assert not verify(VECTOR["tokens"], NONCE, "")
    assert not verify(VECTOR["tokens"], NONCE, "я" * 64)


def test_a_nonce_of_another_size_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        commit(VECTOR["tokens"], b"short")
