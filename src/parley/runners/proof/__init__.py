"""Proofs: acceptance commands run on a tree behind the boundary, judged by their exit codes."""

from parley.runners.proof.proof_runner import ProofRunner

__all__ = ["ProofRunner"]
