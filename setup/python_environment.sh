# The Python environment: .venv with the pinned torch, or the environment of COGWHEEL_PYTHON with the torch it has.
torch_pin=2.13.0

# Sets torch_version, torch_is_new_enough, missing_python, cogwheel_installed and environment_bin.
read_environment() {  # read_environment PACKAGE…
  local state
  state=$("$python" "$root/setup/environment_state.py" "$@" 2>"$logs/python.log") ||
    stop "Python environment: $python does not run; see $logs/python.log"
  eval "$state"
}

pip() { "$python" -m pip "$@"; }

nvidia_gpu_visible() { compgen -G '/dev/nvidia[0-9]*' >/dev/null || compgen -G '/proc/driver/nvidia/gpus/*' >/dev/null; }

# A current pip reads the metadata of a remote wheel without the wheel; an old one would download gigabytes to say what
# it would install. Where pip cannot be renewed, the one that came with Python must do.
make_venv() {
  python3 -m venv --clear "$root/.venv" && { pip install --quiet --upgrade pip || true; }
}

warn_of_cuda_build() {
  local version kind
  nvidia_gpu_visible && return
  read -r version kind < <(pip install --dry-run --no-deps --ignore-installed --quiet --report - "torch==$torch_pin" \
    2>"$logs/torch-to-download.log" | "$python" "$root/setup/torch_to_download.py" 2>>"$logs/torch-to-download.log") || return 0
  [[ $kind == cuda ]] || return 0
  say
  say "  No NVIDIA GPU is visible here, yet pip would take torch $version with CUDA: 2.7 GB to download, 4.7 GB on disk."
  say "  It works without a GPU. The CPU build is a tenth of that (0.2 GB): stop with Ctrl-C, set PIP_EXTRA_INDEX_URL to"
  say "  the CPU index that PyTorch's installation page names (or PIP_FIND_LINKS to a folder with the wheel), start again."
  say
  [[ ! $terminal ]] || sleep 10
}

prepare_python() {  # prepare_python PACKAGE…: the Python packages wanted beside torch
  if [[ ${COGWHEEL_PYTHON:-} ]]; then
    python=$(command -v "$COGWHEEL_PYTHON") || stop "COGWHEEL_PYTHON: expected a Python, got '$COGWHEEL_PYTHON'"
    read_environment "$@"
    [[ $torch_is_new_enough ]] ||
      stop "COGWHEEL_PYTHON: expected an environment with torch 2.11 or newer, got ${torch_version:-no torch}"
  else
    python="$root/.venv/bin/python"
    "$python" -c '' 2>/dev/null || needed_step venv "Python environment" make_venv
    read_environment "$@"
    if [[ ${torch_version%%+*} != "$torch_pin" ]]; then
      warn_of_cuda_build
      needed_step torch "torch $torch_pin" pip install "torch==$torch_pin"
      read_environment "$@"
    fi
  fi
  if [[ $missing_python ]]; then
    # Python compiles what is imported; all of transformers would take as long as the rest.
    # shellcheck disable=SC2086 # one word per package
    needed_step python-packages "Python packages" pip install --no-compile $missing_python
  fi
}

# Without all that it requires: of that, tasks tested here import only what prepare_python is given, and three packages of the
# rest are built from source, which takes longer than everything else together.
prepare_lm_eval() {
  read_environment lm-eval
  [[ ! $missing_python ]] || needed_step lm-eval "lm-eval" pip install --no-compile --no-deps lm-eval==0.4.13
}

# What is in the build folder, by the way that `pip install .` goes too: scikit-build-core finds it built.
install_cogwheel() {
  local stamp="$build/.installed"
  if [[ ! $cogwheel_installed || ! -f $stamp || $(<"$stamp") != "$python" ]] ||
    [[ $(find "$executable" "$operators" "$root/python" "$root/experiments" "$root/pyproject.toml" -newer "$stamp" \
      -not -path '*/__pycache__*' -print -quit) ]]; then
    needed_step cogwheel "Cogwheel for Python" pip install --no-build-isolation --no-deps -C build-dir="$build" \
      -C cmake.define.COGWHEEL_ALL_ISAS="$(cached COGWHEEL_ALL_ISAS)" \
      -C cmake.define.COGWHEEL_TESTS="$(cached COGWHEEL_TESTS)" "$root"
    printf '%s' "$python" >"$stamp"
  fi
}
