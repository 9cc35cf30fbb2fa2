"""Proofs: commands run on a tree behind the boundary, and what each of them did, as seen from outside."""

from parley.adapters.proving.runner import ProofRunner

__all__ = ["ProofRunner"]
