#!/bin/sh
# Print the Python to make the virtual environment from: the first candidate of version 3.11 or newer that can create
# environments and compile extensions (its headers are installed), else the first one of that version.  Print nothing if
# there is none.
#
#     tools/base_python.sh [CANDIDATE …]
#
# The Python of the distribution comes first, because it was built with profile-guided optimization; a Python that a
# version manager compiled usually was not, and is a sixth slower (docs/decisions/0011-prefer-an-optimized-python.md).
# `make BASE_PYTHON=...` overrides the choice.  A candidate may be a shim of a version that is not installed, so each is
# run.

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
