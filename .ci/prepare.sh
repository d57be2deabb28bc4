#!/usr/bin/env bash
# Installs what the Makefile needs from the system, where it may; says what is missing where it may not.
#   prepare.sh build      Python >= 3.11 with venv and headers, a C++ compiler: required
#   prepare.sh postgres   a PostgreSQL server with PL/Python, and pgbouncer: without one those tests skip (with CI=true they fail)
#   prepare.sh mariadb    a MariaDB server's programs, no service: without them those tests skip (with CI=true they fail)
#   prepare.sh browser    a browser to look at the HTML report: without one those tests skip (with CI=true they fail)
#   prepare.sh java       a Java 17 or 21 for Spark: without one those tests skip (with CI=true they fail)
set -eu
PYTHON=${PYTHON:-python3}

may_install() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; }

apt_update() {
  apt-get update </dev/null || echo "apt-get update failed; going on with the package lists at hand" >&2
}

apt_install() {
  echo "installing: $*" >&2
  DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@" </dev/null
}

missing_for_build() {
  local missing=()
  command -v "$PYTHON" >/dev/null || missing+=(python3)
  "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
  "$PYTHON" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
    missing+=(python3-dev)
  command -v "${CXX:-c++}" >/dev/null || missing+=(g++)
  echo "${missing[@]}"
}

prepare_build() {
  local missing
  missing=$(missing_for_build)
  if [ -n "$missing" ] && may_install; then
    apt_update
    # shellcheck disable=SC2086  # one word per package
    apt_install $missing
    hash -r
    missing=$(missing_for_build)
  fi
  if [ -n "$missing" ]; then
    echo "Missing for $PYTHON: $missing (Debian's package names). Install them, or choose another" \
      "interpreter with 'make PYTHON=...'." >&2
    exit 1
  fi
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "$PYTHON is $("$PYTHON" --version), dbanon needs Python 3.11 or newer: 'make PYTHON=...'" >&2
    exit 1
  }
}

# Major version of the newest server on this machine; the tests look in the same places.
server_major() {
  local bindir newest=
  for bindir in $(pg_config --bindir 2>/dev/null) /usr/lib/postgresql/*/bin \
    "$(dirname "$(command -v initdb || echo /nowhere/initdb)")"; do
    if [ -x "$bindir/initdb" ] && [ -x "$bindir/postgres" ]; then
      newest="$newest $("$bindir/postgres" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')"
    fi
  done
  echo "$newest" | tr ' ' '\n' | sort -n | tail -n 1
}

# Debian has it where only root's path leads.
has_pooler() { PATH=$PATH:/usr/sbin command -v pgbouncer >/dev/null; }

# Without it the tests behind a pooler skip, and say so; the campaign of faults says so, too.
prepare_pooler() {
  if has_pooler; then return 0; fi
  if may_install; then
    apt_update
    apt_install pgbouncer || true
  fi
  has_pooler || echo "No pgbouncer (on Debian: pgbouncer)" >&2
}

# Server, PL/Python and pg_cron; only Debian's own packages are completed: a server from elsewhere is
# its owner's business.
prepare_postgres() {
  local major
  major=$(server_major)
  if [ -n "$major" ]; then
    local files=/usr/lib/postgresql/$major/lib
    [ -d "$files" ] || return 0
    [ ! -e "$files/plpython3.so" ] || [ ! -e "$files/pg_cron.so" ] || return 0
  fi
  if may_install; then
    apt_update
    if [ -z "$major" ]; then
      major=$(apt-cache search --names-only '^postgresql-plpython3-[0-9]+$' |
        sed 's/^postgresql-plpython3-\([0-9]*\).*/\1/' | sort -n | tail -n 1)
    fi
    if [ -n "$major" ] && apt_install "postgresql-$major" "postgresql-plpython3-$major"; then
      # Without it one test skips, and says so.
      apt_install "postgresql-$major-cron" || echo "No pg_cron for PostgreSQL $major." >&2
      return 0
    fi
  fi
  # Not an error here: the tests decide whether they can do without.
  echo "No PostgreSQL server with PL/Python; on Debian: postgresql postgresql-plpython3-${major:-NN}" >&2
}

# The tests look in the same places, tests/mariadb_server.py.
has_mariadb() { PATH=$PATH:/usr/sbin:/usr/libexec command -v mariadbd >/dev/null; }

# Debian's package of the programs alone: no account, no data, nothing that starts.
prepare_mariadb() {
  if has_mariadb; then return 0; fi
  if may_install; then
    apt_update
    apt_install mariadb-server-core || true
  fi
  # Not an error here: the tests decide whether they can do without.
  has_mariadb || echo "No MariaDB server; on Debian: mariadb-server-core" >&2
}

# Chromium under any of the names that the tests look for, tests/browser.py.
has_browser() {
  local name
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null; then return 0; fi
  done
  return 1
}

prepare_browser() {
  if has_browser; then return 0; fi
  if may_install; then
    apt_update
    apt_install chromium fonts-dejavu-core || true
  fi
  # Not an error here: the tests decide whether they can do without.
  has_browser || echo "No browser; install Chromium (on Debian: chromium) or Google Chrome" >&2
}

# Java as tests/spark/cluster.py looks for it: that of JAVA_HOME, else the one on the path.
has_java() {
  local java=${JAVA_HOME:+$JAVA_HOME/bin/}java
  command -v "$java" >/dev/null &&
    "$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | grep -qE '^(1[7-9]|2[0-9])$'
}

prepare_java() {
  if has_java; then return 0; fi
  if may_install; then
    apt_update
    apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless || true
    hash -r
  fi
  # Not an error here: the tests decide whether they can do without.
  has_java || echo "No Java 17 or newer; install one (on Debian: openjdk-17-jre-headless)" >&2
}

case "${1:-}" in
  build) prepare_build ;;
  postgres) prepare_postgres && prepare_pooler ;;
  mariadb) prepare_mariadb ;;
  browser) prepare_browser ;;
  java) prepare_java ;;
  *) echo "usage: $0 build|postgres|mariadb|browser|java" >&2; exit 2 ;;
esac
