#!/usr/bin/env bash
# Runs the tests of stores and SQL on the PostgreSQL, Python and compiler of another Debian suite, in a
# root directory of its own: trixie has PostgreSQL 17, sid the newest.
#   postgres.sh SUITE [ARGUMENT OF PYTEST …]      as root, on Debian; DEBIAN_MIRROR names another mirror
# The system is kept as build/postgres/SUITE.tar, so that the next run begins with it.
set -euo pipefail
suite=${1:?name a suite: trixie or sid}
# It becomes the name of a directory that is removed.
[[ $suite =~ ^[a-z]+$ ]] || { echo "$suite is no name of a suite: trixie, sid" >&2; exit 2; }
shift
[ $# -gt 0 ] || set -- tests/sql tests/stores
here=$(cd "$(dirname "$0")/.." && pwd)
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
kept=$here/build/postgres/$suite.tar
root=$here/build/postgres/$suite

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "skipped: another suite's root directory is made by root, on Debian" >&2
  exit 0
fi
command -v debootstrap >/dev/null || apt-get install --yes --no-install-recommends debootstrap </dev/null

# What is mounted goes before the tree does: else a removal would reach into the system's own.
leave() {
  local place
  for place in "$root/dev" "$root/proc"; do
    if mountpoint -q "$place"; then umount --lazy "$place"; fi
  done
}
clear_root() {
  leave
  if mountpoint -q "$root/dev" || mountpoint -q "$root/proc"; then
    echo "still mounted below $root: nothing is removed" >&2
    exit 1
  fi
  rm -rf --one-file-system "$root"
}
trap leave EXIT
# Packages of the newest suites do not install without them.
enter() {
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --make-rslave "$root/dev"
}
inside() { chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  HOME=/root LANG=C.UTF-8 "$@"; }

clear_root
mkdir -p "$root"
if [ -e "$kept" ]; then
  tar --extract --file "$kept" --directory "$root" --numeric-owner
  enter
else
  debootstrap --variant=minbase "$suite" "$root" "$mirror"
  enter
  # No service starts, neither now nor when a package asks for it.
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod +x "$root/usr/sbin/policy-rc.d"
  major=$(inside apt-cache search --names-only '^postgresql-plpython3-[0-9]+$' |
    sed 's/^postgresql-plpython3-\([0-9]*\).*/\1/' | sort -n | tail -n 1)
  inside DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
    ca-certificates g++ make procps python3-dev python3-venv pgbouncer mariadb-server-core \
    "postgresql-$major" "postgresql-plpython3-$major" </dev/null
  inside apt-get clean
  # Written under another name first: a run that was killed leaves no half of one.
  tar --create --one-file-system --file "$kept.new" --directory "$root" --numeric-owner .
  mv "$kept.new" "$kept"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"

# Those who vouch for servers here do so there; pip is told what it is told here.
authorities=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}
[ ! -e "$authorities" ] || cp "$authorities" "$root/etc/ssl/certs/ca-certificates.crt"
settings=()
for name in PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_DEFAULT_TIMEOUT; do
  [ -z "${!name:-}" ] || settings+=("$name=${!name}")
done
settings+=(PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_DISABLE_PIP_VERSION_CHECK=1)

# What git knows and what is new, as it lies here; the server's account reads it, and nobody else writes it.
mkdir "$root/opt/dbanon"
git -C "$here" ls-files -z --cached --others --exclude-standard |
  tar --create --directory "$here" --null --ignore-failed-read --files-from - |
  tar --extract --directory "$root/opt/dbanon" --no-same-owner
chmod -R u=rwX,go=rX "$root/opt/dbanon"
inside "${settings[@]}" make -C /opt/dbanon setup
inside "${settings[@]}" sh -c '
  cd /opt/dbanon
  .venv/bin/python -V && /usr/lib/postgresql/*/bin/postgres -V
  CI=true exec .venv/bin/pytest -q -n 2 --dist loadfile --max-worker-restart 0 "$@"' sh "$@"
