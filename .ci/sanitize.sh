#!/usr/bin/env bash
# Builds the kernels with AddressSanitizer and UndefinedBehaviorSanitizer and runs their tests.
#   sanitize.sh VENV DIRECTORY    VENV has the tools; all that is built goes into DIRECTORY
set -eu
venv=$1
directory=$2
cxx=${SANITIZE_CXX:-g++}

# A conversion to an integer that does not fit is undefined, too, but not part of "undefined".
checks=-fsanitize=address,undefined,float-cast-overflow
options="-O1;-g;-fno-omit-frame-pointer;-fno-sanitize-recover=all;-D_GLIBCXX_ASSERTIONS;$checks"

# A venv of its own: an editable install in the other one would come before any path. That one's
# tools are found by a plain path, which runs none of its .pth files.
"$venv/bin/python" -m venv --without-pip "$directory/venv"
python=$directory/venv/bin/python
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
{
  "$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
  pwd
} >"$site/tools.pth"
rm -rf "$site"/dbanon "$site"/dbanon-*
CXX=$cxx "$venv/bin/python" -m pip --quiet install --no-build-isolation --no-deps --upgrade \
  --target "$site" --config-settings=build-dir="$directory/cmake" \
  --config-settings=cmake.build-type=Debug \
  --config-settings=cmake.define.DBANON_OPTIONS="$options" \
  --config-settings=cmake.define.DBANON_LINK_OPTIONS="$checks" .

# Python is not built with them, so their runtime comes first, and the C++ library with it: else
# exceptions thrown before it is loaded are not found. Leaks are not looked for, as Python's own
# would drown any other.
export LD_PRELOAD
LD_PRELOAD="$("$cxx" -print-file-name=libasan.so) $("$cxx" -print-file-name=libstdc++.so)"
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
# -I: with the working directory first on the path, dbanon would be the source tree.
"$python" -I -c '
import sys
from dbanon.kernels import _kernels
if b"__asan_report" not in open(_kernels.__file__, "rb").read():
    sys.exit(f"not built with sanitizers: {_kernels.__file__}")'
# Of the sources nothing is to be compared: what is installed here comes without them.
"$python" -I -m pytest -p no:cacheprovider --quiet -x \
  tests/unit/kernels --ignore tests/unit/kernels/test_sources.py \
  tests/unit/partitioning/test_refine.py tests/unit/partitioning/test_instruction_sets.py \
  tests/unit/bounds "${@:3}"
