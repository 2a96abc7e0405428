"""One decision about classic groups in progress: a `Decision` with the settings and the entropy that it may use."""

from tidemill.coordinator.deadlines import Deadlines
from tidemill.coordinator.decision import Decision
from tidemill.coordinator.group.group_settings import GroupSettings
from tidemill.coordinator.timestamps import Timestamps
from tidemill.model.entropy import Entropy


class DecisionBuilder(Decision):
    __slots__ = ("entropy", "settings")

    def __init__(self, settings: GroupSettings, entropy: Entropy, deadlines: Deadlines, timestamps: Timestamps) -> None:
        super().__init__(deadlines, timestamps)
        self.settings = settings
        self.entropy = entropy
