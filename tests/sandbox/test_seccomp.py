"""The filter, run by an interpreter of its language: for machines that are not here, too."""

import errno
import struct
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.sandbox import seccomp
from parley.sandbox.inside.syscalls import ARM, NUMBERS, X86, number

ALLOW, KILL = 0x7FFF0000, 0x80000000
MACHINES = [X86, ARM]
REFUSED = sorted({name for names in seccomp.REFUSED.values() for name in names})
WORDS = st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=6)


class Call(NamedTuple):
    """A system call, as the kernel shows it to a filter."""

    number: int
    arguments: tuple[int, ...] = (0,) * 6
    architecture: int | None = None


def decide(machine: str, call: Call, exempt: tuple[str, ...] = ()) -> int:
    """What the filter returns."""
    program = list(struct.iter_unpack("=HBBI", seccomp.assemble(exempt, machine)))
    architecture = seccomp.ARCHITECTURES[machine] if call.architecture is None else call.architecture
    padded = (*call.arguments, *[0] * 6)[:6]
    data = struct.pack("=iIQ6Q", call.number, architecture, 0, *padded)
    accumulator = place = 0
    while True:
        code, yes, no, operand = program[place]
        place += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, operand)
            continue
        taken = {
            0x15: accumulator == operand,
            0x35: accumulator >= operand,
            0x45: bool(accumulator & operand),
        }[code]
        place += yes if taken else no


def refused(error: int) -> int:
    return 0x00050000 | error


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", REFUSED)
def test_a_listed_call_is_refused(machine: str, name: str) -> None:
    if number(name, machine) >= 0:
        assert decide(machine, Call(number(name, machine))) == refused(errno.EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_what_programs_can_do_without_is_absent(machine: str) -> None:
    for name in ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"):
        assert decide(machine, Call(number(name, machine))) == refused(errno.ENOSYS)


@given(st.sampled_from(MACHINES), st.integers(0, 600), WORDS)
def test_any_other_call_is_let_through_whatever_its_arguments(machine: str, call: int, words: list[int]) -> None:
    listed = {number(name, machine) for name in NUMBERS}
    if call not in listed:
        assert decide(machine, Call(call, tuple(words))) == ALLOW


@given(st.sampled_from(MACHINES), st.integers(0, 600), st.integers(0, 2**32 - 1))
def test_another_architecture_is_killed(machine: str, call: int, architecture: int) -> None:
    if architecture != seccomp.ARCHITECTURES[machine]:
        assert decide(machine, Call(call, architecture=architecture)) == KILL


@given(st.integers(0, 600))
def test_the_other_calling_convention_is_absent(call: int) -> None:
    assert decide(X86, Call(seccomp.X32 | call)) == refused(errno.ENOSYS)


@given(st.sampled_from(MACHINES), st.integers(0, 2**64 - 1))
def test_clone_makes_no_namespace(machine: str, flags: int) -> None:
    expected = refused(errno.EPERM) if flags & 0x7E020000 else ALLOW
    assert decide(machine, Call(number("clone", machine), (flags,))) == expected


@given(st.sampled_from(MACHINES), st.integers(0, 50), st.integers(0, 2**32 - 1), st.integers(0, 300))
def test_sockets_are_plain_ones(machine: str, family: int, upper: int, protocol: int) -> None:
    """The kernel looks at the lower halves only: so must the filter."""
    call = Call(number("socket", machine), (family | upper << 32, 1, protocol))
    plain = family == 1 or (family in {2, 10} and protocol in {0, 6, 17}) or (family == 16 and protocol == 0)
    assert (decide(machine, call) == ALLOW) == plain


@given(st.sampled_from(MACHINES), st.sampled_from([0x5412, 0x541C, 0x5401, 0x5413]), st.integers(0, 2**32 - 1))
def test_no_program_types_into_the_terminal(machine: str, request: int, upper: int) -> None:
    call = Call(number("ioctl", machine), (0, request | upper << 32))
    assert (decide(machine, call) == ALLOW) == (request not in seccomp.INJECT)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("attempt", sorted({*seccomp.REFUSED, *seccomp.ABSENT}))
def test_an_exemption_lets_its_own_calls_through_and_no_others(machine: str, attempt: str) -> None:
    own = {*seccomp.REFUSED.get(attempt, ()), *seccomp.ABSENT.get(attempt, ())}
    for name in REFUSED:
        if number(name, machine) >= 0:
            let = decide(machine, Call(number(name, machine)), (attempt,)) == ALLOW
            assert let == (name in own)


def test_a_filter_is_as_short_as_the_kernel_wants_it() -> None:
    assert max(len(seccomp.assemble((), machine)) // 8 for machine in MACHINES) < 4096
