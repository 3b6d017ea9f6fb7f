"""What the routes work with; `create_app` puts it into the app."""

from dataclasses import dataclass

from flask import current_app, g

from jobdb.accounts import Accounts
from jobdb.repository import JobDB
from pipeline.retention import Keeper

from .agents import Agents
from .analysis import Analyses
from .cache import Cache
from .charts import Charts
from .component_charts import ComponentCharts
from .deep_answers import DeepAnswers
from .detection import Detection
from .kept import Kept
from .layer_answers import LayerAnswers
from .lists import Lists
from .node_charts import NodeCharts
from .second_pass import SecondPass
from .signin import SignIn
from .told import Told
from .trace import Traces
from .viewer import VisibleJobs


@dataclass(frozen=True)
class Context:
    """The parts of one app."""

    jobdb: JobDB
    accounts: Accounts
    sign_in: SignIn
    analyses: Analyses
    cache: Cache
    charts: Charts
    node_charts: NodeCharts
    component_charts: ComponentCharts
    layers: LayerAnswers
    deep: DeepAnswers
    detection: Detection
    lists: Lists
    agents: Agents
    told: Told
    traces: Traces
    audits: Kept
    store: object
    status: object
    keeper: Keeper | None
    second_pass: SecondPass | None


def context() -> Context:
    """The parts of the app that answers."""
    return current_app.extensions["bellrock"]


def jobs() -> VisibleJobs:
    """The jobs that whoever asks may see."""
    return VisibleJobs(context().jobdb, g.viewer)


def analyses() -> Analyses:
    """Profiles and tables."""
    return context().analyses


def agents() -> Agents:
    """What the agents say of themselves."""
    return context().agents
