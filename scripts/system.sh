#!/usr/bin/env bash
# Looks for what must come from the distribution and installs what is missing, as root with apt-get.
# `system.sh build [demo] [test] [site] [field] [bench]`: `build` cannot be done without; the others can, with less to see.
# Anyone else is told the one line to run. With nothing missing this takes some milliseconds and prints nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

essential=() optional=() notes=()

has() { command -v "$1" >/dev/null 2>&1; }
package_known() { [[ $(apt-cache policy "$1" 2>/dev/null) == *"Candidate: "[0-9]* ]]; }

# Sets cargo_package to the distribution's package with a cargo that is new enough; Debian 12 has one beside its old one.
cargo_package() {
  local version
  for cargo_package in cargo cargo-web; do
    version=$(apt-cache policy "$cargo_package" 2>/dev/null | sed -n 's/^ *Candidate: //p')
    [[ ${version#*:} =~ ^([0-9]+)\.([0-9]+) ]] || continue
    ((BASH_REMATCH[1] > 1 || BASH_REMATCH[2] >= 85)) && return 0
  done
  return 1
}

look_for_essential() {
  essential=()
  # A compiler alone is no use: the C library's headers come in a package of their own.
  if ! has cc || [[ ! -e /usr/include/stdio.h ]]; then essential+=(gcc libc6-dev); fi
  has make || essential+=(make)
  # Rust from the distribution where it is new enough; else rustup's installer is fetched.
  if ! scripts/rust.sh check; then
    if cargo_package; then essential+=("$cargo_package")
    elif ! has curl; then essential+=(curl ca-certificates); fi
  fi
  [[ -x .venv/bin/python ]] && return 0
  scripts/find_python.sh venv >/dev/null && return 0
  local python
  if python=$(scripts/find_python.sh); then
    essential+=("$("$python" -c 'import sys; print("python3.%d-venv" % sys.version_info.minor)')")
  elif [[ $(apt-cache policy python3 2>/dev/null) =~ Candidate:\ 3\.(1[1-9]|[2-9][0-9]) ]]; then
    essential+=(python3 python3-venv)
  else
    essential+=(python3.11 python3.11-venv) # Ubuntu 22.04: beside its 3.10
  fi
}

browser() {
  local name
  for name in "${BELLROCK_CHROMIUM:-chromium}" chromium-browser google-chrome-stable google-chrome; do
    has "$name" && return 0
  done
  return 1
}

# A Java that Elasticsearch can use; bellrock/stack/java.py looks closer.
java_21() {
  local home
  for home in ${JAVA_HOME:+"$JAVA_HOME"} /usr/lib/jvm/*; do
    grep -qsE '^JAVA_VERSION="(2[1-9]|[3-9][0-9])' "$home/release" && return 0
  done
  return 1
}

# The servers of a site, but for those that Maven fetches.
look_for_servers() {
  local package
  has redis-server || optional+=(redis-server)
  # Without the service that Debian's mariadb-server would start.
  has mariadbd || [[ -x /usr/sbin/mariadbd ]] || optional+=(mariadb-server-core)
  has mariadb || optional+=(mariadb-client-core)
  has setpriv || optional+=(util-linux)
  has openssl || optional+=(openssl)
  # For a machine that Ansible sets up in the tests.
  has debootstrap || optional+=(debootstrap)
  has mvn || optional+=(maven)
  # What MySQL's own build is linked with.
  if ! compgen -G '/usr/lib/*/libaio.so.1*' >/dev/null; then
    package=libaio1
    ! package_known libaio1t64 || package=libaio1t64
    optional+=("$package")
  fi
  compgen -G '/usr/lib/*/libnuma.so.1' >/dev/null || optional+=(libnuma1)
  java_21 && return 0
  for package in openjdk-21-jre-headless openjdk-25-jre-headless; do
    if package_known "$package"; then
      optional+=("$package")
      return 0
    fi
  done
  notes+=('No Java 21 or newer found, and no package of one is known: what needs Elasticsearch will be left out. Debian 12 has none; unpack a JDK and set JAVA_HOME.')
}

# The miniature machine of tests/field: Slurm with accounting, a forwarding layer, disks, and clocks that are off; and a fabric.
look_for_field() {
  has slurmctld || [[ -x /usr/sbin/slurmctld ]] || optional+=(slurmctld)
  has slurmd || [[ -x /usr/sbin/slurmd ]] || optional+=(slurmd)
  has slurmdbd || [[ -x /usr/sbin/slurmdbd ]] || optional+=(slurmdbd slurm-wlm-mysql-plugin)
  has sbatch || optional+=(slurm-client)
  has munge || optional+=(munge)
  has glusterd || [[ -x /usr/sbin/glusterd ]] || optional+=(glusterfs-server)
  has glusterfs || [[ -x /usr/sbin/glusterfs ]] || optional+=(glusterfs-client)
  has ip || [[ -x /usr/sbin/ip ]] || optional+=(iproute2)
  has mkfs.ext4 || [[ -x /usr/sbin/mkfs.ext4 ]] || optional+=(e2fsprogs)
  has losetup || [[ -x /usr/sbin/losetup ]] || optional+=(mount)
  # A fabric without hardware, its subnet manager, and the tools that ask switches.
  has ibsim || optional+=(ibsim-utils)
  has perfquery || [[ -x /usr/sbin/perfquery ]] || optional+=(infiniband-diags)
  # Its package starts it: not where there is a real fabric, which has a subnet manager already.
  has opensm || [[ -x /usr/sbin/opensm ]] || compgen -G '/sys/class/infiniband/*' >/dev/null || optional+=(opensm)
}

# Real programs whose records are measured, and a packer to measure them against.
look_for_bench() {
  has lmp || optional+=(lammps)
  has h5pcc || optional+=(libhdf5-openmpi-dev)
  has nc-config || optional+=(libnetcdf-dev)
  has zstd || optional+=(zstd)
}

look_for_optional() {
  optional=() notes=()
  local need
  for need in "$@"; do
    case $need in
      site) look_for_servers ;;
      field) look_for_field ;;
      bench) look_for_bench ;;
      demo)
        has fio || optional+=(fio)
        { has mpicc && has mpirun; } || optional+=(openmpi-bin libopenmpi-dev)
        ;;
      test)
        has strace || optional+=(strace)
        has musl-gcc || optional+=(musl-tools)
        compgen -G '/usr/lib*/*/faketime/libfaketimeMT.so.1' >/dev/null || optional+=(faketime)
        has openssl || optional+=(openssl)
        has ruby || optional+=(ruby)
        browser && continue
        # Ubuntu's package of this name only fetches a snap, which cannot be had in a container.
        if ! grep -q '^ID=ubuntu' /etc/os-release 2>/dev/null; then optional+=(chromium)
        elif has snap; then optional+=(chromium-browser)
        else notes+=('No Chromium found: the browser tests will be skipped. Install Chromium or Chrome, or set BELLROCK_CHROMIUM to its path.')
        fi
        ;;
    esac
  done
}

say_notes() {
  ((${#notes[@]} == 0)) || printf '%s\n' "${notes[@]}"
}

install() { # NAME TEXT PACKAGE …
  local name=$1 text=$2
  shift 2
  DEBIAN_FRONTEND=noninteractive scripts/step.sh "$name" "$text ($*)" \
    apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
}

needs=()
for need in "$@"; do [[ $need == build ]] || needs+=("$need"); done
look_for_essential
look_for_optional ${needs[@]+"${needs[@]}"}
missing=("${essential[@]}" "${optional[@]}")
if ((${#missing[@]} == 0)); then
  say_notes
  exit 0
fi

if ! has apt-get; then
  say_notes
  echo "Missing, by their Debian names: ${missing[*]}. Install them by your system's own means." >&2
  if ((${#essential[@]})); then exit 1; else exit 0; fi
fi

if ((EUID != 0)); then
  say_notes
  echo "Missing: ${missing[*]}. To install: sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
  if ((${#essential[@]})); then exit 1; fi
  echo 'Going on without: what needs them will be left out.' >&2
  exit 0
fi

scripts/step.sh apt-update 'Reading the list of Debian packages' apt-get update -o DPkg::Lock::Timeout=300
look_for_essential # which Python to ask for can be told only now
look_for_optional ${needs[@]+"${needs[@]}"} # and which packages there are
say_notes
if ((${#essential[@]})); then
  for package in "${essential[@]}"; do
    if [[ $package == python3* ]] && ! package_known "$package"; then
      echo "Bellrock needs Python 3.11 or newer, and this system's packages have none ($package). Install one, then: ${STEP_RETRY:-make build}" >&2
      exit 1
    fi
  done
  install apt 'Installing Debian packages' "${essential[@]}"
fi
if ((${#optional[@]})); then
  install apt-optional 'Installing Debian packages' "${optional[@]}" || echo 'Going on without: what needs them will be left out.' >&2
fi
