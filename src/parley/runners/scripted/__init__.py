"""Scripted agents: a playbook's rules, played in a process behind the boundary, with no model and no key."""
