"""A record as an earlier Parley left it: transactions without digests, inputs without signatures."""

from parley.engine.chain import link
from parley.ports import Store, TransactionRow


def undigested(store: Store) -> list[TransactionRow]:
    """A job's transactions with the heads that they would have without digests and signatures."""
    (job,) = [row.job for row in store.jobs()]
    head, made = "", []
    for row in store.transactions(job):
        rows = (
            [step for step in store.steps(job) if step.transaction == row.number],
            [message for message in store.messages(job) if message.transaction == row.number],
            [given._replace(signature="") for given in store.inputs(job, waiting=False) if given.taken == row.number],
        )
        head, digests = link(head, row.number, row.time, row.epoch, *rows, digested=False)
        made.append(row._replace(head=head, digests=digests))
    return made
