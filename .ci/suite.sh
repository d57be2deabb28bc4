#!/usr/bin/env bash
# Runs `make test` on another Debian suite, in a root directory of its own that has make and git alone:
# bookworm has Python 3.11 and PostgreSQL 15, trixie 3.13 and 17, sid the newest of both.
#   suite.sh SUITE [ARGUMENT OF PYTEST …]      as root, on Debian; DEBIAN_MIRROR names another mirror
# The minimal system is kept as build/suites/SUITE.tar, so that the next run need not unpack it again.
set -euo pipefail
suite=${1:-}
# The name becomes a directory that is removed.
[[ $suite =~ ^[a-z]+$ ]] || { echo "usage: make test-postgres SUITE=bookworm|trixie|sid" >&2; exit 2; }
shift
here=$(cd "$(dirname "$0")/.." && pwd)
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
archive=$here/build/suites/$suite.tar
root=$here/build/suites/$suite

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "Another suite's root directory is made by root, on Debian: run this with sudo there." >&2
  exit 1
fi
command -v debootstrap >/dev/null || apt-get install --yes --no-install-recommends debootstrap </dev/null

# Unmount before removing anything: a removal must not reach into this system's /dev.
leave() {
  local mounted
  for mounted in "$root/dev" "$root/proc"; do
    if mountpoint -q "$mounted"; then umount --lazy "$mounted"; fi
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

# pip trusts the same authorities and asks the same index as on this machine.
settings=(PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_DISABLE_PIP_VERSION_CHECK=1)
for name in PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_DEFAULT_TIMEOUT WORKERS; do
  [ -z "${!name:-}" ] || settings+=("$name=${!name}")
done
inside() { chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  HOME=/root LANG=C.UTF-8 "${settings[@]}" "$@"; }

clear_root
mkdir -p "$root"
if [ ! -e "$archive" ]; then
  debootstrap --variant=minbase --include=make,git,ca-certificates "$suite" "$root" "$mirror"
  # Rename at the end: an interrupted run leaves no half-written archive behind.
  tar --create --one-file-system --file "$archive.new" --directory "$root" --numeric-owner .
  mv "$archive.new" "$archive"
else
  tar --extract --file "$archive" --directory "$root" --numeric-owner
fi
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"
cp /etc/resolv.conf "$root/etc/resolv.conf"
authorities=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}
[ ! -e "$authorities" ] || cp "$authorities" "$root/etc/ssl/certs/ca-certificates.crt"

# The working tree as it is, new files included, in a repository of its own. The server's account reads it.
mkdir "$root/opt/dbanon"
git -C "$here" ls-files -z --cached --others --exclude-standard |
  tar --create --directory "$here" --null --ignore-failed-read --files-from - |
  tar --extract --directory "$root/opt/dbanon" --no-same-owner
chmod -R u=rwX,go=rX "$root/opt/dbanon"
inside git -C /opt/dbanon init --quiet
inside git -C /opt/dbanon add --all

# What would start at boot; the tests must not add to it.
services() { (cd "$root/etc" && find rc?.d systemd/system/*.wants -name 'S*' -o -name '*.service' -o -name '*.timer') \
  2>/dev/null | sort; }
before=$(services)
inside CI=true make -C /opt/dbanon demo
inside CI=true make -C /opt/dbanon test PYTEST_ARGS="$*"
inside sh -c '/opt/dbanon/.venv/bin/python -V; /opt/dbanon-tests/postgresql/usr/lib/postgresql/*/bin/postgres -V'
if ! diff <(echo "$before") <(services); then
  echo "make test left services that start at boot." >&2
  exit 1
fi
