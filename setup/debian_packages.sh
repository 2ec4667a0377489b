# Which Debian packages are needed, and their installation.
build_packages=(g++ cmake ninja-build ccache pkg-config python3-venv python3-dev
  libhwy-dev libcli11-dev libcpp-httplib-dev nlohmann-json3-dev libfmt-dev libtomlplusplus-dev libmimalloc-dev libboost-dev libpugixml-dev
  libjs-chart.js libsentencepiece-dev libutf8proc-dev libssl-dev zlib1g-dev libzstd-dev libsimdjson-dev libpng-dev libjpeg62-turbo-dev)
test_packages=(libgtest-dev librapidcheck-dev clang-format-14 clang-14 libclang-rt-14-dev libomp-14-dev llvm-14
  chromium chromium-driver)

# Prints those of its arguments that are not installed.
missing_packages() {
  local package
  command -v dpkg-query >/dev/null || { printf '%s\n' "$@"; return; }
  for package in "$@"; do
    [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || printf '%s\n' "$package"
  done
}

# Empty for root, "sudo" where sudo works (it may ask for the password here, before output goes to a log).
find_privilege() {
  privilege=()
  ((EUID == 0)) && return
  command -v sudo >/dev/null || return 1
  if ! sudo -n true 2>/dev/null; then
    [[ -t 0 ]] || return 1
    sudo -v || return 1
  fi
  privilege=(sudo)
}

apt_install() {
  # Package lists may be absent or stale; where they cannot be refreshed, the ones that exist may still do.
  "${privilege[@]}" apt-get update || true
  "${privilege[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
}

install_packages() {  # install_packages SIZE PACKAGE…
  local size=$1 missing
  shift
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ! command -v apt-get >/dev/null; then
    stop "Debian packages: expected apt-get, got none; install what corresponds to: ${missing[*]}"
  fi
  say "  Debian packages to install (up to $size to download):"
  say "    ${missing[*]}" | fold -s -w 110 | sed '2,$s/^/    /'
  if ! find_privilege; then
    say
    say "Installing them takes an administrator. Run this once, then $program again:"
    say
    say "  apt-get update && apt-get install --yes --no-install-recommends ${missing[*]}"
    exit 1
  fi
  needed_step packages "Debian packages" apt_install "${missing[@]}"
}
