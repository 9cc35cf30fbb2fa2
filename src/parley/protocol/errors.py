"""What can go wrong in the protocol, and whose fault it is."""


class ProtocolError(Exception):
    """Anything the protocol refuses."""


class IllegalTransition(ProtocolError):
    """The caller named an action that the record's state does not have."""


class Disabled(ProtocolError):
    """The caller fired a rule whose left side or side condition does not hold in this soup."""


class Refused(ProtocolError):
    """The agent asked for something that it may not do. The agent reads the text."""


class Exhausted(Refused):
    """The agent asked for what a bound of the job ends: to ask for it again is of no use."""


class Violated(ProtocolError):
    """An invariant does not hold: the rules, or the record of them, are wrong."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name, self.problem = name, problem
