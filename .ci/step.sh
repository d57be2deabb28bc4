#!/usr/bin/env bash
# Runs a command that takes long, calmly: its title, what it is at every 20 seconds, its warnings, the
# time it took. If it fails, everything that it printed.
#   step.sh TITLE COMMAND...
set -u
# pip's lines instead of its bars, and no advice to take another pip.
export PIP_PROGRESS_BAR=off PIP_DISABLE_PIP_VERSION_CHECK=1 NO_COLOR=1
title=$1
shift
log=$(mktemp)
command=
# bash lets commands in the background ignore an interrupt.
stop() { [ -z "$command" ] || kill "$command" 2>/dev/null; rm -f "$log"; exit 130; }
trap stop INT TERM
trap 'rm -f "$log"' EXIT

clock() { printf '%d:%02d' $((SECONDS / 60)) $((SECONDS % 60)); }
last_line() { grep -v '^[[:space:]]*$' "$log" | tail -n 1 | sed 's/^ *//' | cut -c 1-90; }

echo "== $title"
SECONDS=0
"$@" >"$log" 2>&1 </dev/null &
command=$!
next=20
while kill -0 "$command" 2>/dev/null; do
  sleep 0.5
  if [ "$SECONDS" -ge "$next" ]; then
    echo "   $(clock)  $(last_line)"
    next=$((SECONDS + 20))
  fi
done
wait "$command"
status=$?
command=
if [ "$status" -ne 0 ]; then
  cat "$log" >&2
  echo "   failed after $(clock) with exit status $status: $title" >&2
  exit "$status"
fi
grep -E '^ *(WARNING|DEPRECATION|W:|E:|warning:)|: warning:' "$log" >&2
echo "   done in $(clock)"
