"""dbanon: k-anonymous releases of SQL tables, verified by recounting before they become visible.

Public names are imported when they are first used. ``import dbanon`` loads neither SQLAlchemy nor
pandas, because inside a database each new connection pays for every import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from dbanon import errors
    from dbanon.advice.answer import Advice
    from dbanon.data.partition import AttributePartition, Partition, Synthesis
    from dbanon.doors.advise import advise
    from dbanon.doors.analyses import compare_analyses
    from dbanon.doors.arrays import generalization_loss, information_loss, partition
    from dbanon.doors.evaluate import evaluate
    from dbanon.doors.frame import anonymize_frame
    from dbanon.doors.frame_report import FrameReport
    from dbanon.doors.jobfile.run import run_job
    from dbanon.doors.python import anonymize, plan
    from dbanon.doors.releases import (
        attempts,
        drop,
        drop_hierarchy,
        evaluate_release,
        list_hierarchies,
        load_hierarchy,
        releases,
        show,
        store_hierarchy,
        verify,
        verify_file,
    )
    from dbanon.doors.rules import declare, refresh, rules, undeclare
    from dbanon.errors import DbanonError
    from dbanon.extensions.attacks.interface import attack
    from dbanon.extensions.attacks.results import Attacks
    from dbanon.extensions.bounds.certificate import Certificate
    from dbanon.extensions.bounds.interface import certificate, lower_bound
    from dbanon.extensions.chains.interface import (
        chains,
        close_chain,
        create_chain,
        measure_chain,
        measure_releases,
        show_chain,
        withdraw,
    )
    from dbanon.extensions.chains.joint_measure import MeasuredReleases
    from dbanon.extensions.chains.manage import ChainShown, Measured
    from dbanon.extensions.survey.interface import disclosure_risk
    from dbanon.extensions.survey.risk_comparison import RiskComparison
    from dbanon.extensions.survey.sample_risk import SampleRisk
    from dbanon.extensions.synthesis.budgets import BudgetShown
    from dbanon.extensions.synthesis.interface import (
        budgets,
        create_budget,
        show_budget,
        synthesize,
    )
    from dbanon.extensions.synthesis.private import Budget
    from dbanon.hierarchy.tree import Hierarchy
    from dbanon.job.chain import Chain
    from dbanon.job.policy import Policy
    from dbanon.ledger.job_history import Attempt
    from dbanon.ledger.releases import Listed
    from dbanon.measures import Model
    from dbanon.methods import METHODS
    from dbanon.release.analysis_comparison import AnalysisComparison
    from dbanon.release.evaluation import Evaluation
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report
    from dbanon.run.evaluate_release import ReleaseEvaluation
    from dbanon.run.outlook import Outlook
    from dbanon.run.rules import Declared
    from dbanon.run.verify import PrivateVerification, Verification
    from dbanon.run.verify_export import VerifiedExport
    from dbanon.stores.hierarchies import Stored

# The module that defines each public name. ``Measured`` counts the persons of one chain,
# ``MeasuredReleases`` what several releases reveal together. ``Listed`` is a release, ``Stored`` a
# hierarchy, and ``Declared`` a rule, each as the database lists it.
_MODULE_OF_NAME = {
    "Advice": "dbanon.advice.answer",
    "AnalysisComparison": "dbanon.release.analysis_comparison",
    "Attacks": "dbanon.extensions.attacks.results",
    "Attempt": "dbanon.ledger.job_history",
    "AttributePartition": "dbanon.data.partition",
    "Budget": "dbanon.extensions.synthesis.private",
    "BudgetShown": "dbanon.extensions.synthesis.budgets",
    "Certificate": "dbanon.extensions.bounds.certificate",
    "Chain": "dbanon.job.chain",
    "ChainShown": "dbanon.extensions.chains.manage",
    "DbanonError": "dbanon.errors",
    "Declared": "dbanon.run.rules",
    "Evaluation": "dbanon.release.evaluation",
    "FrameReport": "dbanon.doors.frame_report",
    "Hierarchy": "dbanon.hierarchy.tree",
    "Listed": "dbanon.ledger.releases",
    "METHODS": "dbanon.methods",
    "Measured": "dbanon.extensions.chains.manage",
    "MeasuredReleases": "dbanon.extensions.chains.joint_measure",
    "Model": "dbanon.measures",
    "Outlook": "dbanon.run.outlook",
    "Partition": "dbanon.data.partition",
    "Policy": "dbanon.job.policy",
    "PrivateReport": "dbanon.release.private_report",
    "PrivateVerification": "dbanon.run.verify",
    "ReleaseEvaluation": "dbanon.run.evaluate_release",
    "Report": "dbanon.release.report",
    "RiskComparison": "dbanon.extensions.survey.risk_comparison",
    "SampleRisk": "dbanon.extensions.survey.sample_risk",
    "Stored": "dbanon.stores.hierarchies",
    "Synthesis": "dbanon.data.partition",
    "Verification": "dbanon.run.verify",
    "VerifiedExport": "dbanon.run.verify_export",
    "advise": "dbanon.doors.advise",
    "anonymize": "dbanon.doors.python",
    "anonymize_frame": "dbanon.doors.frame",
    "attempts": "dbanon.doors.releases",
    "attack": "dbanon.extensions.attacks.interface",
    "budgets": "dbanon.extensions.synthesis.interface",
    "certificate": "dbanon.extensions.bounds.interface",
    "chains": "dbanon.extensions.chains.interface",
    "close_chain": "dbanon.extensions.chains.interface",
    "compare_analyses": "dbanon.doors.analyses",
    "create_budget": "dbanon.extensions.synthesis.interface",
    "create_chain": "dbanon.extensions.chains.interface",
    "declare": "dbanon.doors.rules",
    "disclosure_risk": "dbanon.extensions.survey.interface",
    "drop": "dbanon.doors.releases",
    "drop_hierarchy": "dbanon.doors.releases",
    "evaluate": "dbanon.doors.evaluate",
    "evaluate_release": "dbanon.doors.releases",
    "generalization_loss": "dbanon.doors.arrays",
    "information_loss": "dbanon.doors.arrays",
    "list_hierarchies": "dbanon.doors.releases",
    "load_hierarchy": "dbanon.doors.releases",
    "lower_bound": "dbanon.extensions.bounds.interface",
    "measure_chain": "dbanon.extensions.chains.interface",
    "measure_releases": "dbanon.extensions.chains.interface",
    "partition": "dbanon.doors.arrays",
    "plan": "dbanon.doors.python",
    "refresh": "dbanon.doors.rules",
    "releases": "dbanon.doors.releases",
    "rules": "dbanon.doors.rules",
    "run_job": "dbanon.doors.jobfile.run",
    "show": "dbanon.doors.releases",
    "show_budget": "dbanon.extensions.synthesis.interface",
    "show_chain": "dbanon.extensions.chains.interface",
    "store_hierarchy": "dbanon.doors.releases",
    "synthesize": "dbanon.extensions.synthesis.interface",
    "undeclare": "dbanon.doors.rules",
    "verify": "dbanon.doors.releases",
    "verify_file": "dbanon.doors.releases",
    "withdraw": "dbanon.extensions.chains.interface",
}

__all__ = [
    "METHODS",
    "Advice",
    "AnalysisComparison",
    "Attacks",
    "Attempt",
    "AttributePartition",
    "Budget",
    "BudgetShown",
    "Certificate",
    "Chain",
    "ChainShown",
    "DbanonError",
    "Declared",
    "Evaluation",
    "FrameReport",
    "Hierarchy",
    "Listed",
    "Measured",
    "MeasuredReleases",
    "Model",
    "Outlook",
    "Partition",
    "Policy",
    "PrivateReport",
    "PrivateVerification",
    "ReleaseEvaluation",
    "Report",
    "RiskComparison",
    "SampleRisk",
    "Stored",
    "Synthesis",
    "Verification",
    "VerifiedExport",
    "advise",
    "anonymize",
    "anonymize_frame",
    "attack",
    "attempts",
    "budgets",
    "certificate",
    "chains",
    "close_chain",
    "compare_analyses",
    "create_budget",
    "create_chain",
    "declare",
    "disclosure_risk",
    "drop",
    "drop_hierarchy",
    "errors",
    "evaluate",
    "evaluate_release",
    "generalization_loss",
    "information_loss",
    "list_hierarchies",
    "load_hierarchy",
    "lower_bound",
    "measure_chain",
    "measure_releases",
    "partition",
    "plan",
    "refresh",
    "releases",
    "rules",
    "run_job",
    "show",
    "show_budget",
    "show_chain",
    "store_hierarchy",
    "synthesize",
    "undeclare",
    "verify",
    "verify_file",
    "withdraw",
]


def _import_name(name: str) -> Any:
    """Import a public name when it is first used."""
    if name == "__version__":
        from dbanon.version import version

        return version()
    if name == "errors":
        return import_module("dbanon.errors")
    if name == "plpython":
        # SQL functions of version 0.1.0 import this module, which tells the user to upgrade.
        return import_module("dbanon.doors.plpython")
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module 'dbanon' has no attribute {name!r}")
    try:
        value = getattr(import_module(_MODULE_OF_NAME[name]), name)
    except ModuleNotFoundError as error:
        # Import the errors only now, to keep ``import dbanon`` fast.
        from dbanon.errors import error_for_missing_extra

        missing_extra_error = error_for_missing_extra(error)
        if missing_extra_error is None:
            raise
        # The error's traceback refers to this frame. Without ``del``, the frame would refer to the
        # error, and neither would be freed soon.
        try:
            raise missing_extra_error from None
        finally:
            del missing_extra_error
    globals()[name] = value
    return value


# Type checkers know the names that are imported for them, and report any other one.
if not TYPE_CHECKING:
    __getattr__ = _import_name


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
