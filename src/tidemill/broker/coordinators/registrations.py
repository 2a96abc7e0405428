"""The coordinators that every broker has: one registration for each internal topic with a coordinator."""

from typing import Final

from tidemill.broker.coordinators.coordinator_registration import AnyRegistration
from tidemill.broker.coordinators.group_coordinator import GROUPS

COORDINATORS: Final[tuple[AnyRegistration, ...]] = (GROUPS,)
