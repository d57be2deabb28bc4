#!/usr/bin/env bash
# Installs what the Makefile needs from the system, where it may; says what is missing where it may not.
#   prepare.sh build      Python >= 3.11 with venv and headers, a C++ compiler: required
#   prepare.sh postgres   programs of a PostgreSQL server with PL/Python, and pgbouncer, no service: without them those
#                         tests skip (with CI=true they fail)
#   prepare.sh mariadb    a MariaDB server's programs, no service: without them those tests skip (with CI=true they fail)
#   prepare.sh browser    a browser to look at the HTML report: without one those tests skip (with CI=true they fail)
#   prepare.sh java       a Java 17 or 21 for Spark: without one those tests skip (with CI=true they fail)
#   prepare.sh report     prints what the commands of the Makefile have left on this machine, and its size
# Nothing that it installs starts a service, now or when the machine boots.
set -eu
PYTHON=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
# Programs that only the tests use, readable by the account of their servers, and the list of Debian packages that
# were installed. tests/postgres/tools.py looks for the programs here.
PROGRAMS=${DBANON_TEST_PROGRAMS:-/opt/dbanon-tests}
# Tests of this script have a system of their own.
SYSTEM=${DBANON_TEST_SYSTEM:-}
POLICY=$SYSTEM/usr/sbin/policy-rc.d

may_install() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; }

apt_update() {
  "$here/step.sh" "Debian's lists of packages" apt-get update ||
    echo "apt-get update failed; going on with the package lists at hand" >&2
}

# The links by which systemd (of the machine and of its users) and SysV's init start something at boot.
boot_links() {
  {
    find "$SYSTEM/etc/systemd/system" "$SYSTEM/etc/systemd/user" -type l
    find "$SYSTEM"/etc/rc?.d -type l -name 'S*'
  } 2>/dev/null | sort
}

# Debian's packages ask this program before they start a service. A machine's own stays as it is.
forbid_starts() {
  [ -e "$POLICY" ] && ! grep -q 'dbanon/.ci/prepare.sh' "$POLICY" && return 0
  mkdir -p "$(dirname "$POLICY")"
  printf '#!/bin/sh\n# dbanon/.ci/prepare.sh made this while it installs packages, and removes it.\nexit 101\n' >"$POLICY"
  chmod 755 "$POLICY"
}
allow_starts() { if grep -qs 'dbanon/.ci/prepare.sh' "$POLICY"; then rm -f "$POLICY"; fi; }
unpacking=
clean_up() {
  allow_starts
  [ -z "$unpacking" ] || rm -rf "$PROGRAMS/download" "$PROGRAMS/postgresql.new"
}
trap clean_up EXIT

# Disables what was not enabled before; its argument is the earlier output of boot_links.
disable_new_services() {
  local link
  comm -13 <(echo "$1") <(boot_links) | while read -r link; do
    echo "   not started at boot: ${link##*/}"
    case ${link#"$SYSTEM"} in
      /etc/rc*) update-rc.d "$(basename "$(readlink "$link")")" disable || true ;;
      # As `systemctl disable` does. Debian takes it for the administrator's choice: an upgrade enables nothing again.
      *) rm -f "$link" ;;
    esac >/dev/null 2>&1
  done
}

installed_packages() { dpkg-query --show --showformat '${db:Status-Abbrev} ${Package}\n' | sed -n 's/^.i *//p' | sort -u; }

# run_apt TITLE COMMAND ARGUMENT...: runs a command of apt-get; the packages that it adds are noted.
run_apt() {
  local title=$1 links packages status=0
  shift
  links=$(boot_links)
  packages=$(installed_packages)
  mkdir -p "$PROGRAMS"
  forbid_starts
  DEBIAN_FRONTEND=noninteractive "$here/step.sh" "$title" \
    apt-get --yes --no-install-recommends "$@" || status=$?
  allow_starts
  disable_new_services "$links"
  comm -13 <(echo "$packages") <(installed_packages) >>"$PROGRAMS/debian-packages"
  return "$status"
}
apt_install() { run_apt "Debian packages: $*" install "$@"; }

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
  for bindir in $(pg_config --bindir 2>/dev/null) "$SYSTEM"/usr/lib/postgresql/*/bin \
    "$(dirname "$(command -v initdb || echo /nowhere/initdb)")"; do
    if [ -x "$bindir/initdb" ] && [ -x "$bindir/postgres" ]; then
      newest="$newest $("$bindir/postgres" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')"
    fi
  done
  echo "$newest" | tr ' ' '\n' | sort -n | tail -n 1
}

# Programs that were unpacked before a newer Debian replaced their libraries do not start any more.
has_unpacked_postgres() {
  local program
  for program in "$PROGRAMS"/postgresql/usr/lib/postgresql/*/bin/postgres; do
    if "$program" --version >/dev/null 2>&1; then return 0; fi
  done
  return 1
}

# A server from elsewhere than Debian's packages is its owner's business.
has_postgres() {
  local major files
  if has_unpacked_postgres; then return 0; fi
  major=$(server_major)
  [ -n "$major" ] || return 1
  files=$SYSTEM/usr/lib/postgresql/$major/lib
  [ -d "$files" ] || return 0
  [ -e "$files/plpython3.so" ] && [ -e "$files/pg_cron.so" ]
}

# Debian has it where only root's path leads.
has_pooler() { PATH=$PATH:$SYSTEM/usr/sbin:$PROGRAMS/postgresql/usr/sbin command -v pgbouncer >/dev/null; }

# What these .deb files need from others: not one another, and nothing that only configures a cluster.
libraries_of() {
  local file field
  for file in "$@"; do
    for field in Pre-Depends Depends; do dpkg-deb --field "$file" "$field"; done
  done | tr ',' '\n' | sed 's/^ *//; /^$/d' |
    grep -vE '^(postgresql|pgbouncer|ssl-cert|locales|debconf|init-system-helpers|lsb-base|sysvinit)' |
    sort -u | paste -s -d ,
}

# Debian's package of the server would make a cluster, an account and services. Its programs work wherever they lie, so
# they are unpacked, and only the libraries that they need are installed.
unpack_postgres() {
  local major=$1 folder=$PROGRAMS/postgresql packages=() extras=() package
  unpacking=yes
  if ! has_postgres; then
    rm -rf "$folder"
    packages=("postgresql-$major" "postgresql-client-$major" "postgresql-plpython3-$major")
    extras=("postgresql-$major-cron")
  fi
  has_pooler || extras+=(pgbouncer)
  rm -rf "$PROGRAMS/download" "$folder.new"
  mkdir -p "$PROGRAMS/download" "$folder.new"
  chmod 755 "$PROGRAMS" "$folder.new"
  cd "$PROGRAMS/download"
  [ "${#packages[@]}" -eq 0 ] || download "${packages[@]}"
  # Without one of these some tests skip, and say so.
  for package in "${extras[@]}"; do download "$package" || true; done
  run_apt "Debian packages: libraries of PostgreSQL $major" satisfy "$(libraries_of ./*.deb)"
  [ ! -e "$folder" ] || cp --archive "$folder/." "$folder.new"
  for package in ./*.deb; do dpkg-deb --extract "$package" "$folder.new"; done
  rm -rf "$folder"
  mv "$folder.new" "$folder"
}

# Not as apt's own account, which may not write here.
download() { "$here/step.sh" "download $*" apt-get --option APT::Sandbox::User=root download "$@"; }

prepare_postgres() {
  local major
  if has_postgres && has_pooler; then return 0; fi
  if may_install; then
    apt_update
    # The server that is here comes first: its package of PL/Python may be missing alone.
    major=$(server_major)
    if [ -z "$major" ]; then
      major=$(apt-cache search --names-only '^postgresql-plpython3-[0-9]+$' |
        sed 's/^postgresql-plpython3-\([0-9]*\).*/\1/' | sort -n | tail -n 1)
    fi
    # A process of its own: set -e is off in a command whose failure is allowed.
    [ -z "$major" ] || "$here/prepare.sh" unpack "$major" || true
  fi
  # Not an error here: the tests decide whether they can do without.
  has_postgres || echo "No PostgreSQL server with PL/Python; on Debian: postgresql postgresql-plpython3-${major:-NN}" >&2
  # Without it the tests behind a pooler skip, and say so; the campaign of faults says so, too.
  has_pooler || echo "No pgbouncer (on Debian: pgbouncer)" >&2
}

# The tests look in the same places, tests/mariadb_server.py.
has_mariadb() { PATH=$PATH:$SYSTEM/usr/sbin:$SYSTEM/usr/libexec command -v mariadbd >/dev/null; }

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
    # With dbus-x11 the desktop's libraries do not ask for systemd and its sessions of users.
    if dpkg-query --show --showformat '${Status}' dbus-user-session 2>/dev/null | grep -q ' installed'; then
      apt_install chromium fonts-dejavu-core || true
    else
      apt_install chromium fonts-dejavu-core dbus-x11 || true
    fi
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

# pyspark listens on localhost, which a root directory without /etc/hosts does not know.
prepare_localhost() {
  if getent hosts localhost >/dev/null || [ "$(id -u)" -ne 0 ]; then return 0; fi
  echo '127.0.0.1 localhost' >>"$SYSTEM/etc/hosts"
  echo "   added to /etc/hosts: 127.0.0.1 localhost"
}

prepare_java() {
  prepare_localhost
  if has_java; then return 0; fi
  if may_install; then
    apt_update
    local release
    for release in 17 21; do
      [ -n "$(apt-cache madison "openjdk-$release-jre-headless" 2>/dev/null)" ] || continue
      apt_install "openjdk-$release-jre-headless" || true
      break
    done
    hash -r
  fi
  # Not an error here: the tests decide whether they can do without.
  has_java || echo "No Java 17 or newer; install one (on Debian: openjdk-17-jre-headless)" >&2
}

# A line of du's output for each path that exists.
print_size() {
  local path=$1 description=$2
  [ ! -e "$path" ] || printf '  %6s  %s\n' "$(du --summarize --human-readable "$path" | cut -f 1)" "$description"
}

print_report() {
  local checkout pip_cache notes=$PROGRAMS/debian-packages
  checkout=$(dirname "$here")
  pip_cache=$("$checkout/.venv/bin/python" -m pip cache dir 2>/dev/null || true)
  echo "Left on this machine:"
  print_size "$checkout/.venv" "$checkout/.venv (make clean removes it)"
  print_size "$checkout/build" "$checkout/build (make clean removes it)"
  [ -z "$pip_cache" ] || print_size "$pip_cache" "$pip_cache, pip's cache ('.venv/bin/pip cache purge' empties it)"
  print_size "$PROGRAMS/postgresql" "$PROGRAMS/postgresql, programs of PostgreSQL for the tests (rm -r removes them)"
  [ "$(id -u)" -ne 0 ] || print_size /var/cache/apt/archives "/var/cache/apt/archives, Debian's downloads ('apt-get clean' empties it)"
  [ ! -s "$notes" ] ||
    echo "  $(sort -u "$notes" | wc -l) Debian packages that were not here before; $notes lists them"
}

case "${1:-}" in
  build) prepare_build ;;
  postgres) prepare_postgres ;;
  unpack) unpack_postgres "$2" ;;
  mariadb) prepare_mariadb ;;
  browser) prepare_browser ;;
  java) prepare_java ;;
  report) print_report ;;
  *) echo "usage: $0 build|postgres|mariadb|browser|java|report" >&2; exit 2 ;;
esac
