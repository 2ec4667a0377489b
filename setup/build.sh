# CMake and Ninja, in build/.
build="$root/build"
executable="$build/cogwheel/cli/cogwheel"
operators="$build/cogwheel/ops/libcogwheel_ops.so"

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" 2>/dev/null; }

# Sets launcher. The cache goes by paths relative to this folder: what another copy of it compiled serves here too.
find_launcher() {
  launcher=()
  ! command -v ccache >/dev/null ||
    launcher=("-DCMAKE_CXX_COMPILER_LAUNCHER=env;CCACHE_BASEDIR=$root;CCACHE_NOHASHDIR=1;ccache")
}

configure() {  # configure TESTS(ON|OFF) ALL_ISAS(ON|OFF)
  local -a launcher
  find_launcher
  local -a options=(--preset release "-DTORCH_PYTHON=$python" "-DCOGWHEEL_TESTS=$1" "-DCOGWHEEL_ALL_ISAS=$2" "${launcher[@]}")
  # A build folder that was moved or copied names its old place.
  [[ -z $(cached CMAKE_HOME_DIRECTORY) || $(cached CMAKE_HOME_DIRECTORY) == "$root" ]] || options+=(--fresh)
  cd "$root" && cmake "${options[@]}"
}

# A unit that includes torch/torch.h takes up to 1.5 GB to compile.
compile_jobs() {
  local cores memory_kib
  cores=$(nproc)
  memory_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
  local by_memory=$((${memory_kib:-4000000} / 1600000))
  ((by_memory >= 1)) || by_memory=1
  printf '%d' $((cores < by_memory ? cores : by_memory))
}

compile() { ninja -C "$build" -j "$(compile_jobs)" "$@"; }

# The seconds of all units in the build folder, one after another, as they were compiled last.
unit_seconds() {
  awk -F'\t' '$4 ~ /\.o$/ { of[$4] = $2 - $1 } END { for (unit in of) sum += of[unit]; printf "%d", sum / 1000 }' "$build/.ninja_log"
}

# Machines differ twofold, so a large compilation is told in a unit that differs with them: what a file takes that only
# includes <torch/types.h>, here and now. docs/results/set-up-and-tests.md has the number that changes are held to.
tell_units() {
  local root_of_torch started ended
  root_of_torch=$("$python" -I -c 'import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec("torch").origin).parent)') || return 0
  started=$(date +%s%N)
  printf '#include <torch/types.h>\n' | env CCACHE_DISABLE=1 "$(cached CMAKE_CXX_COMPILER)" -x c++ -std=c++20 -O3 -fPIC -fopenmp \
    -isystem "$root_of_torch/include" -isystem "$root_of_torch/include/torch/csrc/api/include" -c - -o /dev/null 2>/dev/null || return 0
  ended=$(date +%s%N)
  awk -v units="$(unit_seconds)" -v one="$(((ended - started) / 1000000))" 'BEGIN { if (one > 0)
    printf "  Units took %d s in all: %.0f times the %.1f s of a file that only includes <torch/types.h>.\n", units, 1000 * units / one, one / 1000 }'
}

# build_cogwheel TESTS(ON|OFF) ALL_ISAS(ON|OFF) [TARGET…]
build_cogwheel() {
  local tests=$1 all_isas=${2:-OFF}
  shift 2
  # A folder that has more configured keeps it: ./quickstart after ./run-tests need not configure again.
  [[ $(cached COGWHEEL_TESTS) != ON ]] || tests=ON
  [[ $(cached COGWHEEL_ALL_ISAS) != ON ]] || all_isas=ON
  if [[ ! -f $build/build.ninja || $(cached CMAKE_HOME_DIRECTORY) != "$root" || $(cached TORCH_PYTHON) != "$python" ||
    $(cached COGWHEEL_TESTS) != "$tests" || $(cached COGWHEEL_ALL_ISAS) != "$all_isas" ]]; then
    needed_step configure "Configuration" configure "$tests" "$all_isas"
  fi
  local before=$SECONDS
  needed_step compile "Compilation" compile "$@"
  ((SECONDS - before < 60)) || tell_units
}

# The kernels and their tests for a sanitizer, in a folder of their own: the preset asan or tsan.
configure_sanitizer() {  # configure_sanitizer PRESET
  local -a launcher
  find_launcher
  local -a options=(--preset "$1" "${launcher[@]}")
  [[ $(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/$1/CMakeCache.txt" 2>/dev/null) == "$root" ]] || options+=(--fresh)
  cd "$root" && cmake "${options[@]}"
}

compile_sanitizer() { configure_sanitizer "$1" && ninja -C "$build/$1" "${@:2}"; }

build_sanitizer() {  # build_sanitizer PRESET TARGET…
  needed_step "$1" "Compilation ($1)" compile_sanitizer "$@"
}
