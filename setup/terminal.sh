# Steps with a log each. On a terminal a running step shows its time and what it says last; elsewhere only the result.
logs="$root/build/logs"
mkdir -p "$logs"

# Two set-ups in one folder would write the same files. The lock ends with this process; what it starts closes it (9>&-).
exec 9>"$root/build/.lock"
flock --nonblock 9 || { printf '%s: another ./quickstart or ./run-tests is at work in this folder\n' "$program" >&2; exit 1; }

if [[ -t 1 ]]; then terminal=yes; else terminal=; fi

say() { printf '%s\n' "$*"; }

stop() {  # stop MESSAGE [EXIT_CODE]
  printf '%s: %s\n' "$program" "$1" >&2
  exit "${2:-1}"
}

# Last line of a log that a person can use while waiting: without colours, cut to the terminal's width.
last_line() {
  local width=${COLUMNS:-80}
  tail -c 2000 "$1" 2>/dev/null | tr '\r' '\n' | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' | grep -v '^[[:space:]]*$' | tail -n 1 |
    cut -c "1-$((width - 34))"
}

running=0
interrupted() {
  ((running)) && kill -TERM -- "-$running" 2>/dev/null
  printf '\n%s: interrupted\n' "$program" >&2
  exit 130
}
trap interrupted INT TERM

# step NAME DESCRIPTION COMMAND…: runs the command with its output in build/logs/NAME.log, in a process group of its own
# so that Ctrl-C ends all of it. Returns the command's status.
step() {
  local name=$1 description=$2 log="$logs/$1.log" started=$SECONDS status=0
  shift 2
  set -m
  ("$@") >"$log" 2>&1 </dev/null 9>&- &
  running=$!
  set +m
  if [[ $terminal ]]; then
    while kill -0 "$running" 2>/dev/null; do
      printf '\r\033[K  %-22s %3d s  %s' "$description" $((SECONDS - started)) "$(last_line "$log")"
      sleep 0.5
    done
    printf '\r\033[K  %-22s ' "$description"
  else
    printf '  %-22s ' "$description"
  fi
  wait "$running" || status=$?
  running=0
  if ((status)); then
    printf 'failed after %d s\n' $((SECONDS - started))
  else
    printf 'done in %d s\n' $((SECONDS - started))
  fi
  return $status
}

# A step without which nothing else makes sense: on failure the last lines, the log, and the end.
needed_step() {
  step "$@" && return
  printf '\nThe last lines of %s:\n\n' "$logs/$1.log" >&2
  tail -n 25 "$logs/$1.log" >&2
  printf '\n' >&2
  stop "$2: failed; the whole log is $logs/$1.log"
}
