# CMake and Ninja, in build/.
build="$root/build"
executable="$build/cogwheel/cli/cogwheel"

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" 2>/dev/null; }

configure() {  # configure TESTS(ON|OFF)
  local -a options=(--preset release "-DTORCH_PYTHON=$python" "-DCOGWHEEL_TESTS=$1" -DCOGWHEEL_PYTHON_PACKAGE=ON)
  # A build folder that was moved or copied names its old place.
  [[ -z $(cached CMAKE_HOME_DIRECTORY) || $(cached CMAKE_HOME_DIRECTORY) == "$root" ]] || options+=(--fresh)
  if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
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

# build_cogwheel TESTS(ON|OFF) [TARGET…]
build_cogwheel() {
  local tests=$1
  shift
  # A folder that has tests configured keeps them: ./quickstart after ./run-tests need not configure again.
  [[ $(cached COGWHEEL_TESTS) != ON ]] || tests=ON
  if [[ ! -f $build/build.ninja || $(cached CMAKE_HOME_DIRECTORY) != "$root" || $(cached TORCH_PYTHON) != "$python" ||
    $(cached COGWHEEL_TESTS) != "$tests" ]]; then
    needed_step configure "Configuration" configure "$tests"
  fi
  needed_step compile "Compilation" compile "$@"
}

# The kernels and their tests for a sanitizer, in a folder of their own: the preset asan or tsan.
configure_sanitizer() {  # configure_sanitizer PRESET
  local -a options=(--preset "$1")
  [[ $(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/$1/CMakeCache.txt" 2>/dev/null) == "$root" ]] || options+=(--fresh)
  if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cd "$root" && cmake "${options[@]}"
}

compile_sanitizer() { configure_sanitizer "$1" && ninja -C "$build/$1"; }

build_sanitizer() {  # build_sanitizer PRESET
  needed_step "$1" "Compilation ($1)" compile_sanitizer "$1"
}
