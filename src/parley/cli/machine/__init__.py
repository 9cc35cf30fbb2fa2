"""Commands about this machine and this user: checks, settings, trust, clean-up."""
