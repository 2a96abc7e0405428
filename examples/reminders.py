"""Remind customers of their carts: a change of a cart moves its reminder, and an order cancels it.

Usage: python examples/reminders.py changed CUSTOMER [DELAY]
       python examples/reminders.py ordered CUSTOMER
       python examples/reminders.py serve
"""

import os
import sys

import tidemill

TOPIC = "carts"  # of kind timer


def changed(mill, customer, delay="1h"):
    """Start the timer of a cart.  A record with the same key and id replaces the one that waits."""
    mill.send(TOPIC, {"customer": customer}, key=customer, delay=delay, timer_id=f"cart-{customer}")
    print(f"{customer} is reminded in {delay}")


def ordered(mill, customer):
    """Cancel the timer of a cart, if it waits.  This record is not delivered."""
    mill.send(TOPIC, None, key=customer, timer_id=f"cart-{customer}", headers={"tidemill-cancel": ""})
    print(f"{customer} is not reminded")


def serve(mill):
    @mill.worker(TOPIC, group="mailers", concurrency=8, attempts=5)
    def remind(message):
        print("still in the cart of", message.json()["customer"], flush=True)

    print("ready: Ctrl-C stops the worker", flush=True)
    mill.run()


with tidemill.connect(os.environ.get("TIDEMILL_BOOTSTRAP", "127.0.0.1:9092")) as connected:
    match sys.argv[1:]:
        case ["changed", customer, *delay]:
            changed(connected, customer, *delay)
        case ["ordered", customer]:
            ordered(connected, customer)
        case ["serve"]:
            serve(connected)
        case _:
            sys.exit(__doc__)
