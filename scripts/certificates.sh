#!/usr/bin/env bash
# A small certificate authority in a folder, for TLS between agents and server, with openssl alone. docs/tls.md tells what goes where.
#
#   certificates.sh ca DIR                      DIR/ca.crt, which everybody gets, and DIR/ca.key, which stays here
#   certificates.sh server DIR NAME [NAME …]    DIR/NAME.crt and DIR/NAME.key of a server that agents know by these names or addresses
#   certificates.sh peer DIR NAME [NAME …]      the same of a server that also calls others of its kind, as nodes of Elasticsearch do
#   certificates.sh node DIR NAME [NAME …]      the same of an agent that may write the records of these nodes
#
# The first name gives the files theirs. What is there is replaced (key first, then certificate, each at once), but for a ca, which is kept.
# DAYS=365 (a ca: 3650) is how long a certificate holds; END=YYYYMMDDHHMMSSZ says when it ends, to the second.
set -euo pipefail

usage() {
  sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0" >&2
  exit 2
}

(($# >= 2)) || usage
kind=$1 dir=$2
shift 2
umask 077
mkdir -p "$dir"
cd "$dir"

# What a name is in a certificate.
entry() {
  if [[ $1 =~ ^[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+$ || $1 == *:* ]]; then echo "IP:$1"; else echo "DNS:$1"; fi
}

# Sets `new`: a folder of this run's own, removed at the end.
begin() {
  new=$(mktemp -d .new.XXXXXX)
  trap 'rm -rf "$new"' EXIT
}

key() { # FILE
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>"$new/log" || fail
}

fail() {
  cat "$new/log" >&2
  exit 1
}

make_ca() {
  if [[ -e ca.key ]]; then
    echo "$dir/ca.key is there already, and is kept" >&2
    return
  fi
  begin
  key "$new/ca.key"
  # The serial in the name: two authorities of one site stay two.
  openssl req -x509 -new -key "$new/ca.key" -sha256 -days "${DAYS:-3650}" -out "$new/ca.crt" -config <(
    printf '%s\n' '[req]' 'distinguished_name = name' 'prompt = no' 'x509_extensions = ca' '[name]' "CN = Bellrock CA $(openssl rand -hex 4)" \
      '[ca]' 'basicConstraints = critical, CA:TRUE, pathlen:0' 'keyUsage = critical, keyCertSign, cRLSign' 'subjectKeyIdentifier = hash'
  ) 2>"$new/log" || fail
  chmod 644 "$new/ca.crt"
  mv "$new/ca.crt" ca.crt
  mv "$new/ca.key" ca.key
}

issue() { # PURPOSE NAME …
  local purpose=$1 name=$2 names='' one
  shift
  for one in "$@"; do
    [[ $one =~ ^[A-Za-z0-9._:-]+$ && $one != .* && $one != -* && $one != ca ]] || { echo "not a name for a certificate: $one" >&2; exit 2; }
    names+=${names:+,}$(entry "$one")
  done
  [[ -e ca.key ]] || { echo "$dir/ca.key is missing. Run: $0 ca $dir" >&2; exit 1; }
  begin
  key "$new/key"
  printf '%s\n' '[req]' 'distinguished_name = name' 'prompt = no' '[name]' "CN = ${name:0:64}" >"$new/request.cnf"
  openssl req -new -key "$new/key" -config "$new/request.cnf" -out "$new/request" 2>"$new/log" || fail
  printf '%s\n' '[ca]' 'default_ca = site' '[site]' "database = $new/index" "new_certs_dir = $new" 'rand_serial = yes' 'unique_subject = no' \
    'default_md = sha256' 'policy = any' 'x509_extensions = leaf' '[any]' 'commonName = supplied' \
    '[leaf]' 'basicConstraints = critical, CA:FALSE' 'keyUsage = critical, digitalSignature' "extendedKeyUsage = $purpose" \
    "subjectAltName = $names" 'authorityKeyIdentifier = keyid' >"$new/ca.cnf"
  : >"$new/index"
  local period=(-days "${DAYS:-365}")
  [[ -z ${END:-} ]] || period=(-enddate "$END")
  # Begun an hour ago: clocks differ.
  openssl ca -batch -notext -config "$new/ca.cnf" -cert ca.crt -keyfile ca.key -in "$new/request" -out "$new/crt" \
    -startdate "$(date -u -d '-1 hour' +%Y%m%d%H%M%SZ)" "${period[@]}" >"$new/log" 2>&1 || fail
  chmod 644 "$new/crt"
  mv "$new/key" "$name.key"
  mv "$new/crt" "$name.crt"
}

case $kind in
  ca) make_ca ;;
  server) (($#)) || usage; issue serverAuth "$@" ;;
  peer) (($#)) || usage; issue serverAuth,clientAuth "$@" ;;
  node) (($#)) || usage; issue clientAuth "$@" ;;
  *) usage ;;
esac
