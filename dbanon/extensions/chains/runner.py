"""Plans and runs the jobs that name a chain.

A job may name the rules of its chain; the first run then creates the chain and its key.
"""

from __future__ import annotations

from dbanon.data.frozen import dataclass
from dbanon.errors import DatabaseNotFound
from dbanon.extensions.chains.key import key_exists
from dbanon.extensions.chains.manage import create, list_chains
from dbanon.extensions.chains.outlook import open_chain_source, plan_next_release
from dbanon.extensions.chains.run import run_chained
from dbanon.extensions.chains.staging import find_chain_stores
from dbanon.job.chain import Chain, ChainRules
from dbanon.job.job import Job
from dbanon.run.job_runner import JobRunner
from dbanon.run.key import key_path
from dbanon.sessions.store import Store


@dataclass(frozen=True)
class ChainToCreate:
    """The chain that the first run of a job will create, as the job's plan describes it."""

    chain: Chain

    def pairs(self) -> list[tuple[str, str]]:
        """Return the plan's lines about the chain, each a label and a text."""
        return [
            ("chain", f"{self.chain.name}: the first run creates it and its key {self.chain.key}")
        ]


class ChainRunner:
    """Makes the next release of a job's chain; see ``dbanon.run.job_runner.JobRunner``."""

    run = staticmethod(run_chained)
    open_source = staticmethod(open_chain_source)
    plan_release = staticmethod(plan_next_release)

    def plan_preparation(
        self, job: Job, source: Store, target: Store | None
    ) -> ChainToCreate | None:
        """Return the chain that a job's run will create; None if the chain or its key file exists.

        If a key file exists without its chain, the key belongs to a chain in another database, or
        the database was restored to an earlier state. Then the run refuses the job.
        """
        assert job.chain is not None
        if key_exists(job.chain.key):
            return None
        database, file_store = find_chain_stores(source, target)
        try:
            chain_names = {chain.name for chain in list_chains(database)}
        except DatabaseNotFound:
            if file_store is None:
                raise
            # The database for the releases of a file does not exist before the first release.
            chain_names = set()
        return None if job.chain.name in chain_names else ChainToCreate(job.chain)

    def prepare(self, job: Job, source: Store, target: Store | None) -> None:
        """Create the chain of a job and its key, if neither exists.

        Raises
        ------
        DbanonError : for the reasons given for ``dbanon.create_chain``; nothing was created.
        """
        if self.plan_preparation(job, source, target) is None:
            return
        database, file_store = find_chain_stores(source, target)
        assert job.chain is not None
        assert job.entity is not None
        rules = ChainRules(**job.chain.rules)
        key = key_path(job.chain.key)
        create(database, job.chain.name, job.table, job.entity, rules, key, file_store=file_store)


RUNNER: JobRunner = ChainRunner()
