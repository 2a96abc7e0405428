"""The headers of records in timer topics, and the bounds of their values.  `timer/` reads and checks them."""

from typing import Final

DELIVER_AT: Final = "tidemill-deliver-at"  # when the record is due
DELAY: Final = "tidemill-delay"  # or how long after its append
TIMER_ID: Final = "tidemill-timer-id"  # the name of a timer in its partition
CANCEL: Final = "tidemill-cancel"  # the record only cancels the timer with its id
SCHEDULE: Final = "tidemill-schedule"  # when the record recurs
TIMEZONE: Final = "tidemill-timezone"  # of its schedule
MISSED: Final = "tidemill-missed"  # what becomes of occurrences that are missed
ARRIVAL: Final = "tidemill-arrival"  # set by the broker when it releases the record
TIMESTAMP: Final = "tidemill-timestamp"  # likewise: the producer's timestamp
TIMER_HEADERS: Final = (DELIVER_AT, DELAY, TIMER_ID, CANCEL, SCHEDULE, TIMEZONE, MISSED, ARRIVAL, TIMESTAMP)

DUE_MS_MIN: Final = 10**11  # March 1973; smaller numbers are seconds by mistake
YEAR_1_MS: Final = -62_135_596_800_000  # when the year 1 begins, the earliest time; before 1970, a record is due at 0
DUE_MS_MAX: Final = 253_402_300_799_999  # the end of the year 9999
ID_BYTES_MAX: Final = 256
