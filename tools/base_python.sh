#!/bin/sh
# Print the Python to make the virtual environment from: of those that are 3.11 or newer the first that can do all we
# ask of it (environments, and extensions: its headers are there), else the first.  Prints nothing where there is none.
#
#     tools/base_python.sh [CANDIDATE …]
#
# The distribution's comes first.  It was built with profile-guided optimization; what a version manager compiled
# usually was not: with it, three brokers and their client took a sixth fewer records of 100 bytes a second.
# `make BASE_PYTHON=…` takes another one.  A name may be a shim of a version that is not installed, so each is run.

is_new='import sys; sys.exit(sys.version_info < (3, 11))'
is_complete='
import ensurepip, os, sys, sysconfig, venv
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))'

[ $# -gt 0 ] || set -- /usr/bin/python3 python3 python3.13 python3.12 python3.11
first=
for candidate; do
    "$candidate" -c "$is_new" 2>/dev/null || continue
    if "$candidate" -c "$is_complete" 2>/dev/null; then
        echo "$candidate"
        exit
    fi
    first=${first:-$candidate}
done
echo "$first"
