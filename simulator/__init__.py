"""The whole engine in a simulated world: one seed, one run, bit for bit the same.

    python -m simulator --seed 17 --trace

Clock, ids, disk, processes and the human are simulated; the engine, the rules, the scripted agent and the
memory store are the real ones. Faults come from the same seed.
"""
