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
  needed_step compile "Compilation" compile "$@"
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
